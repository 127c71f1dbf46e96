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
from ranktable.simulate.errors import repaired
from torch_tpu._run import FOLDER, RUN


def is_rank_table_valid() -> bool:
    """Whether there is a rank table that can be used.

    Raises:
        AssertionError: In a strict run, in place of an answer.
    """
    name = os.environ.get(table.VARIABLE)
    try:
        _assert_is_there(name)
    except AssertionError as error:
        if RUN.is_strict:
            raise
        what = f"is_rank_table_valid with {table.VARIABLE}={name}"
        repaired(FOLDER, what, _described(error))
    return RUN.is_strict or table.is_rank_table_valid()


def _assert_is_there(name: str | None) -> None:
    if name is None:
        raise AssertionError("RANK_TABLE_FILE not set\n")
    if not Path(name).exists() or not name:
        raise AssertionError("File not exist\n")


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()}"


def read_rank_table() -> list[int]:
    """Return the chip of every rank; in a strict run, what the vendor's code returns.

    Raises:
        RankTableError: There is no sound table.
        Exception: In a strict run, what Python raises when it takes the file for what
            the vendor expects.
    """
    if RUN.is_strict:
        chips = _vendors_chips()
        print(f"[chip_map] {chips}")  # noqa: T201 - so does the vendor's code
        return chips
    chips = table.read_rank_table()
    try:
        vendors = _vendors_chips()
    except Exception as error:  # noqa: BLE001 - whatever the vendor's code raises
        repaired(FOLDER, "read_rank_table with this table", _described(error))
        return chips
    if vendors != chips:
        what = (
            "chip_map[rank], as the manual has it, after a read_rank_table that knows "
        )
        repaired(
            FOLDER,
            what + "the chips of one node",
            "IndexError: list index out of range",
        )
    return chips


def _vendors_chips() -> list[int]:
    rank = int(os.environ.get("RANK"))  # type: ignore[arg-type]  # as the vendor's
    with open(os.environ.get(table.VARIABLE), "rb") as file:  # type: ignore[arg-type] # noqa: PTH123
        return _chips_of_node(load(file.read()), rank)


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
