"""Parts of the vendor's package that cannot run here; each raises when it is used."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import distributed as dist

from ranktable.simulate.simulation_error import NeedsChip, reported
from torch_tpu._run import FOLDER, RUN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

_MODULES = {
    "torch_tpu._C": "is compiled for a chip",
    "torch_tpu.accelerator": "adapts other libraries to a chip",
    "torch_tpu.dynamo": "compiles for a chip",
    "torch_tpu.jit": "compiles for a chip",
    "torch_tpu.tpu.bmodel_runtime": "runs a model compiled for a chip",
    "torch_tpu.tpu.bmrt": "runs a model compiled for a chip",
    "torch_tpu.tpu.custom_op": "has operators of a chip",
    "torch_tpu.tpu.graphs": "records what a chip does",
    "torch_tpu.tpu.jit": "compiles for a chip",
    "torch_tpu.tpu.nn": "has operators of a chip",
    "torch_tpu.tpu.versions": "says how the driver of a chip was built",
    "torch_tpu.utils": "serves the tests and tools of the vendor",
}
_GENERATORS = ("torch_tpu.tpu.gen_sccl_rank_table", "torch_tpu.utils.sccl_rank_table")
_GENERATE = "and this job has one; the command tpu_gen_sccl_rank_table makes others"
_NAMES = {
    "BmodelRunner": "runs a model compiled for it",
    "ExternalStream": "takes a queue of its driver",
    "GlobalOpTimer_dump": "shows what its operators took",
    "GlobalOpTimer_reset": "times its operators",
    "OpTimer_dump": "shows what its operators took",
    "OpTimer_reset": "times its operators",
    "TPUGraph": "records what a chip does",
    "caching_allocator_alloc": "takes memory of it",
    "caching_allocator_delete": "gives memory of it back",
    "current_blas_handle": "is for its libraries",
    "dtype_map": "is for models compiled for it",
    "format_cast": "lays tensors out as it wants them",
    "graph": "records what a chip does",
    "graph_pool_handle": "records what a chip does",
    "set_per_process_memory_fraction": "limits the memory of it",
    "start_cache": "keeps its memory",
    "stop_cache": "keeps its memory",
}
ABSENT = {name: NeedsChip(f"torch_tpu.tpu.{name}", why) for name, why in _NAMES.items()}
"""Names in ``torch_tpu.tpu`` that need a chip."""
_HOST_BACKEND = "scclhost"
_COMPILE = (
    "torch.compile with inductor makes code for a chip, and this chip is simulated: "
    'there is none; backend="eager" and backend="aot_eager" run'
)


class _Refused(ModuleType):
    """A module of the vendor whose contents need a chip."""

    def __getattr__(self, name: str) -> NeedsChip:
        if name.startswith("__"):
            raise AttributeError(name)
        full_name = f"{self.__name__}.{name}"
        if self.__name__ in _GENERATORS:
            return NeedsChip(full_name, "writes rank tables", _GENERATE)
        return NeedsChip(full_name, _what(self.__name__))


def _what(module: str) -> str:
    return next(what for name, what in _MODULES.items() if module.startswith(name))


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        names = (*_MODULES, *_GENERATORS)
        if not f"{fullname}.".startswith(tuple(f"{name}." for name in names)):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Refused(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Operators:
    """``torch.ops.my_ops`` or ``torch.ops.tpu``."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def __getattr__(self, name: str) -> NeedsChip:
        return NeedsChip(
            f"torch.ops.{self._namespace}.{name}", "is an operator of torch_tpu's own"
        )


def _no_host_backend(*_: object) -> NoReturn:
    raise reported(
        FOLDER,
        "scclHost is torch_tpu's own gloo, which is not simulated; "
        'init_process_group("gloo") does the same',
    )


def _on_chip(values: Sequence[object]) -> bool:
    return any(
        isinstance(value, torch.Tensor) and value.device.type == "tpu"
        for value in values
    )


_compile = torch.compile


def _compile_or_refuse(model: Any = None, **options: Any) -> Any:
    """Return the result of ``torch.compile``; refuse its compiler for a chip."""
    from torch._dynamo import trace_rules

    for part in ("device", "backend"):  # those of a vendor are in C++, so not traced
        trace_rules.add(f"ranktable.simulate.{part}")
    if options.get("backend", "inductor") != "inductor":
        return _compile(model, **options)
    if isinstance(model, torch.nn.Module) and _on_chip(list(model.parameters())):
        raise reported(FOLDER, _COMPILE)
    options["backend"] = _compile_on_cpu
    return _compile(model, **options)


def _refuse_compiled(*_: object) -> NoReturn:
    raise reported(FOLDER, _COMPILE)


def _compile_on_cpu(graph: Any, inputs: Sequence[Any], **_: object) -> Any:
    if _on_chip(inputs):
        return _refuse_compiled  # an error here would print internals of torch
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(graph, list(inputs))


# torch.distributed has a function of this name too.
_rendezvous: Any = sys.modules["torch.distributed.rendezvous"]
_Store = _rendezvous.TCPStore


def _store(
    host_name: str,
    port: int,
    *args: Any,
    timeout: timedelta,
    **options: Any,
) -> object:
    """Return a store; if no process serves it, raise in time."""
    limit_s = min(RUN.timeout_s, timeout.total_seconds())
    limit = type(timeout)(seconds=limit_s)
    try:
        return _Store(host_name, port, *args, timeout=limit, **options)
    except (dist.DistNetworkError, dist.DistStoreError) as error:
        if "in use" in str(error):
            raise
        address = f"tcp://{host_name}:{port}"
        message = f"rank 0 did not serve {address} within {limit_s:g} s"
        raise reported(FOLDER, message) from error


def refuse() -> None:
    """Install all of these."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
    for namespace in ("my_ops", "tpu"):
        setattr(torch.ops, namespace, _Operators(namespace))
    torch.compile = _compile_or_refuse
    _rendezvous.TCPStore = _store
    dist.Backend.register_backend(_HOST_BACKEND, _no_host_backend, devices=["tpu"])
