"""Rank tables of any size, written in the layouts of the field."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RING = (0, 2, 6, 7, 3, 1, 5, 4)
"""Chips of every node, in the order of the ring of the published box."""

KEYS = {
    "manual": ("device_id", "rank"),
    "generated": ("device_id", "local_rank", "rank", "world_rank"),
}
"""Keys of a device: the template of SOPHGO's manual, and what ``ranktable gen`` writes.

Both have four blanks a level, no blank after a colon, and strings for numbers.
"""

RANK_KEYS = {"manual": "rank", "generated": "world_rank"}
"""The key that the vendor's loop reads; it wants world_rank where there is one."""


class Defect(str, Enum):
    """What is wrong with a table."""

    NONE = "none"
    LAST_SHAPE = "the last device_id is no number"
    LAST_MEANING = "the last rank is taken"
    ALL_SHAPE = "no device_id is a number"
    ALL_MEANING = "every rank is 0"
    ALL_GAPS = "every rank is doubled, so that every second one is missing"


def write_table(
    path: Path, ranks: int, *, layout: str = "manual", defect: Defect = Defect.NONE
) -> None:
    """Write a table of nodes with eight chips each.

    The text is built directly and streamed: a model of a million ranks would take
    longer than what is measured, and its memory would count as that of the children.

    Args:
        path: The file.
        ranks: Number of ranks, a multiple of eight.
        layout: A key of ``KEYS``.
        defect: What to get wrong.
    """
    with path.open("w", encoding="utf-8") as file:
        file.writelines(_pieces(ranks, KEYS[layout], defect))


def _pieces(ranks: int, keys: tuple[str, ...], defect: Defect) -> Iterator[str]:
    yield '{\n    "version":"1.0",\n    "node_list":[\n'
    for first in range(0, ranks, len(RING)):
        devices = ",\n".join(
            _device(rank, first, keys, _defect(rank == ranks - 1, defect))
            for rank in range(first, first + len(RING))
        )
        comma = "," if first + len(RING) < ranks else ""
        yield (
            '        {\n            "device_list":[\n'
            f"{devices}\n            ]\n        }}{comma}\n"
        )
    yield "    ]\n}\n"


def _defect(is_last: bool, defect: Defect) -> Defect:  # noqa: FBT001 - private
    """Return what is wrong with one device, as a defect of all of them."""
    if not is_last:
        return defect
    return {
        Defect.LAST_SHAPE: Defect.ALL_SHAPE,
        Defect.LAST_MEANING: Defect.ALL_MEANING,
    }.get(defect, defect)


def _device(rank: int, first: int, keys: tuple[str, ...], defect: Defect) -> str:
    factor = {Defect.ALL_MEANING: 0, Defect.ALL_GAPS: 2}.get(defect, 1)
    values = {
        "device_id": f'"{RING[rank - first]}"',
        "local_rank": f'"{rank - first}"',
        "rank": f'"{rank * factor}"',
        "world_rank": f'"{rank * factor}"',
    }
    if defect is Defect.ALL_SHAPE:
        values["device_id"] = "true"
    members = ",\n".join(f'                    "{key}":{values[key]}' for key in keys)
    return f"                {{\n{members}\n                }}"
