"""Before a collective the ranks compare what they are about to do.

They do it in the store that the group was made with, not by a collective: a rank that
does something else, or nothing, cannot upset the group, and chips need not wait. Each
writes what it does and the last one to come gives the verdict, which all read.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from ranktable.dist.blocked import Waiting, find_cycle, forget, told
from ranktable.dist.communicator import begun, check_mode, store_of
from ranktable.dist.errors import DistError, MismatchError
from ranktable.schema.wording import folded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import FrameType

    from torch._C._distributed_c10d import Store

    from ranktable.dist.communicator import Communicator

Site: TypeAlias = "tuple[str, int, int] | None"
"""A place that calls: file, first line of the function, and instruction in it."""

_HERE: Final = "ranktable.dist."
_MOST_DETAILS: Final = 5
_MOST_MISSING: Final = 8
_LOOK_S: Final = 1.0
"""Time after which a rank looks for the first time why nobody answers."""

_OPEN_S: Final = 0.25
"""Time after which it says what it has begun before."""

_FIRST_PAUSE_S: Final = 0.0002
_LONGEST_PAUSE_S: Final = 0.1
_OTHERS_S: Final = 5.0
"""Time for the others to hear of a problem that only this rank has: those that wait in
a collective look every second."""


@dataclass(slots=True)  # one for each call: freezing it would cost more than the rest
class Turn:
    """A collective of a group.

    Attributes:
        number: How many there were, with this one.
        describe: Returns what this rank does.
        is_compared: Whether ranks compare what they do at all.
        is_agreed: Whether all ranks are known to do the same.
        is_posted: Whether this rank has written what it does.
    """

    number: int
    describe: Callable[[], Action]
    is_compared: bool
    is_agreed: bool = False
    is_posted: bool = False

    @property
    def action(self) -> Action:
        """What this rank does."""
        return self.describe()


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
    details: Sequence[str] = ()
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

    @property
    def key(self) -> object:
        """All of it, as what can be looked up."""
        return str(self), *self.details

    def posted(self) -> dict[str, object]:
        """Return it as what JSON can hold."""
        fields = ("operation", "reduction", "dtype", "shape", "root", "problem")
        return {name: getattr(self, name) for name in fields}


def agree(
    communicator: Communicator,
    describe: Callable[[], Action],
    problem: Exception | None = None,
    request: tuple[str | None, ...] = (),
) -> Turn:
    """Count a collective, and make sure that all ranks are about to do the same.

    Args:
        communicator: The group.
        describe: Returns what this rank is about to do; called if that is compared.
        problem: Why it cannot.
        request: What of it is new even where a place has been called from before.

    Raises:
        Exception: The problem, if all ranks have it or nothing is compared.
        MismatchError: The ranks are about to do different things.
        DistError: A rank did not come, or the group has failed before.
    """
    communicator.refuse_failed()
    communicator.sequence += 1
    mode = check_mode()
    is_compared = mode != "off" and communicator.size > 1
    turn = Turn(communicator.sequence, describe, is_compared)
    if not is_compared:
        if problem is not None:
            raise problem
        return turn
    frame = _caller()
    code = frame.f_code
    site = (code.co_filename, code.co_firstlineno, frame.f_lasti)
    seen = communicator.seen
    # Ranks that call from different places have not seen the same ones. One that has
    # goes on while the others wait for it, and only what is watched gets back to them.
    # Elsewhere ranks have to skip alike, so all that they do counts, and no place.
    key = (site, request) if communicator.is_watched else describe().key
    if mode == "first" and problem is None and key in seen:
        communicator.keep_open(turn)
        return turn
    action = describe()
    if problem is not None:
        action = replace(action, problem=str(problem))
    place = f"{_shown(code.co_filename)}:{frame.f_lineno}"
    sites = _compare(communicator, action, (place, site), problem)
    seen.add(key)
    # The others' places too: who calls from there next has been compared.
    seen.update((tuple(each), request) for each in sites)
    turn.is_agreed = True
    return turn


def _caller() -> FrameType:
    """Return the frame that has called this package."""
    frame = sys._getframe(2)  # noqa: SLF001 - there is no other way to one frame
    while frame.f_globals.get("__name__", "").startswith(_HERE):
        if frame.f_back is None:
            break
        frame = frame.f_back
    return frame


def _shown(file: str) -> str:
    """Return a file as people name it: from the current folder, if it is in there."""
    try:
        return file.removeprefix(f"{Path.cwd()}/")
    except OSError:  # that folder was removed
        return file


def _compare(
    communicator: Communicator,
    action: Action,
    place: tuple[str, Site],
    problem: Exception | None,
) -> Sequence[Sequence[object]]:
    """Return where all ranks have called from, if all do the same."""
    timeout = communicator.timeout
    if problem is not None:
        timeout = min(timeout, timedelta(seconds=_OTHERS_S))
    number = communicator.sequence
    post(communicator, number, action, place)
    verdict = await_verdict(communicator, number, action, timeout)
    if verdict is None and problem is None:
        verdict = name_missing(communicator, number, action, timeout)
    if verdict is not None:
        verdict.refuse()
    if problem is not None:
        raise problem
    return () if verdict is None else verdict.sites


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


def post_open(communicator: Communicator) -> None:
    """Write what this rank has begun without a comparison, and not seen the end of."""
    for turn in list(communicator.open_turns.values()):
        if not turn.is_posted:
            turn.is_posted = True
            post(communicator, turn.number, turn.action)


def withdraw(communicator: Communicator, number: int) -> None:
    """Remove what this rank has written, unless all have: then that is done."""
    store = communicator.store
    left = store.add(_count_key(number), -1)
    if left == communicator.size - 1:
        return
    store.delete_key(_key(number, communicator.member))
    if left == 0:
        store.delete_key(_count_key(number))


def await_verdict(
    communicator: Communicator, number: int, action: Action, timeout: timedelta
) -> Verdict | None:
    """Return what the last rank to come has found, None if it did not come in time.

    Raises:
        DistError: The store is lost.
    """
    begin = time.monotonic()
    look_s, pause_s = _LOOK_S, _FIRST_PAUSE_S
    try:
        # The store could wait itself, but says so on standard error when that is over.
        while (verdict := find_verdict(communicator, number)) is None:
            waited_s = time.monotonic() - begin
            if waited_s >= timeout.total_seconds():
                return None
            if waited_s > _OPEN_S:
                post_open(communicator)  # another rank may wait for that
            if waited_s > look_s:
                look_s *= 2  # many ranks may wait for one, and for long
                verdict = find_deadlock(communicator, number, action)
                if verdict is not None:
                    return verdict
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return verdict
    finally:
        if look_s > _LOOK_S:
            forget(communicator.rank)


def find_deadlock(
    communicator: Communicator, number: int, action: Action
) -> Verdict | None:
    """Return that this rank and another wait for each other in different groups."""
    own = Waiting(
        rank=communicator.rank,
        key=communicator.key,
        number=number,
        missing=_missing(communicator, number, _MOST_MISSING),
        begun=begun(),
        said=f"{action}, collective {number} of {communicator.name}",
    )
    circle = find_cycle(own)
    if not circle:
        return None
    verdict = Verdict("mismatch", told(circle))
    # All of these groups are told the same, also those who look later.
    for each in circle:
        _publish(store_of(each.key), each.number, verdict)
    return find_verdict(communicator, number)


def _missing(communicator: Communicator, number: int, limit: int) -> list[int]:
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
    communicator: Communicator, number: int, action: Action, timeout: timedelta
) -> Verdict:
    """Return which ranks did not come; whoever asks first decides for all."""
    missing = _missing(communicator, number, communicator.size)
    if not missing:  # the last one has just come, and is about to say what it finds
        late = await_verdict(communicator, number, action, timedelta(seconds=_OTHERS_S))
        if late is not None:
            return late
    message = (
        f"{_named(missing)} did not come to collective {number} of "
        f"{communicator.name} within {timeout.total_seconds():g} s; the others call "
        f"{action}"
    )
    return _publish(communicator.store, number, Verdict("missing", message))


def _publish(store: Store, number: int, verdict: Verdict) -> Verdict:
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
    _publish(store, number, verdict)
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
    groups: dict[tuple[str, str], list[int]] = {}
    for rank, (fields, details, place) in zip(communicator.ranks, read, strict=True):
        own = [detail for detail in details if detail not in common]
        if not own and details != read[0][1]:
            own = ["the same in another order"]
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


def _count_key(number: int) -> str:
    return f"{number}/count"


def _verdict_key(number: int) -> str:
    return f"{number}/verdict"
