"""The table of a run that was given none: boxes of chips, each in ring order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.generate import make_table
from ranktable.schema.messages import counted
from ranktable.schema.topology import SOPHGO_8

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.model import RankTable

CHIPS_OF_BOX = 8
"""Chips of the published box, and of a node when nothing else is said."""


MAX_RANKS = 1024
"""Each takes 200 MiB or more, so a larger number is a slip of the finger."""


def refuse_crowd(world_size: int) -> None:
    """Raise if one machine cannot be asked to simulate so many.

    Raises:
        ArgumentError: They are too many.
    """
    if world_size > MAX_RANKS:
        raise ArgumentError(
            f"{world_size} ranks are too many for one machine; {MAX_RANKS} is the most"
        )


def make_boxes(nproc: int, num_nodes: int, *, vendor: str) -> RankTable:
    """Return the table of nodes that are alike.

    SOPHGO's chips are in the order of a ring of the published box, if this many of
    its chips form one.

    Args:
        nproc: Chips of each node, a process on each.
        num_nodes: Number of nodes.
        vendor: Whose chips.

    Raises:
        ArgumentError: There are no chips or no nodes, or too many.
    """
    for count, what in ((nproc, "chips"), (num_nodes, "nodes")):
        if count < 1:
            raise ArgumentError(f"{count} is no number of {what}; at least 1 is needed")
    refuse_crowd(nproc * num_nodes)
    chips: Sequence[int] = range(nproc)
    if vendor == "sophgo":
        rings = SOPHGO_8.rings_of_size(nproc, limit=1)
        chips = rings[0] if rings else chips
    return make_table([chips] * num_nodes)


def ring_warning(nproc: int) -> str | None:
    """Return what to say of a made box that is larger than SOPHGO's, else None.

    Of a smaller one without a ring the ranks say it, when they join.
    """
    if nproc <= CHIPS_OF_BOX:
        return None
    return (
        f"the published box has {counted(CHIPS_OF_BOX, 'chip')}, so no ring of {nproc} "
        f"is known, which SCCL needs; these are in plain order, 0 to {nproc - 1}"
    )
