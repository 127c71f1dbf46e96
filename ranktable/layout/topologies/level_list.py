"""A topology without hosts: how many nodes each group holds, ``rack=4,pod=16``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.layout.boundaries import Boundary, make_boundary

if TYPE_CHECKING:
    from ranktable.schema.model import RankTable

_LOOKS = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}=[^/]*")
_ITEM = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,30})=([1-9][0-9]{0,6})")


def is_level_list(text: str) -> bool:
    """Whether an argument is a list of levels, not the name of a file."""
    return _LOOKS.fullmatch(text) is not None


def boundaries_of_levels(text: str, table: RankTable) -> tuple[Boundary, ...]:
    """Return the boundaries of a list of levels, the nodes taken in file order.

    Args:
        text: Names and numbers of nodes, the smallest first: ``rack=4,pod=16``.
        table: The table.

    Raises:
        ArgumentError: It is not such a list, or a number does not hold the one before.
    """
    found: list[Boundary] = []
    before = 1
    at = 0
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None or match[1] in ("node", *(one.name for one in found)):
            raise ArgumentError(
                f"{item!r} is not a level" if match is None else f"{match[1]} is taken",
                text=text,
                position=at,
                hint="write, for example, rack=4,pod=16: nodes of each",
            )
        name, size = match[1], int(match[2])
        if size % before:
            raise ArgumentError(
                f"{size} nodes do not hold whole groups of {before}",
                text=text,
                position=at + len(name) + 1,
            )
        labels = [f"{name} {node // size}" for node in range(table.num_nodes)]
        found.append(make_boundary(name, labels))
        before = size
        at += len(item) + 1
    return tuple(found)
