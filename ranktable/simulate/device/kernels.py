"""Which kernel torch gets for which operator, at which of its dispatch keys.

Some recipes (``lstm``, attention) run above autograd and choose other operators on
another device. There the whole operator runs on CPU aliases and records a graph of its
own, through which the backward pass goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import torch
from torch import _C, library
from torch.utils import _pytree

from ranktable.simulate.device import autocast, inventory
from ranktable.simulate.device.aliases import (
    MEMORY_KERNELS,
    aliases_of_shared,
    on_cpu,
    on_device,
)
from ranktable.simulate.device.cpp_objects import is_pinned
from ranktable.simulate.device.operators import (
    Arguments,
    forward,
    forwarded_names,
    operator_named,
    run,
)
from ranktable.simulate.device.schemas import plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch._ops import OpOverload


def copy_from(
    source: torch.Tensor,
    target: torch.Tensor,
    non_blocking: bool = False,  # noqa: ARG001, FBT001, FBT002 - torch's signature
) -> torch.Tensor:
    """Copy where at least one of the two is on the device."""
    if source.is_cpu or target.is_cpu:
        _host(target).copy_(_host(source))
    else:
        _copy_between_chips(source, target)
    return target


def copy_from_and_resize(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Copy after giving the target the source's size."""
    return copy_from(source, target.resize_(source.size()))


def to_copy(
    source: torch.Tensor,
    *,
    non_blocking: bool = False,  # noqa: ARG001 - torch's signature
    **options: Any,  # noqa: ANN401 - dtype, device, layout, memory_format: passed on
) -> torch.Tensor:
    """Return a copy with another type, layout or device."""
    result: torch.Tensor = run(torch.ops.aten._to_copy.default, source, **options)  # noqa: SLF001 - an operator
    return result


def ignore_stream(tensor: torch.Tensor, stream: object) -> None:
    """Note nothing: memory is not reused before it is free."""


def item(tensor: torch.Tensor) -> bool | complex:
    """Return the only element as a number."""
    return on_cpu(tensor).item()


def _copy_between_chips(source: torch.Tensor, target: torch.Tensor) -> None:
    shared = [alias for _, alias in aliases_of_shared((target, source))]
    host_target, host_source = shared or (on_cpu(target), on_cpu(source))
    host_target.copy_(host_source)


def _host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_cpu else on_cpu(tensor)


COPYING: dict[str, Callable[..., object]] = {
    "_copy_from": copy_from,
    "_copy_from_and_resize": copy_from_and_resize,
    "_local_scalar_dense": item,
    "_to_copy": to_copy,
    "record_stream": ignore_stream,
}


def convolution(*args: Any) -> torch.Tensor:  # noqa: ANN401 - passed on as they are
    """Return what the CPU's convolution returns."""
    result: torch.Tensor = run(torch.ops.aten.convolution.default, *args)
    return result


def convolution_backward(
    grad: torch.Tensor,
    source: torch.Tensor,
    weight: torch.Tensor,
    *geometry: Any,  # noqa: ANN401 - stride, padding, dilation, ...: passed on
) -> Sequence[torch.Tensor | None]:
    """Return the gradients of input, weight and bias that the mask asks for."""
    *sizes, output_mask = geometry
    result: Sequence[torch.Tensor | None] = run(
        torch.ops.aten.convolution_backward.default,
        grad,
        source,
        weight,
        [weight.size(0)],  # of the bias; only its presence in the mask matters
        *sizes,
        output_mask,
    )
    return result


CONVOLUTION: dict[str, Callable[..., object]] = {
    "convolution_overrideable": convolution,
    "convolution_backward_overrideable": convolution_backward,
}


_DEVICE, _SPARSE = "PrivateUse1", "SparsePrivateUse1"
_SPARSE_ROWS = "SparseCsrPrivateUse1"

_SYNCHRONISED = "SyncBatchNorm"

# By dispatch key, the operators that would make such a tensor, and its kind.
REFUSED = {
    _DEVICE: {
        "_to_sparse": "sparse",
        "_to_sparse.sparse_dim": "sparse",
        "_to_sparse_bsc": "sparse",
        "_to_sparse_bsr": "sparse",
        "_to_sparse_csc": "sparse",
        "_to_sparse_csr": "sparse",
        "quantize_per_channel": "quantised",
        "quantize_per_tensor": "quantised",
        "quantize_per_tensor_dynamic": "quantised",
        "to_mkldnn": "oneDNN",
        "batch_norm_elemt": _SYNCHRONISED,
        "batch_norm_stats": _SYNCHRONISED,
    },
    _SPARSE: {
        "_sparse_coo_tensor_with_dims": "sparse",
        "_sparse_coo_tensor_with_dims_and_tensors": "sparse",
        "empty.memory_format": "sparse",
    },
    _SPARSE_ROWS: {
        "_nnz": "sparse",
        "_sparse_compressed_tensor_unsafe": "sparse",
        "_sparse_compressed_tensor_with_dims": "sparse",
        "sparse_compressed_tensor.comp_plain_value_size": "sparse",
        "empty.memory_format": "sparse",
    },
    "QuantizedPrivateUse1": {"empty_quantized": "quantised"},
}


def refuse(kind: str) -> Callable[..., NoReturn]:
    """Return a kernel that raises one sentence."""

    def kernel(*_: object, **__: object) -> NoReturn:
        if kind == _SYNCHRONISED:
            raise RuntimeError(
                "SyncBatchNorm needs batch_norm_stats, which neither a simulated "
                f"{inventory.device_name()} nor the vendor has; use BatchNorm"
            )
        raise RuntimeError(
            f"a simulated {inventory.device_name()} holds dense tensors only, no "
            f"{kind} ones; convert to dense, or keep the tensor on the CPU"
        )

    return kernel


OPERATORS = (
    "gru.data",
    "gru.input",
    "gru_cell",
    "lstm.data",
    "lstm.input",
    "lstm_cell",
    "rnn_relu.data",
    "rnn_relu.input",
    "rnn_relu_cell",
    "rnn_tanh.data",
    "rnn_tanh.input",
    "rnn_tanh_cell",
    "scaled_dot_product_attention",
)


@dataclass(frozen=True, slots=True)
class _Call:
    """An operator with its arguments on the CPU, and those that are differentiated."""

    op: OpOverload
    positional: list[Any]
    named: dict[str, Any]
    aliases: list[torch.Tensor]
    chip: int

    def run(self) -> list[torch.Tensor]:
        results = self.op(*self.positional, **self.named)
        return [results] if isinstance(results, torch.Tensor) else list(results)


class _OnCpu(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch makes its class
        call: _Call,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            for alias in call.aliases:
                alias.requires_grad_()
            outputs = call.run()
        ctx.save_for_backward(*tensors)  # so that a change in between is noticed
        ctx.set_materialize_grads(value=False)  # None for an output that is not used
        ctx.call, ctx.outputs = call, outputs
        return tuple(on_device(output.detach(), call.chip) for output in outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any,  # noqa: ANN401 - as above
        *grads: torch.Tensor | None,
    ) -> tuple[torch.Tensor | None, ...]:
        ctx.saved_tensors  # noqa: B018 - reading them raises if they were changed
        used = [
            (output, on_cpu(grad))
            for output, grad in zip(ctx.outputs, grads, strict=True)
            if grad is not None
        ]
        found = torch.autograd.grad(
            [output for output, _ in used],
            ctx.call.aliases,
            [grad for _, grad in used],
            retain_graph=True,  # the graph ends with the node that holds it
            allow_unused=True,
        )
        chip = ctx.call.chip
        return None, *(
            grad if grad is None else on_device(grad, chip) for grad in found
        )


def on_cpu_graph(name: str) -> Callable[..., Any]:
    """Return a kernel that runs one operator on the CPU, with its graph."""

    def kernel(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any operator
        op = operator_named(name)
        arguments = Arguments(plan_of(op))
        positional = arguments.lower_all(args)
        named = arguments.lower_named(kwargs)
        leaves = _pytree.tree_leaves((positional, named))
        # Once each, also where a tensor is given twice: its gradient is that of all.
        of_grad = {id(leaf): leaf for leaf in leaves if _needs_grad(arguments, leaf)}
        aliases = list(of_grad.values())
        call = _Call(op, positional, named, aliases, arguments.chip)
        if not aliases or not torch.is_grad_enabled():
            results = [on_device(result, call.chip) for result in call.run()]
        else:
            originals = [arguments.originals[id(alias)] for alias in aliases]
            results = list(_OnCpu.apply(call, *originals))  # type: ignore[no-untyped-call]
        return results[0] if len(op._schema.returns) == 1 else tuple(results)  # noqa: SLF001 - an operator has no public schema

    return kernel


def _needs_grad(arguments: Arguments, leaf: object) -> bool:
    original = arguments.originals.get(id(leaf))
    return original is not None and original.requires_grad


def dropout(source: torch.Tensor, p: float, train: bool) -> torch.Tensor:  # noqa: FBT001 - torch's signature
    """Return the input with a share ``p`` of its elements zeroed, the rest scaled."""
    if not 0 <= p <= 1:
        raise RuntimeError(
            f"dropout probability has to be between 0 and 1, but got {p:g}"
        )
    if p == 0 or not train or not source.numel():
        return source
    if p == 1:
        return source * torch.zeros((), dtype=source.dtype, device=source.device)
    noise = torch.empty_like(source).bernoulli_(1 - p).div_(1 - p)
    return source * noise


_GROUP_NORM = "native_group_norm"
# Autograd's kernels are the same at each of its keys; that of the device is taken here.
_AUTOGRAD_KEYS = _C.DispatchKeySet(_C.DispatchKey.AutogradOther)
_whole = on_cpu_graph(_GROUP_NORM)


def group_norm(
    keys: _C.DispatchKeySet,
    source: torch.Tensor,
    *rest: Any,  # noqa: ANN401 - passed on
) -> Any:  # noqa: ANN401 - three tensors
    """Return the normalised input, the means, and the reciprocals of the deviations.

    Args:
        keys: What torch has still to do, from autograd on.
        source: The input.
        rest: Weight, bias, sizes and the least deviation.
    """
    if source.is_contiguous():
        op = torch.ops.aten.native_group_norm.default
        below = keys & _C._after_autograd_keyset  # noqa: SLF001 - no public way
        return op.redispatch(below | _AUTOGRAD_KEYS, source, *rest)
    return _whole(source, *rest)


_DEVICE, _AUTOGRAD = "PrivateUse1", "AutogradPrivateUse1"


class _Kernels(Protocol):
    """What is used of torch.library.Library, which has no types."""

    def impl(
        self,
        name: str,
        kernel: Callable[..., object],
        key: str,
        *,
        with_keyset: bool = False,
    ) -> None: ...

    def fallback(self, kernel: Callable[..., object], key: str) -> None: ...


_Library: Any = library.Library
_libraries: list[_Kernels] = []  # kernels go when their library does


def register() -> None:
    """Register every kernel, once in a process."""
    aten, everything = _Library("aten", "IMPL"), _Library("_", "IMPL")
    _libraries.extend((aten, everything))
    everything.fallback(run, _DEVICE)
    _register_operators(aten)
    _register_recipes(aten)
    _register_copies(aten)
    _register_autocast(aten, everything)
    for key, kinds in REFUSED.items():
        for name, kind in kinds.items():
            aten.impl(name, refuse(kind), key)


def _register_operators(aten: _Kernels) -> None:
    own: dict[str, Callable[..., object]] = {
        **COPYING,
        **MEMORY_KERNELS,
        **CONVOLUTION,
        "is_pinned": is_pinned,
    }
    for name, kernel in own.items():
        aten.impl(name, kernel, _DEVICE)
    for name in forwarded_names():
        if name not in own and name not in REFUSED[_DEVICE]:
            aten.impl(name, forward(name), _DEVICE)


def _register_recipes(aten: _Kernels) -> None:
    recipes = {name: on_cpu_graph(name) for name in OPERATORS}
    recipes["dropout"] = dropout
    for name, kernel in recipes.items():
        aten.impl(name, kernel, _AUTOGRAD)
        aten.impl(name, kernel, _DEVICE)  # tensors of inference mode have no autograd
    aten.impl(_GROUP_NORM, group_norm, _AUTOGRAD, with_keyset=True)


def _register_copies(aten: _Kernels) -> None:
    for key in ("Conjugate", "Negative"):
        # Its schema hides that it writes, so these keys would give it a copy to fill.
        aten.impl("_copy_from", library.fallthrough_kernel, key)
    aten.impl("is_pinned", is_pinned, "CPU")


def _register_autocast(aten: _Kernels, everything: _Kernels) -> None:
    everything.fallback(library.fallthrough_kernel, autocast.KEY)
    for cast, names in autocast.TABLES.items():
        for name in names:
            aten.impl(name, cast(name), autocast.KEY)
