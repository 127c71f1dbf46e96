"""Which groups of a job have other chips than before and must be made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.layout.communicator import communicators
from ranktable.layout.grid import Groups

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.layout.communicator import Communicators
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import RankTable

ChipName = tuple[str, int]
"""The name of a node, and a device_id there."""

Kinds = Mapping[str, Sequence[Sequence[int]]]
"""Lists of ranks by kind of group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """What became of the groups of a kind.

    Attributes:
        before: How many there were.
        after: How many there are.
        kept: How many have the same chips in the same order.
    """

    before: int
    after: int
    kept: int

    @property
    def touched(self) -> int:
        """How many have to be made, or made anew."""
        return self.after - self.kept


def both_groups(
    tables: tuple[RankTable, RankTable],
    layouts: tuple[ParallelLayout, ParallelLayout],
    groups: tuple[Kinds, Kinds] | Iterable[str] | None,
) -> tuple[Communicators, Communicators]:
    """Return the groups of two tables, each with its layout.

    Raises:
        LayoutError: A layout has another number of ranks than its table, or no such
            axes.
    """
    if isinstance(groups, tuple) and groups and isinstance(groups[0], Mapping):
        first, second = groups
        return (
            communicators(tables[0], layouts[0], first),
            communicators(tables[1], layouts[1], second),
        )
    names = None if groups is None else list(map(str, groups))
    if names is None:
        kinds = dict.fromkeys(layouts[0].kinds + layouts[1].kinds)
        names = [kind for kind in kinds if all(kind in one.axes for one in layouts)]
    return (
        communicators(tables[0], layouts[0], names),
        communicators(tables[1], layouts[1], names),
    )


def touched_groups(
    found: tuple[Communicators, Communicators],
    ranks: Sequence[Mapping[ChipName, int]],
) -> tuple[dict[str, GroupChange], GroupChange]:
    """Return how the groups of every kind, and the distinct sets of chips, changed.

    Args:
        found: The groups of two tables.
        ranks: The rank of the chips of both, but for those that are the same.
    """
    # Chips are numbered as the first table has them, and new ones beyond.
    first = list(range(found[0].table.world_size))
    second = list(range(found[1].table.world_size))
    for number, (name, rank) in enumerate(ranks[1].items(), len(first)):
        second[rank] = ranks[0].get(name, number)
    members = [
        {kind: _lists(group.ranks_of_kind(kind), numbers) for kind in group.kinds}
        for group, numbers in zip(found, (first, second), strict=True)
    ]
    kinds = {
        kind: _count(*(set(side.get(kind, ())) for side in members))
        for kind in dict.fromkeys((*members[0], *members[1]))
    }
    sets = [
        {chips for lists in side.values() for chips in lists.values()}
        for side in members
    ]
    return kinds, _count(*sets)


def _lists(
    groups: Sequence[Sequence[int]], numbers: Sequence[int]
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Return the chips of every group in their order, and in that of their numbers.

    Nobody talks in a group of one.
    """
    if isinstance(groups, Groups):
        parts = groups.parts_of(numbers)
    else:
        parts = (list(map(numbers.__getitem__, ranks)) for ranks in groups)
    return {tuple(part): tuple(sorted(part)) for part in parts if len(part) > 1}


def _count(before: set[tuple[int, ...]], after: set[tuple[int, ...]]) -> GroupChange:
    return GroupChange(before=len(before), after=len(after), kept=len(before & after))
