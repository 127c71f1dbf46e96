"""Before a collective the ranks compare what they are about to do.

They do it in the store that the group was made with, not by a collective: a rank that
does something else, or nothing, cannot upset the group, and chips need not wait. Each
writes what it does and the last one to come gives the verdict, which all read.
"""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from ranktable.dist.communicator import check_mode
from ranktable.dist.errors import DistError, MismatchError
from ranktable.schema.wording import folded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    from ranktable.dist.communicator import Communicator

_HERE: Final = "ranktable.dist."
_MOST_DETAILS: Final = 5
_OTHERS_S: Final = 5.0
"""Time for the others to hear of a problem that only this rank has: those that wait in
a collective look every second."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A collective of a group.

    Attributes:
        number: How many there were, with this one.
        action: What this rank does.
        is_agreed: Whether all ranks are known to do the same.
    """

    number: int
    action: Action
    is_agreed: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the last rank to come has found.

    Attributes:
        kind: ``agreed``, ``mismatch``, or ``missing`` ranks.
        message: What is wrong.
    """

    kind: str
    message: str = ""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a rank is about to do; all of it has to be the same on every rank.

    Attributes:
        operation: The collective.
        reduction: How it reduces.
        dtype: Type of the tensors.
        shape: Their shape, where it has to be the same.
        root: Global rank of the root.
        details: What else has to be the same, each in words.
        problem: Why this rank cannot do it.
    """

    operation: str
    reduction: str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    root: int | None = None
    details: Callable[[], list[str]] = list
    problem: str | None = None

    def __str__(self) -> str:
        """Return it in words."""
        return self.words([])

    def words(self, details: Iterable[str]) -> str:
        """Return it in words.

        Args:
            details: Those to mention.
        """
        words = [self.operation]
        if self.shape is not None:
            words.append(f"of shape {tuple(self.shape)}")
        if self.dtype is not None:
            words.append(self.dtype)
        if self.reduction is not None:
            words.append(f"({self.reduction})")
        if self.root is not None:
            words.append(f"with root {self.root}")
        words += details
        if self.problem is not None:
            words.append(f"- refused: {self.problem}")
        return " ".join(words)

    def posted(self) -> dict[str, object]:
        """Return it as what JSON can hold."""
        fields = ("operation", "reduction", "dtype", "shape", "root", "problem")
        return {name: getattr(self, name) for name in fields}


def agree(
    communicator: Communicator, action: Action, problem: Exception | None = None
) -> Turn:
    """Count a collective, and make sure that all ranks are about to do the same.

    Args:
        communicator: The group.
        action: What this rank is about to do.
        problem: Why it cannot.

    Raises:
        Exception: The problem, if all ranks have it or nothing is compared.
        MismatchError: The ranks are about to do different things.
        DistError: A rank did not come.
    """
    communicator.sequence += 1
    mode = check_mode()
    if mode == "off" or communicator.size == 1:
        if problem is not None:
            raise problem
        return Turn(communicator.sequence, action, is_agreed=False)
    frame = _caller()
    kind = _kind(communicator, action, frame)
    if mode == "first" and problem is None and kind in communicator.seen:
        return Turn(communicator.sequence, action, is_agreed=False)
    if problem is not None:
        action = replace(action, problem=str(problem))
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    _compare(communicator, action, place, problem)
    communicator.seen.add(kind)
    return Turn(communicator.sequence, action, is_agreed=True)


def _kind(communicator: Communicator, action: Action, frame: FrameType) -> object:
    """Return what is compared the first time: a call site, where that is safe.

    Ranks that call from different places have not seen the same places. One that has
    seen its own goes on while the others wait for it, and only what is watched gets
    back to them. Elsewhere ranks have to skip alike, so what they do counts.
    """
    if communicator.is_watched:
        return frame.f_code, frame.f_lasti
    shape, root = action.shape, action.root
    return action.operation, action.reduction, action.dtype, shape, root


def _caller() -> FrameType:
    """Return the frame that has called this package."""
    frame = sys._getframe(2)  # noqa: SLF001 - there is no other way to one frame
    while frame.f_globals.get("__name__", "").startswith(_HERE):
        if frame.f_back is None:
            break
        frame = frame.f_back
    return frame


def _compare(
    communicator: Communicator,
    action: Action,
    place: str,
    problem: Exception | None,
) -> None:
    timeout = communicator.timeout
    if problem is not None:
        timeout = min(timeout, timedelta(seconds=_OTHERS_S))
    number = communicator.sequence
    post(communicator, number, action, place)
    verdict = await_verdict(communicator, number, timeout)
    if verdict is None and problem is None:
        verdict = name_missing(communicator, number, str(action), timeout)
    if verdict is not None:
        verdict.refuse()
    if problem is not None:
        raise problem


def post(
    communicator: Communicator, number: int, action: Action, place: str | None
) -> None:
    """Write what this rank does; the last one to come compares."""
    store = communicator.store
    store.set(
        _key(number, communicator.member),
        json.dumps([action.posted(), action.details(), place]),
    )
    if store.add(f"{number}/count", 1) == communicator.size:
        _give_verdict(communicator, number)


def await_verdict(
    communicator: Communicator, number: int, timeout: timedelta
) -> Verdict | None:
    """Return what the last rank to come has found, None if it did not come in time.

    Raises:
        DistError: The store is lost.
    """
    # The store says nothing but "error", whether it is late or lost: the look says it.
    with contextlib.suppress(RuntimeError):
        communicator.store.wait([_verdict_key(number)], timeout)
    return find_verdict(communicator, number)


def find_verdict(communicator: Communicator, number: int) -> Verdict | None:
    """Return what the last rank to come has found, None if there is nothing yet.

    Raises:
        DistError: The store is lost.
    """
    store, key = communicator.store, _verdict_key(number)
    try:
        return Verdict(*json.loads(store.get(key))) if store.check([key]) else None
    except RuntimeError as error:
        raise DistError(
            f"rank {communicator.rank} lost the store of the job, so the process that "
            "serves it has ended; look at the output of rank 0"
        ) from error


def name_missing(
    communicator: Communicator, number: int, action: str, timeout: timedelta
) -> Verdict:
    """Return which ranks did not come; whoever asks first decides for all."""
    store = communicator.store
    missing = [
        rank
        for member, rank in enumerate(communicator.ranks)
        if not store.check([_key(number, member)])
    ]
    message = (
        f"{_named(missing)} did not come to collective {number} of "
        f"{communicator.name} within {timeout.total_seconds():g} s; the others call "
        f"{action}"
    )
    return _publish(communicator, number, Verdict("missing", message))


def _publish(communicator: Communicator, number: int, verdict: Verdict) -> Verdict:
    """Give a verdict and return the one that stands, which is the first."""
    said = json.dumps([verdict.kind, verdict.message])
    stands = communicator.store.compare_set(_verdict_key(number), "", said)
    return Verdict(*json.loads(stands))


def _give_verdict(communicator: Communicator, number: int) -> None:
    store, size = communicator.store, communicator.size
    keys = [_key(number, member) for member in range(size)]
    posts = [json.loads(store.get(key)) for key in keys]
    is_same = all(post[:2] == posts[0][:2] for post in posts)
    verdict = Verdict("agreed")
    if not is_same:
        verdict = Verdict("mismatch", _table(communicator, number, posts))
    _publish(communicator, number, verdict)
    for key in (*keys, f"{number}/count"):
        store.delete_key(key)
    # All have read the verdict before this one, or they would not be here.
    store.delete_key(_verdict_key(communicator.last_compared))
    communicator.last_compared = number


def _table(communicator: Communicator, number: int, posts: list[Any]) -> str:
    """Return what the ranks do, with those together that do the same.

    Args:
        communicator: The group.
        number: Number of the collective.
        posts: What each rank has written: the action, its details and its place.
    """
    common = set.intersection(*(set(details) for _, details, _ in posts))
    groups: dict[tuple[str, str], list[int]] = {}
    for rank, (fields, details, place) in zip(communicator.ranks, posts, strict=True):
        own = [detail for detail in details if detail not in common]
        shown = own[:_MOST_DETAILS]
        if len(own) > len(shown):
            shown.append(f"and {len(own) - len(shown)} others")
        action = Action(**fields).words(shown)
        groups.setdefault((action, place), []).append(rank)
    names = [_named(ranks) for ranks in groups.values()]
    width = max(map(len, names))
    lines = [
        f"  {name:<{width}}  {action}" + (f"  at {place}" if place else "")
        for name, (action, place) in zip(names, groups, strict=True)
    ]
    title = f"the ranks differ in collective {number} of {communicator.name}:"
    return "\n".join([title, *lines])


def _named(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {folded(ranks)}"


def _key(number: int, member: int) -> str:
    return f"{number}/{member}"


def _verdict_key(number: int) -> str:
    return f"{number}/verdict"
