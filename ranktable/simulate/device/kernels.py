"""The kernels of the device: which operator gets which, at which dispatch key."""

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
    not_dense,
    operator_named,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def copy_from(
    source: torch.Tensor,
    target: torch.Tensor,
    non_blocking: bool = False,
) -> torch.Tensor:
    """Copy a tensor from or to the device."""
    if source.is_cpu or target.is_cpu:
        _host(target).copy_(_host(source))
    else:
        _copy_between_chips(source, target)
    return target


def to_copy(
    source: torch.Tensor,
    *,
    non_blocking: bool = False,
    **options: Any,
) -> torch.Tensor:
    """Return a copy with another type, layout or device."""
    result: torch.Tensor = run(torch.ops.aten._to_copy.default, source, **options)
    return result


def ignore_stream(tensor: torch.Tensor, stream: object) -> None:
    """Do nothing: memory is not reused before it is free."""


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
    "_local_scalar_dense": item,
    "_to_copy": to_copy,
    "record_stream": ignore_stream,
}


def is_nested_faster(tensor: torch.Tensor, mask: torch.Tensor) -> bool:
    """Return False, so that TransformerEncoder does not make nested tensors."""
    return False


_DEVICE = "PrivateUse1"
_NOT_DENSE = {
    "SparsePrivateUse1": "sparse_coo",
    "SparseCsrPrivateUse1": "sparse_csr",
    "QuantizedPrivateUse1": "quantised",
}
_OF_SYNC_BATCH_NORM = ("batch_norm_elemt", "batch_norm_stats")


def refuse_not_dense(kind: str) -> Callable[..., NoReturn]:
    """Return a kernel that refuses tensors that are sparse or quantised."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise not_dense(kind)

    return refuse


def refuse_sync_batch_norm(*_: object) -> NoReturn:
    """Raise for the operator that only SyncBatchNorm calls."""
    raise RuntimeError(
        "SyncBatchNorm needs batch_norm_stats, which neither a simulated "
        "tpu nor the vendor has; use BatchNorm"
    )


_recipes: Any = decompositions  # some of its functions have no types


def lstm_cell(
    source: torch.Tensor,
    state: Sequence[torch.Tensor],
    weight: torch.Tensor,
    weight_of_state: torch.Tensor,
    *biases: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the next hidden state and the next cell."""
    bias, bias_of_state = biases or (None, None)
    given = functional.linear(source, weight, bias)
    found: tuple[torch.Tensor, torch.Tensor] = _recipes.lstm_cell(
        given, *state, weight_of_state, bias_of_state, None, 1
    )
    return found


def gru_cell(
    source: torch.Tensor,
    state: torch.Tensor,
    weight: torch.Tensor,
    weight_of_state: torch.Tensor,
    *biases: torch.Tensor | None,
) -> torch.Tensor:
    """Return the next hidden state."""
    bias, bias_of_state = biases or (None, None)
    found: torch.Tensor = _recipes.gru_cell_data(
        source, state, weight, bias, weight_of_state, bias_of_state
    )
    return found


# Torch has one fused kernel for these on each device except the CPU, and none here.
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
"""Operators that ``torch.autocast`` casts: torch_tpu registers only these three.

Source: sophgo/torch-tpu, torch_tpu/csrc/ops/autocast_ops/autocast_ops.cpp.
"""
_AUTOCAST_KEYS = _C.DispatchKeySet(_C._dispatch_key_parse(_AUTOCAST))


def cast(name: str) -> Callable[..., Any]:
    """Return a kernel that casts to the type of the ``autocast`` block."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _C._ExcludeDispatchKeyGuard(_AUTOCAST_KEYS):
            dtype = torch.get_autocast_dtype(inventory.DEVICE_TYPE)
            cast_args = (_cast(value, dtype) for value in args)
            return operator_named(name)(*cast_args, **kwargs)

    return kernel


def _cast(value: Any, dtype: torch.dtype) -> Any:
    is_cast = (
        isinstance(value, torch.Tensor)
        and value.device.type == inventory.DEVICE_TYPE
        and value.is_floating_point()
        and value.dtype is not torch.float64
    )
    return value.to(dtype) if is_cast else value


_Library: Any = library.Library  # it has no types
_libraries: list[Any] = []  # kernels are removed together with their library


def register() -> None:
    """Register every kernel, once in a process, or before it forks."""
    if _libraries:
        return
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
    for key, kind in _NOT_DENSE.items():
        everything.fallback(refuse_not_dense(kind), key)
    for name in _OF_SYNC_BATCH_NORM:
        aten.impl(name, refuse_sync_batch_norm, _DEVICE)


def _register_operators(aten: Any) -> None:
    own: dict[str, Callable[..., object]] = {
        **COPYING,
        **MEMORY_KERNELS,
        "_nested_tensor_from_mask_left_aligned": is_nested_faster,
        "is_pinned": is_pinned,
    }
    for name, kernel in own.items():
        aten.impl(name, kernel, _DEVICE)
    for name in forwarded_names():
        if name not in own and name not in _OF_SYNC_BATCH_NORM:
            aten.impl(name, forward(name), _DEVICE)
