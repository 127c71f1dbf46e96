"""What ranks write in the store of their group, and what comes of it.

Each writes what it does; the last one to come compares, and gives the verdict that all
read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from ranktable.dist.action import Action
from ranktable.dist.errors import DistError, MismatchError
from ranktable.schema.messages import folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch._C._distributed_c10d import Store

    from ranktable.dist.communicator import Communicator

Site: TypeAlias = "tuple[str, int, int] | None"
"""A place that calls: file, first line of the function, and instruction in it."""

_MOST_DETAILS: Final = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the last rank to come has found.

    Attributes:
        kind: ``agreed``, ``mismatch``, or ``missing`` ranks.
        message: What is wrong.
        sites: The places that all ranks have called from.
    """

    kind: str
    message: str = ""
    sites: Sequence[Sequence[object]] = ()

    def refuse(self) -> None:
        """Raise if the collective cannot go on.

        Raises:
            MismatchError: The ranks differ.
            DistError: Some did not come.
        """
        if self.kind == "mismatch":
            raise MismatchError(self.message)
        if self.kind == "missing":
            raise DistError(self.message)


def post(
    communicator: Communicator,
    number: int,
    action: Action,
    place: tuple[str, Site] = ("", None),
) -> None:
    """Write what this rank does; the last one to come compares."""
    store = communicator.store
    said = json.dumps([action.posted(), list(action.details)])
    store.set(_key(number, communicator.member), f"{said}\n{json.dumps(place)}")
    if store.add(_count_key(number), 1) == communicator.size:
        _give_verdict(communicator, number)


def withdraw(communicator: Communicator, number: int) -> None:
    """Remove what this rank has written, unless all have: then that is done."""
    store = communicator.store
    left = store.add(_count_key(number), -1)
    if left == communicator.size - 1:
        return
    store.delete_key(_key(number, communicator.member))
    if left == 0:
        store.delete_key(_count_key(number))


def find_verdict(communicator: Communicator, number: int) -> Verdict | None:
    """Return what the last rank to come has found, None if there is nothing yet.

    Raises:
        DistError: The store is lost.
    """
    store, key = communicator.store, _verdict_key(number)
    try:
        said = store.get(key) if store.check([key]) else b""
    except RuntimeError as error:
        raise DistError(
            f"rank {communicator.rank} lost the store of the job, so the process that "
            "serves it has ended; look at the output of rank 0"
        ) from error
    return Verdict(*json.loads(said)) if said else None


def missing_ranks(communicator: Communicator, number: int, limit: int) -> list[int]:
    """Return global ranks that have not come, at most so many.

    The store tells only whether all of some have come, so halves are asked for.
    """
    missing: list[int] = []
    parts = [range(communicator.size)]
    while parts and len(missing) < limit:
        part = parts.pop()
        if communicator.store.check([_key(number, member) for member in part]):
            continue
        if len(part) == 1:
            missing.append(communicator.ranks[part[0]])
            continue
        half = len(part) // 2
        parts += [part[half:], part[:half]]
    return missing


def publish(store: Store, number: int, verdict: Verdict) -> Verdict:
    """Give a verdict and return the one that stands, which is the first."""
    said = json.dumps([verdict.kind, verdict.message, list(verdict.sites)])
    stands = store.compare_set(_verdict_key(number), "", said)
    return Verdict(*json.loads(stands))


def _give_verdict(communicator: Communicator, number: int) -> None:
    store, size = communicator.store, communicator.size
    keys = [_key(number, member) for member in range(size)]
    posts = [each.decode().split("\n") for each in store.multi_get(keys)]
    if len({said for said, _ in posts}) == 1:
        # As text they are as quickly told apart; nearly always there is one.
        places = [json.loads(place)[1] for place in {place for _, place in posts}]
        verdict = Verdict("agreed", sites=[place for place in places if place])
    else:
        verdict = Verdict("mismatch", _table(communicator, number, posts))
    publish(store, number, verdict)
    for key in (*keys, _count_key(number)):
        store.delete_key(key)
    # All have read the verdict before this one, or they would not be here.
    store.delete_key(_verdict_key(communicator.last_compared))
    communicator.last_compared = number


def _table(communicator: Communicator, number: int, posts: list[list[str]]) -> str:
    """Return what the ranks do, with those together that do the same.

    Args:
        communicator: The group.
        number: Number of the collective.
        posts: What each rank has written: the action with its details, and its place.
    """
    read = [(*json.loads(said), json.loads(place)[0]) for said, place in posts]
    common = set.intersection(*(set(details) for _, details, _ in read))
    said = []
    for fields, details, place in read:
        own = [detail for detail in details if detail not in common]
        if not own and details and details != read[0][1]:
            own = ["the same in another order"]
        shown = own[:_MOST_DETAILS]
        if len(own) > len(shown):
            shown.append(f"and {len(own) - len(shown)} others")
        where = f"  at {place}" if place else ""
        said.append(Action(**fields).words(shown) + where)
    return table_of(communicator, number, said)


def table_of(communicator: Communicator, number: int, said: Iterable[str]) -> str:
    """Return what the ranks of a group say, with those together that say the same."""
    groups: dict[str, list[int]] = {}
    for rank, each in zip(communicator.ranks, said, strict=True):
        groups.setdefault(each, []).append(rank)
    names = [ranks_in_words(ranks) for ranks in groups.values()]
    width = max(map(len, names))
    lines = [
        f"  {name:<{width}}  {each}" for name, each in zip(names, groups, strict=True)
    ]
    title = f"the ranks differ in collective {number} of {communicator.name}:"
    return "\n".join([title, *lines])


def ranks_in_words(ranks: list[int]) -> str:
    """Return ``rank 3``, or ``ranks 3-5``."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {folded(ranks)}"


def _key(number: int, member: int) -> str:
    return f"{number}/{member}"


def _count_key(number: int) -> str:
    return f"{number}/count"


def _verdict_key(number: int) -> str:
    return f"{number}/verdict"
