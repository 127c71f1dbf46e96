"""Which format a document has, told by its keys; the formats are imported later."""

from __future__ import annotations

from typing import Any

SPARE_ID = 64
"""The local_id of the spare chip of HCCL 2.0."""


def is_hccl_2_0(document: dict[str, Any]) -> bool:
    """Whether a document lists ranks."""
    return "rank_list" in document


def is_rootinfo(document: dict[str, Any]) -> bool:
    """Whether a document is what the driver tells of one host."""
    return "topo_file_path" in document


def is_changed(document: dict[str, Any]) -> bool:
    """Whether a document lists the ranks that a spare has replaced."""
    listed, count = document.get("rank_list"), document.get("rank_count")
    if not isinstance(listed, list) or type(count) is not int:
        return False
    ranks = [one for one in listed if isinstance(one, dict)]
    numbers = [one.get("rank_id") for one in ranks]
    return any(one.get("local_id") == SPARE_ID for one in ranks) and any(
        type(number) is int and number >= count for number in numbers
    )
