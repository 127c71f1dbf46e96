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


def all_neighbours(groups: Groups, *, is_ring: bool) -> list[Neighbours]:
    """Return the neighbours of every rank, all at once."""
    found = [Neighbours(None, None)] * groups.world_size
    for ranks in groups:
        is_closed = is_ring and len(ranks) > 1
        before = [ranks[-1] if is_closed else None, *ranks[:-1]]
        after = [*ranks[1:], ranks[0] if is_closed else None]
        for rank, *pair in zip(ranks, before, after, strict=True):
            found[rank] = Neighbours(*pair)
    return found
