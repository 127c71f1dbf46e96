"""Parts of the vendor's package that cannot run here; each raises when it is used."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

import torch
from torch import distributed as dist

from ranktable.simulate import child_groups
from ranktable.simulate.simulation_error import NeedsChip, reported
from torch_tpu._run import FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence

_MODULES = {
    "torch_tpu._C": "is compiled for a chip",
    "torch_tpu.accelerator": "adapts other libraries to a chip",
    "torch_tpu.dynamo": "compiles for a chip",
    "torch_tpu.jit": "compiles for a chip",
    "torch_tpu.tpu.bmodel_runtime": "runs a model compiled for a chip",
    "torch_tpu.tpu.bmrt": "runs a model compiled for a chip",
    "torch_tpu.tpu.custom_op": "has operators of a chip",
    "torch_tpu.tpu.gen_sccl_rank_table": "is tpu_gen_sccl_rank_table, a command",
    "torch_tpu.tpu.graphs": "records what a chip does",
    "torch_tpu.tpu.jit": "compiles for a chip",
    "torch_tpu.tpu.nn": "has operators of a chip",
    "torch_tpu.tpu.versions": "says how the driver of a chip was built",
    "torch_tpu.utils": "serves the tests and tools of the vendor",
}
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
    "get_sync_debug_mode": "shows where scripts wait for it",
    "graph": "records what a chip does",
    "graph_pool_handle": "records what a chip does",
    "set_per_process_memory_fraction": "limits the memory of it",
    "set_sync_debug_mode": "shows where scripts wait for it",
    "start_cache": "keeps its memory",
    "stop_cache": "keeps its memory",
}
ABSENT = {name: NeedsChip(f"torch_tpu.tpu.{name}", why) for name, why in _NAMES.items()}
"""Names in ``torch_tpu.tpu`` that need a chip."""
_HOST_BACKEND = "scclhost"


class _Refused(ModuleType):
    """A module of the vendor whose contents need a chip."""

    def __getattr__(self, name: str) -> NeedsChip:
        if name.startswith("__"):
            raise AttributeError(name)
        return NeedsChip(f"{self.__name__}.{name}", _what(self.__name__))


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
        if not f"{fullname}.".startswith(tuple(f"{name}." for name in _MODULES)):
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
        "scclHost is torch_tpu's own gloo for tensors on chips, which is not "
        'simulated; init_process_group("sccl") takes them, and a group with gloo those '
        "on the CPU",
    )


def refuse() -> None:
    """Install all of these."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
    for namespace in ("my_ops", "tpu"):
        setattr(torch.ops, namespace, _Operators(namespace))
    child_groups.install()
    dist.Backend.register_backend(_HOST_BACKEND, _no_host_backend, devices=["tpu"])
