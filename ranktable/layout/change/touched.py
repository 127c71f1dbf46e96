"""Groups of a job that have other chips than before and must be created again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.layout.grid import Groups
from ranktable.layout.megatron import groups_named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.layout.parallel import ParallelLayout

ChipName = tuple[str, int]
"""The name of a node, and a device_id there."""

Kinds = Mapping[str, Sequence[Sequence[int]]]
"""Lists of ranks by kind of group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """How the groups of one kind changed.

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
        """How many groups have to be created, or created again."""
        return self.after - self.kept


def both_groups(
    layouts: tuple[ParallelLayout, ParallelLayout],
    groups: tuple[Kinds, Kinds] | Iterable[str] | None,
) -> tuple[Kinds, Kinds]:
    """Return the groups of two layouts.

    Raises:
        LayoutError: There are no such axes.
    """
    if isinstance(groups, tuple) and groups and isinstance(groups[0], Mapping):
        return groups
    names = None if groups is None else list(map(str, groups))
    if names is None:
        kinds = dict.fromkeys(layouts[0].kinds + layouts[1].kinds)
        names = [kind for kind in kinds if all(kind in one.axes for one in layouts)]
    first, second = (
        {name: groups_named(layout, name) for name in names} for layout in layouts
    )
    return first, second


def touched_groups(
    found: tuple[Kinds, Kinds],
    sizes: tuple[int, int],
    was: Mapping[int, int | None],
) -> tuple[dict[str, GroupChange], GroupChange]:
    """Return how the groups of every kind, and the distinct sets of chips, changed.

    Args:
        found: The groups before and after.
        sizes: The number of ranks of each layout.
        was: The old rank of the chip of every rank, None for a new chip; without the
            ranks of nodes that are the same.
    """
    # Chips are numbered as in the first layout; new ones have higher numbers. A rank
    # that the first table lacks has a number too, which no chip of the second has.
    first = tuple(range(sizes[0]))
    second = list(range(sizes[1]))
    for number, (rank, before) in enumerate(was.items(), len(first)):
        second[rank] = number if before is None else before
    members = [
        {kind: _lists(groups, numbers) for kind, groups in side.items()}
        for side, numbers in zip(found, (first, tuple(second)), strict=True)
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
    """Return the chips of every group in their order, and the same chips sorted.

    A group of one is left out, because it does not communicate.
    """
    if isinstance(groups, Groups):
        parts = groups.parts_of(numbers)
    else:
        parts = (list(map(numbers.__getitem__, ranks)) for ranks in groups)
    return {tuple(part): tuple(sorted(part)) for part in parts if len(part) > 1}


def _count(before: set[tuple[int, ...]], after: set[tuple[int, ...]]) -> GroupChange:
    return GroupChange(before=len(before), after=len(after), kept=len(before & after))
