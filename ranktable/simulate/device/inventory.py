"""The chips of this process: those that exist, and the current one."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True)
class _Chips:
    name: str = ""
    existing: tuple[int, ...] = ()


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
_CHIPS = _Chips()


def declare(name: str, existing: Sequence[int]) -> None:
    """Set the chips that exist; the first one is current until another is selected."""
    if not existing:
        raise ValueError(f"a simulated {name} needs at least one chip")
    _CHIPS.name, _CHIPS.existing = name, tuple(existing)
    WORDS.count = max(existing) + 1
    if WORDS.current not in _CHIPS.existing:
        WORDS.current = _CHIPS.existing[0]


def withdraw() -> None:
    """Remove the device, because it could not be installed."""
    _CHIPS.name, _CHIPS.existing = "", ()


def device_name() -> str:
    """Return the device's name, empty before it is installed."""
    return _CHIPS.name


def chips() -> tuple[int, ...]:
    """Return the indices of the chips that exist."""
    return _CHIPS.existing


def device_count() -> int:
    """Return the number of chips that exist."""
    return len(_CHIPS.existing)


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
    if index not in _CHIPS.existing:
        name = _CHIPS.name
        there = ", ".join(map(str, _CHIPS.existing))
        raise RuntimeError(f"{name}:{index} does not exist; there are {name}:{there}")
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
    if found.type != device_name():
        raise ValueError(f"expected a {device_name()} device, not {found}")
    if found.index is None:
        return current_device()
    return checked(found.index)
