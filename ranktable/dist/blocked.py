"""Ranks that wait for each other in different groups.

Each group compares for itself. Where one rank is in a collective of one group and another
in one of another group, and both are in both, neither comparison ever ends. So a rank
that waits for long says in a place for the whole job where it waits, and looks whether
one that it waits for waits for it.
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


def find_mutual(own: Waiting) -> tuple[Waiting, str] | None:
    """Return another rank that waits for this one, and what both do; None if none does.

    What another rank has written may be old, but not if it needs this one: that has begun
    nothing since.

    Args:
        own: What this rank waits in.
    """
    store = _board()
    fields = [own.key, own.number, own.missing, own.begun, own.said]
    store.set(str(own.rank), json.dumps(fields))
    for rank in own.missing:
        other = _read(store, rank)
        if other is not None and own.needs(other) and other.needs(own):
            return other, _told(own, other)
    return None


def forget(rank: int) -> None:
    """Say that a rank does not wait any more."""
    _board().delete_key(str(rank))


def _told(own: Waiting, other: Waiting) -> str:
    pair = sorted((own, other), key=lambda each: each.rank)
    lines = [f"  rank {each.rank}  {each.said}" for each in pair]
    return "\n".join(["the ranks wait for each other in different groups:", *lines])


def _board() -> Store:
    return PrefixStore("ranktable/dist/waiting", _get_default_store())


def _read(store: Store, rank: int) -> Waiting | None:
    if not store.check([str(rank)]):
        return None
    key, number, missing, begun, said = json.loads(store.get(str(rank)))
    return Waiting(
        rank=rank, key=key, number=number, missing=missing, begun=begun, said=said
    )
