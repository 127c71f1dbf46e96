"""The chips of this process: those that exist, and the current one."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence


DEVICE_TYPE: Final = "tpu"
"""The type of the device: ``torch.device("tpu:3").type``."""

_existing: list[int] = []
"""The indices of the chips that exist."""


class Words(ctypes.Structure):
    """Values that C++ code reads and writes.

    Attributes:
        type: Type of the device, c10::DeviceType.
        current: The current chip. Process-wide, not per thread as in CUDA: a simulated
            rank has one chip, and its helper threads (autograd, data loading) must not
            fall back to another one.
        count: The largest index plus one.
    """

    _fields_ = (
        ("type", ctypes.c_int8),
        ("current", ctypes.c_int8),
        ("count", ctypes.c_int16),
    )


PRIVATEUSE1 = 20  # c10::DeviceType
WORDS = Words(PRIVATEUSE1, 0, 1)


def declare(existing: Sequence[int]) -> None:
    """Set the chips that exist; 0, or the first one, is current at the start."""
    _existing[:] = existing
    WORDS.count = max(existing) + 1
    WORDS.current = 0 if 0 in existing else existing[0]


def chips() -> tuple[int, ...]:
    """Return the indices of the chips that exist."""
    return tuple(_existing)


def device_count() -> int:
    """Return the number of chips that exist."""
    return len(_existing)


def current_device() -> int:
    """Return the index of the current chip."""
    index: int = WORDS.current
    return index


def set_device(index: int) -> None:
    """Make a chip current.

    Raises:
        RuntimeError: The chip does not exist.
    """
    WORDS.current = checked(index)


def checked(index: int) -> int:
    """Return an index if its chip exists.

    Raises:
        RuntimeError: The chip does not exist.
    """
    if index not in _existing:
        there = ", ".join(map(str, _existing))
        raise RuntimeError(f"tpu:{index} does not exist; there are tpu:{there}")
    return index


_device = torch.device  # a vendor's module may replace it by another class


def index_of(device: Any = None) -> int:
    """Return the index of a chip; of the current one if none is named.

    Raises:
        ValueError: It names another kind of device.
        RuntimeError: The chip does not exist.
    """
    if device is None:
        return current_device()
    if isinstance(device, int):
        return checked(device)
    found: Any = _device(device)
    if found.type != DEVICE_TYPE:
        raise ValueError(f"expected a tpu device, not {found}")
    if found.index is None:
        return current_device()
    return checked(found.index)
