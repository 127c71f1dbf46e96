"""The chips of this process: those that exist, and the current one."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True)
class _Chips:
    # Process-wide, not per thread as in CUDA: a simulated rank has one chip, and its
    # helper threads (autograd, data loading) must not fall back to another one.
    name: str = ""
    existing: tuple[int, ...] = ()
    current: int = 0


class _Guarded(threading.local):
    # What C++ made current for the length of one of its functions.
    index: int | None = None


_CHIPS = _Chips()
_GUARDED = _Guarded()


def declare(name: str, existing: Sequence[int]) -> None:
    """Say which chips exist; the first is current until another is chosen."""
    if not existing:
        raise ValueError(f"a simulated {name} needs at least one chip")
    _CHIPS.name, _CHIPS.existing = name, tuple(existing)
    if _CHIPS.current not in _CHIPS.existing:
        _CHIPS.current = _CHIPS.existing[0]


def withdraw() -> None:
    """Forget the device: it could not be installed."""
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
    guarded = _GUARDED.index
    return _CHIPS.current if guarded is None else guarded


def set_device(index: int) -> None:
    """Make a chip current.

    Raises:
        RuntimeError: It does not exist.
    """
    _CHIPS.current = checked(index)


def guard_thread(index: int) -> None:
    """Make a chip current for this thread, until the current one is given again."""
    _GUARDED.index = None if index == _CHIPS.current else index


def checked(index: int) -> int:
    """Return an index if its chip exists.

    Raises:
        RuntimeError: It does not.
    """
    if index not in _CHIPS.existing:
        name = _CHIPS.name
        there = ", ".join(map(str, _CHIPS.existing))
        raise RuntimeError(f"{name}:{index} does not exist; there are {name}:{there}")
    return index
