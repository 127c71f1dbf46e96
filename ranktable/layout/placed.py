"""A layout on a rank table, with what is looked up for every rank."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import RankTable


class Placed:
    """A layout on a table, with what is looked up for every rank.

    Attributes:
        table: The rank table.
        layout: The layout.
    """

    def __init__(self, table: RankTable, layout: ParallelLayout) -> None:
        """Look nothing up yet."""
        self.table = table
        self.layout = layout

    @cached_property
    def points(self) -> list[tuple[int, ...]]:
        """The coordinates of every rank, in the order of the axes."""
        layout = self.layout
        places = [layout.along(axis).places() for axis in layout.axes]
        return list(zip(*places, strict=True))

    @cached_property
    def chips(self) -> list[int]:
        """``device_id`` of every rank."""
        return self.table.chip_map

    @cached_property
    def node_ranks(self) -> list[int]:
        """node_rank of every rank."""
        return [self.table.node_rank_of(rank) for rank in range(self.table.world_size)]
