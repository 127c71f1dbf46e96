"""Which groups of a job have other chips than before, so that they are made anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.layout.communicator import communicators

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.layout.communicator import Communicators
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import Device, RankTable

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
    chips: Sequence[Mapping[int, tuple[ChipName, Device]]],
) -> tuple[dict[str, GroupChange], GroupChange]:
    """Return what became of the groups of every kind, and of distinct sets of chips.

    Args:
        found: The groups of two tables.
        chips: The name of the chip of every rank, of both, by rank.
    """
    # Chips are numbered as the first table has them, so that its groups stay lists.
    numbers = {name: at for at, (name, _) in enumerate(chips[0].values())}
    number_of = [
        numbers.setdefault(name, len(numbers)) for name, _ in chips[1].values()
    ]
    members = [
        {
            kind: [
                tuple(ranks if at == 0 else map(number_of.__getitem__, ranks))
                for ranks in group.ranks_of_kind(kind)
                if len(ranks) > 1  # nobody talks in a group of one
            ]
            for kind in group.kinds
        }
        for at, group in enumerate(found)
    ]
    kinds = {
        kind: _count(members[0].get(kind, []), members[1].get(kind, []))
        for kind in dict.fromkeys((*members[0], *members[1]))
    }
    sets = [
        {frozenset(one) for lists in side.values() for one in lists} for side in members
    ]
    kept = len(sets[0] & sets[1])
    return kinds, GroupChange(before=len(sets[0]), after=len(sets[1]), kept=kept)


def _count(
    before: Sequence[tuple[int, ...]], after: Sequence[tuple[int, ...]]
) -> GroupChange:
    known = set(before)
    kept = sum(one in known for one in after)
    return GroupChange(before=len(before), after=len(after), kept=kept)
