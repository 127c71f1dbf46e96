"""What is called inside a process: ours, and what a user would write instead."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.tables import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.tables import Layout

    Call = Callable[[], object]


def _read(path: str) -> Call:
    from ranktable import read_rank_table

    return lambda: read_rank_table(path)


def _check(path: str) -> Call:
    from ranktable import check

    return lambda: check(path)


def _orjson(path: str) -> Call:
    import orjson

    data = Path(path).read_bytes()  # not measured: the rival is the bare parser
    return lambda: orjson.loads(data)


def _loop(path: str) -> Call:
    text = Path(path).read_text(encoding="utf-8")
    layout = next(
        layout
        for layout in (LAYOUTS["hccl"], LAYOUTS["generated"], LAYOUTS["manual"])
        if f'"{layout.rank_key}"' in text
    )
    return lambda: vendor_chip_map(path, layout, 0)


def _bring_up(path: str) -> Call:
    from ranktable import load
    from ranktable.runtime.environment import resolve_environment
    from ranktable.runtime.process_group import place

    environment = replace(resolve_environment({}), rank=5)

    def call() -> object:
        table = load(path)
        return place(environment, table), table.chip_map

    return call


def vendor_chip_map(path: str, layout: Layout, own_rank: int) -> list[int]:
    """Return the chips of the node that holds a rank, and check nothing.

    Source: ``read_rank_table`` of sophgo/torch-tpu, torch_tpu/tpu/utils.py, since
    bc46f06c (2024-08-23), without what it prints.

    Args:
        path: The file.
        layout: How the table is spelt.
        own_rank: Rank of the process.
    """
    chip_map: list[int] = []
    with open(path) as file:
        table = json.load(file)
    nodes, devices, key = layout.nodes, layout.devices, layout.rank_key
    for node in table[nodes]:
        for device in node[devices]:
            if int(device[key]) == own_rank:
                chip_map = [int(chip["device_id"]) for chip in node[devices]]
    return chip_map


CALLS: dict[str, Callable[[str], Call]] = {
    "read": _read,
    "check": _check,
    "loop": _loop,
    "orjson": _orjson,
    "bring-up": _bring_up,
}
"""Each takes a path, imports what it needs, and returns what is timed."""
