"""Figures as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.measure import Cost

_MEGABYTE = 1e6
_LONG_S = 1


def seconds(value: float) -> str:
    """Return a time with three digits and the unit that suits it."""
    if value >= _LONG_S:
        return f"{value:.2f} s"
    return f"{value * 1e3:.3g} ms"


def memory(ours: Cost, rival: Cost) -> str:
    """Return two peaks of memory, ours first."""
    return f"{ours.peak_bytes / _MEGABYTE:.0f} / {rival.peak_bytes / _MEGABYTE:.0f} MB"
