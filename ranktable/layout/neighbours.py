"""Who comes before and after a rank along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ranktable.layout.grid import Groups


class Neighbours(NamedTuple):
    """The ranks on either side of a rank.

    Attributes:
        previous: The rank before it, None where there is none.
        next: The rank after it, None where there is none.
    """

    previous: int | None
    next: int | None


def neighbours_in(groups: Groups, rank: int, *, is_ring: bool) -> Neighbours:
    """Return the neighbours of a rank within its group."""
    size, place = groups.group_size, groups.place_of(rank)
    before, after = place - 1, place + 1
    if is_ring and size > 1:
        before, after = before % size, after % size
    return Neighbours(
        groups.moved(rank, before) if before >= 0 else None,
        groups.moved(rank, after) if after < size else None,
    )
