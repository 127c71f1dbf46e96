"""``torch.accelerator``: what torch's C++ side cannot answer for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import _C

from ranktable.simulate.device import inventory, memory_statistics
from ranktable.simulate.device.streams import current_stream, set_stream

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_CHANGE = -1  # as an index, in torch's own functions
_DTYPES = {
    getattr(torch, name)
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    )
}


def register() -> None:
    """Replace the functions that ``torch.accelerator`` calls."""
    for name, function in _REPLACED.items():
        setattr(_C, f"_accelerator_{name}", function)


def exchange_device(index: int) -> int:
    """Make a chip current and return the one that was; -1 changes nothing."""
    previous = inventory.current_device()
    if index != _NO_CHANGE:
        inventory.set_device(index)
    return previous


def _nothing(*_: object) -> None:
    pass


_REPLACED: dict[str, Callable[..., object]] = {
    "emptyCache": _nothing,
    "emptyHostCache": _nothing,
    "exchangeDevice": exchange_device,
    "getDeviceCapability": lambda _: {"supported_dtypes": set(_DTYPES)},
    "getDeviceIndex": inventory.current_device,
    "getMemoryInfo": memory_statistics.mem_get_info,
    "getStream": current_stream,
    # Without an allocator torch.accelerator has no statistics: all are 0.
    "isAllocatorInitialized": lambda: False,
    "maybeExchangeDevice": exchange_device,
    "setDeviceIndex": inventory.set_device,
    "setStream": set_stream,
    "synchronizeDevice": _nothing,
}
