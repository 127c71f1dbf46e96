"""``is_rank_table_valid`` and ``read_rank_table``.

The vendor's reader wants ``world_rank``, which the vendor's generator does not write,
and returns the chips of its own node only, which the manual's script then takes with
its global rank. Its validity check raises instead of answering.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ranktable.runtime import table
from ranktable.schema.readers.torch_tpu import load
from torch_tpu._run import RUN


def is_rank_table_valid() -> bool:
    """Whether there is a rank table that can be used.

    Raises:
        AssertionError: In a strict run, in place of an answer.
    """
    if not RUN.is_strict:
        return table.is_rank_table_valid()
    name = os.environ.get(table.VARIABLE)
    if name is None:
        raise AssertionError("RANK_TABLE_FILE not set\n")
    if not Path(name).exists() or not name:
        raise AssertionError("File not exist\n")
    return True


def read_rank_table() -> list[int]:
    """Return the chip of every rank; in a strict run, what the vendor's code returns.

    Raises:
        RankTableError: There is no sound table.
        Exception: In a strict run, what Python raises when it takes the file for what
            the vendor expects.
    """
    if not RUN.is_strict:
        return table.read_rank_table()
    rank = int(os.environ.get("RANK"))  # type: ignore[arg-type]  # as the vendor's
    with open(os.environ.get(table.VARIABLE), "rb") as file:  # type: ignore[arg-type] # noqa: PTH123
        chips = _chips_of_node(load(file.read()), rank)
    print(f"[chip_map] {chips}")  # noqa: T201 - so does the vendor's code
    return chips


def _chips_of_node(document: Any, rank: int) -> list[int]:  # noqa: ANN401 - any JSON
    """Return the chips of the last node that has a rank, in file order.

    ``ranktable.schema.readers.torch_tpu`` says what comes of it for many ranks.
    """
    chips: list[int] = []
    for node in document["node_list"]:
        for device in node["device_list"]:
            if int(device["world_rank"]) == rank:
                chips = [int(each["device_id"]) for each in node["device_list"]]
    return chips
