"""Which kernel torch gets for which operator, at which of its dispatch keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import _C, library
from torch._decomp import decompositions
from torch.nn import functional

from ranktable.simulate.device import inventory
from ranktable.simulate.device.aliases import (
    MEMORY_KERNELS,
    aliases_of_shared,
    on_cpu,
)
from ranktable.simulate.device.cpp_objects import is_pinned
from ranktable.simulate.device.operators import (
    forward,
    forwarded_names,
    operator_named,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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


def lstm_cell(
    source: torch.Tensor, state: Sequence[torch.Tensor], *weights: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the next hidden state and the next cell."""
    parts = [a + b for a, b in zip(*_gates(4, source, state[0], *weights), strict=True)]
    enter, keep, out = parts[0].sigmoid(), parts[1].sigmoid(), parts[3].sigmoid()
    cell = keep * state[1] + enter * parts[2].tanh()
    return out * cell.tanh(), cell


def gru_cell(
    source: torch.Tensor, state: torch.Tensor, *weights: torch.Tensor
) -> torch.Tensor:
    """Return the next hidden state."""
    given, kept = _gates(3, source, state, *weights)
    reset, update = (given[0] + kept[0]).sigmoid(), (given[1] + kept[1]).sigmoid()
    new = (given[2] + kept[2] * reset).tanh()
    return (state - new) * update + new


def _gates(
    count: int, source: torch.Tensor, state: torch.Tensor, *weights: torch.Tensor
) -> list[Sequence[torch.Tensor]]:
    """Return what the input gives to each gate, and what the state does."""
    biases = weights[2:] or (None, None)
    return [
        functional.linear(each, weight, bias).chunk(count, 1)
        for each, weight, bias in zip((source, state), weights, biases)  # noqa: B905 - of weights the rest are biases
    ]


# Torch has one fused kernel for these on each device but the CPU, and none here.
RECURRENT: dict[str, Callable[..., Any]] = {
    "gru.data": decompositions.gru_impl_data,
    "gru.input": decompositions.gru_impl,
    "gru_cell": gru_cell,
    "lstm.data": decompositions.lstm_data_impl,
    "lstm.input": decompositions.lstm_impl,
    "lstm_cell": lstm_cell,
}


_AUTOGRAD, _AUTOCAST = "AutogradPrivateUse1", "AutocastPrivateUse1"
_CAST = ("addmm", "matmul", "mm")
"""What ``torch.autocast`` casts: torch_tpu registers these three and nothing else.

Source: sophgo/torch-tpu, torch_tpu/csrc/ops/autocast_ops/autocast_ops.cpp.
"""
_AUTOCAST_KEYS = _C.DispatchKeySet(_C._dispatch_key_parse(_AUTOCAST))  # noqa: SLF001 - as torch.library does


def cast(name: str) -> Callable[..., Any]:
    """Return a kernel that casts to the type of the ``autocast`` block."""

    def kernel(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any operator
        with _C._ExcludeDispatchKeyGuard(_AUTOCAST_KEYS):  # noqa: SLF001 - as above
            dtype = torch.get_autocast_dtype(inventory.device_name())
            cast_args = (_cast(value, dtype) for value in args)
            return operator_named(name)(*cast_args, **kwargs)

    return kernel


def _cast(value: Any, dtype: torch.dtype) -> Any:  # noqa: ANN401 - any argument
    is_cast = (
        isinstance(value, torch.Tensor)
        and value.device.type == inventory.device_name()
        and value.is_floating_point()
        and value.dtype is not torch.float64
    )
    return value.to(dtype) if is_cast else value


_Library: Any = library.Library  # it has no types
_libraries: list[Any] = []  # kernels go when their library does


def register() -> None:
    """Register every kernel, once in a process."""
    aten, everything = _Library("aten", "IMPL"), _Library("_", "IMPL")
    _libraries.extend((aten, everything))
    everything.fallback(run, _DEVICE)
    _register_operators(aten)
    for name, kernel in RECURRENT.items():
        aten.impl(name, kernel, _AUTOGRAD)
        aten.impl(name, kernel, _DEVICE)  # tensors of inference mode have no autograd
    for key in ("Conjugate", "Negative"):
        # Its schema hides that it writes, so these keys would give it a copy to fill.
        aten.impl("_copy_from", library.fallthrough_kernel, key)
    aten.impl("is_pinned", is_pinned, "CPU")
    everything.fallback(library.fallthrough_kernel, _AUTOCAST)
    for name in _CAST:
        aten.impl(name, cast(name), _AUTOCAST)
    for key, kinds in REFUSED.items():
        for name, kind in kinds.items():
            aten.impl(name, refuse(kind), key)


def _register_operators(aten: Any) -> None:  # noqa: ANN401 - torch's library
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
