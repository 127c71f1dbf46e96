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
        self._points: dict[int, tuple[int, ...]] = {}

    def point(self, rank: int) -> tuple[int, ...]:
        """Return the coordinates of a rank, in the order of the axes."""
        if rank not in self._points:
            self._points[rank] = tuple(self.layout.coordinates(rank).values())
        return self._points[rank]

    @cached_property
    def chips(self) -> list[int]:
        """``device_id`` of every rank."""
        return self.table.chip_map

    @cached_property
    def node_ranks(self) -> list[int]:
        """node_rank of every rank."""
        return [self.table.node_rank_of(rank) for rank in range(self.table.world_size)]
