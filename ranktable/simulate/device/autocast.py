"""``torch.autocast("tpu")``.

Operators are cast as ``torch.autocast("cuda")`` casts them, without its cache of cast
weights. All others run in the types they are given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._C import DispatchKeySet, _dispatch_key_parse, _ExcludeDispatchKeyGuard

from ranktable.simulate.device import autocast_tables, inventory
from ranktable.simulate.device.forwarding import operator_named

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = "AutocastPrivateUse1"
_KEYS = DispatchKeySet(_dispatch_key_parse(KEY))
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_SIXTEEN_BITS = (torch.float16, torch.bfloat16)


def low_precision(name: str) -> Callable[..., Any]:
    """Return a kernel that casts to the type of the ``autocast`` block."""
    return _casting(name, lambda _: torch.get_autocast_dtype(inventory.device_name()))


def float32(name: str) -> Callable[..., Any]:
    """Return a kernel that casts to float32."""
    return _casting(name, lambda _: torch.float32)


def widest(name: str) -> Callable[..., Any]:
    """Return a kernel that casts to float32 if any of its tensors is float32."""
    return _casting(name, _widest_type)


def float32_result(name: str) -> Callable[..., Any]:
    """Return a kernel that computes in float32 what has 16 bits, if not told else."""

    def kernel(first: torch.Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any operator
        with _ExcludeDispatchKeyGuard(_KEYS):
            given = [*args, *kwargs.values()]
            is_told = any(isinstance(value, torch.dtype) for value in given)
            if first.dtype in _SIXTEEN_BITS and not is_told:
                kwargs["dtype"] = torch.float32
            return operator_named(name)(first, *args, **kwargs)

    return kernel


def _casting(
    name: str, wanted_type: Callable[[list[Any]], torch.dtype]
) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any operator
        with _ExcludeDispatchKeyGuard(_KEYS):
            values = [*args, *kwargs.values()]
            dtype = wanted_type(values)
            named = {key: _cast(value, dtype) for key, value in kwargs.items()}
            return operator_named(name)(*(_cast(v, dtype) for v in args), **named)

    return kernel


def _widest_type(values: list[Any]) -> torch.dtype:
    types = {v.dtype for value in values for v in _flat(value) if _is_cast(v)}
    return types.pop() if len(types) == 1 else torch.float32


def _flat(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _cast(value: Any, dtype: torch.dtype) -> Any:  # noqa: ANN401 - any argument
    if _is_cast(value):
        return value.to(dtype)
    if isinstance(value, (list, tuple)):
        return [_cast(item, dtype) for item in value]
    return value


def _is_cast(value: object) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.device.type == inventory.device_name()
        and value.dtype in _FLOATS
    )


TABLES = {
    low_precision: autocast_tables.LOW_PRECISION,
    float32: autocast_tables.FLOAT32,
    float32_result: autocast_tables.FLOAT32_RESULT,
    widest: autocast_tables.WIDEST,
}
