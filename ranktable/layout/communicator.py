"""Groups on a rank table: the ranks, nodes, chips and name of each.

A communicator has a context, a group and a topology. Here the context is its name, the
group its ranks in their order, and the topology the coordinates that they share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ranktable.layout.grid import Groups, factors
from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.megatron import groups_named
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import RankTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Communicator:
    """One group of ranks on a table.

    Attributes:
        kind: The axes of the group, such as ``tp``.
        index: Its index among the groups of that kind.
        ranks: Global ranks of the members, in the order of their group rank.
        on: The table and the layout to which it belongs.
    """

    kind: str
    index: int
    ranks: tuple[int, ...]
    on: Placed = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """A name such as ``tp/3``, which is the same in every process."""
        return f"{self.kind}/{self.index}"

    @property
    def group_ranks(self) -> range:
        """Group rank of every member."""
        return range(len(self.ranks))

    @property
    def node_ranks(self) -> tuple[int, ...]:
        """node_rank of every member."""
        return tuple(self.on.table.node_ranks[rank] for rank in self.ranks)

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes of the members, each once, in increasing order."""
        return tuple(sorted({self.on.table.node_ranks[rank] for rank in self.ranks}))

    @property
    def chip_map(self) -> list[int]:
        """``device_id`` of every member, by group rank, as SCCL needs it."""
        return [self.on.chips[rank] for rank in self.ranks]

    @property
    def coordinates(self) -> dict[str, int]:
        """The coordinates that all members share."""
        points = self.on.points
        columns = zip(*[points[rank] for rank in self.ranks], strict=True)
        return {
            name: column[0]
            for name, column in zip(self.on.layout.axes, columns, strict=True)
            if column.count(column[0]) == len(column)
        }


class Communicators:
    """The communicators of a job; each is made when it is first used.

    Attributes:
        table: The rank table.
        layout: The layout.
    """

    def __init__(
        self,
        table: RankTable,
        layout: ParallelLayout,
        groups: Mapping[str, Sequence[Sequence[int]]],
    ) -> None:
        """Store the groups of every kind."""
        self.table = table
        self.layout = layout
        self._groups = groups
        self._on = Placed(table, layout)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind of group, in order."""
        return tuple(self._groups)

    def __len__(self) -> int:
        """Return the number of communicators."""
        return sum(map(len, self._groups.values()))

    def __iter__(self) -> Iterator[Communicator]:
        """Yield every communicator, kind by kind."""
        for kind in self._groups:
            yield from self.of_kind(kind)

    def __getitem__(self, name: str) -> Communicator:
        """Return a communicator by its name.

        Raises:
            KeyError: There is no communicator with this name.
        """
        kind, _, index = name.rpartition("/")
        if not index.isdecimal() or int(index) >= len(self._groups.get(kind, ())):
            raise KeyError(name)
        return self._made(kind, int(index), self._groups[kind][int(index)])

    def of_kind(self, kind: str) -> Iterator[Communicator]:
        """Yield the communicators of one kind.

        Raises:
            KeyError: There is no such kind.
        """
        groups = self.ranks_of_kind(kind)
        return (self._made(kind, at, ranks) for at, ranks in enumerate(groups))

    def ranks_of_kind(self, kind: str) -> Sequence[Sequence[int]]:
        """Return the ranks of the communicators of one kind.

        Raises:
            KeyError: There is no such kind.
        """
        return self._groups[kind]

    def of_rank(self, rank: int) -> list[Communicator]:
        """Return the communicators that a rank is in, at most one of each kind.

        Raises:
            IndexError: The table has no such rank.
        """
        self.table.node_rank_of(rank)  # raises for an unknown rank
        found = []
        for kind, groups in self._groups.items():
            index = _index_of(rank, groups)
            if index is not None:
                found.append(self._made(kind, index, groups[index]))
        return found

    def _made(self, kind: str, index: int, ranks: Iterable[int]) -> Communicator:
        return Communicator(kind=kind, index=index, ranks=tuple(ranks), on=self._on)


def _index_of(rank: int, groups: Sequence[Sequence[int]]) -> int | None:
    """Return the index of the first group that holds a rank."""
    if isinstance(groups, Groups):
        return groups.index_of(rank)
    return next((at for at, ranks in enumerate(groups) if rank in ranks), None)


def communicators(
    table: RankTable,
    layout: ParallelLayout,
    groups: Iterable[str] | Mapping[str, Sequence[Sequence[int]]] | None = None,
) -> Communicators:
    """Return the communicators of a layout on a rank table.

    Args:
        table: The rank table.
        layout: The layout, for as many ranks as the table has.
        groups: The axes of each kind, such as ``["tp", "dp-cp"]``, or ``embedding``
            and ``position-embedding``; by default every axis of more than one rank. Or
            lists of ranks by kind, such as those of ``megatron_groups``.

    Raises:
        LayoutError: The layout has another number of ranks, or lacks such axes.
    """
    if layout.world_size != table.world_size:
        sizes = {name: layout.sizes[name] for name in layout.mesh_shape}
        raise LayoutError(
            f"the layout is {factors(sizes)}, and the table has {table.world_size} "
            f"ranks on {counted(len(table.nodes), 'node')}; pass world_size="
            f"{table.world_size} and -1 as one of the sizes to make a layout that fits"
        )
    if isinstance(groups, str):
        groups = [groups]
    if isinstance(groups, Mapping):
        return Communicators(table, layout, groups)
    kinds = layout.kinds if groups is None else groups
    found = {name: groups_named(layout, name) for name in kinds}
    return Communicators(table, layout, found)


class Placed:
    """A layout on a table, with values that are computed once for all ranks.

    Attributes:
        table: The rank table.
        layout: The layout.
    """

    def __init__(self, table: RankTable, layout: ParallelLayout) -> None:
        """Start without computed values."""
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
