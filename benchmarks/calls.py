"""What is called inside a process: ours, and what a user would write instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[], object]


def _read(path: str) -> Call:
    from ranktable import read_rank_table  # noqa: PLC0415 - only where it is measured

    return lambda: read_rank_table(path)


def _check(path: str) -> Call:
    from ranktable import check  # noqa: PLC0415 - only where it is measured

    return lambda: check(path)


def _orjson(path: str) -> Call:
    import orjson  # noqa: PLC0415 - only where it is measured

    data = Path(path).read_bytes()  # not measured: the rival is the bare parser
    return lambda: orjson.loads(data)


def _loop(path: str) -> Call:
    text = Path(path).read_text(encoding="utf-8")
    key = "world_rank" if '"world_rank"' in text else "rank"
    return lambda: vendor_chip_map(path, key, 0)


def vendor_chip_map(path: str, key: str, own_rank: int) -> list[int]:
    """Return the chips of the node that holds a rank, and check nothing.

    Source: ``read_rank_table`` of sophgo/torch-tpu, torch_tpu/tpu/utils.py, since
    bc46f06c (2024-08-23), without what it prints.

    Args:
        path: The file.
        key: The key that gives the rank.
        own_rank: Rank of the process.
    """
    chip_map: list[int] = []
    with open(path) as file:  # noqa: PTH123 - as the vendor writes it
        table = json.load(file)
    for node in table["node_list"]:
        for device in node["device_list"]:
            if int(device[key]) == own_rank:
                chip_map = [int(chip["device_id"]) for chip in node["device_list"]]
    return chip_map


CALLS: dict[str, Callable[[str], Call]] = {
    "read": _read,
    "check": _check,
    "loop": _loop,
    "orjson": _orjson,
}
"""Each takes a path, imports what it needs, and returns what is timed."""
