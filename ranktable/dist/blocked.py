"""Ranks that wait for each other in different groups.

Each group compares for itself. Where one rank is in a collective of one group and
another in one of another group, and both are in both, neither comparison ever ends. So
a rank that waits for long says in a place for the whole job where it waits, and looks
whether one that it waits for waits for it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch._C._distributed_c10d import PrefixStore
from torch.distributed.distributed_c10d import _get_default_store

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A rank that waits for others.

    Attributes:
        rank: Its global rank.
        key: Which group of the job it waits in.
        number: Number of the collective in that group.
        missing: Global ranks that have not come to it, some of them.
        begun: How many collectives it has begun, by group.
        said: What it does, in words.
    """

    rank: int
    key: str
    number: int
    missing: list[int]
    begun: dict[str, int]
    said: str

    def needs(self, other: Waiting) -> bool:
        """Whether it waits for another rank that has not begun the same."""
        is_begun = other.begun.get(self.key, 0) >= self.number
        return other.rank in self.missing and not is_begun


def find_cycle(own: Waiting) -> list[Waiting]:
    """Return ranks that wait for each other in a circle, this one first; else nothing.

    What a rank has written may be old, but not if it needs one that is in the circle:
    from this rank, which knows what it has begun, back to the one that it needs.

    Args:
        own: What this rank waits in.
    """
    store = _board()
    fields = [own.key, own.number, own.missing, own.begun, own.said]
    store.set(str(own.rank), json.dumps(fields))
    paths, seen = [[own]], {own.rank}
    while paths:
        path = paths.pop()
        last = path[-1]
        if len(path) > 1 and last.needs(own):
            return path
        for rank in last.missing:
            other = None if rank in seen else _read(store, rank)
            if other is not None and last.needs(other):
                seen.add(rank)
                paths.append([*path, other])
    return []


def told(circle: list[Waiting]) -> str:
    """Return what ranks do that wait for each other."""
    ranks = sorted(circle, key=lambda each: each.rank)
    lines = [f"  rank {each.rank}  {each.said}" for each in ranks]
    return "\n".join(["the ranks wait for each other in different groups:", *lines])


def forget(rank: int) -> None:
    """Say that a rank does not wait any more."""
    # Whoever reads a key that is being deleted may wait for it, or find nothing.
    _board().set(str(rank), "")


def _board() -> Store:
    return PrefixStore("ranktable/dist/waiting", _get_default_store())


def _read(store: Store, rank: int) -> Waiting | None:
    if not store.check([str(rank)]):
        return None
    found = store.get(str(rank))
    if not found:  # it has been forgotten
        return None
    key, number, missing, begun, said = json.loads(found)
    return Waiting(
        rank=rank, key=key, number=number, missing=missing, begun=begun, said=said
    )
