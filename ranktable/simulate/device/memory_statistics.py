"""Statistics of a memory that is the host's.

Nothing is counted: what a device tensor takes is in the process's resident size.
"""

from __future__ import annotations

import os
from typing import Any


def memory_stats(device: object = None) -> dict[str, Any]:  # noqa: ARG001 - torch's signature
    """Return no statistics."""
    return {}


def no_bytes(device: object = None) -> int:  # noqa: ARG001 - as above
    """Return 0."""
    return 0


def nothing(device: object = None) -> None:
    """Do nothing: there is no cache and no counter."""


def memory_snapshot() -> list[dict[str, Any]]:
    """Return no segments."""
    return []


def memory_summary(device: object = None, abbreviated: bool = False) -> str:  # noqa: ARG001, FBT001, FBT002 - as above
    """Return a sentence where a real device has a table."""
    return "memory of a simulated device is the host's and is not counted"


def mem_get_info(device: object = None) -> tuple[int, int]:  # noqa: ARG001 - as above
    """Return the host's free and total memory in bytes."""
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    free, total = os.sysconf("SC_AVPHYS_PAGES"), os.sysconf("SC_PHYS_PAGES")
    return free * page_bytes, total * page_bytes


memory_allocated = max_memory_allocated = no_bytes
memory_cached = max_memory_cached = no_bytes
memory_reserved = max_memory_reserved = no_bytes
empty_cache = nothing
reset_accumulated_memory_stats = reset_peak_memory_stats = nothing
reset_max_memory_allocated = reset_max_memory_cached = nothing
