"""Before a collective, the ranks compare what they are about to do.

They compare through the store of their group, not by a collective. So a rank that calls
something else, or nothing, does not disturb the group, and chips do not wait. A call
that all ranks have compared once is not compared again. All ranks count their
collectives, so each knows which calls have been compared. An asynchronous call begins
at once, and its ``wait`` compares it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import warnings
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from ranktable.dist.collective_errors import DistError, MismatchError
from ranktable.runtime.store_round import StoreRound, usable_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torch._C._distributed_c10d import Store

    from ranktable.dist.group_state import GroupState
    from ranktable.dist.own_group import OwnGroup
    from ranktable.runtime.store_round import Verdict

_HERE: Final = "ranktable.dist"
_LONG_S: Final = 2.0
"""Time after which a waiting rank publishes its collective, even if no rank asks."""

_LOOK: Final = timedelta(seconds=0.5)
"""Time after which a waiting rank checks whether another one compares this call."""

_AFTER_S: Final = 2.0
"""Time for the others to report their collective after a failure."""

_MOST_ABSENT: Final = 8
"""The most missing ranks for which the message says where they wait."""

_OTHERS_S: Final = 5.0
"""Time for the others to read of a problem that only this rank has."""

MOST_KNOWN: Final = 1024
"""The most different calls that a group compares, the same on all ranks: a script with
a new shape at every step would otherwise compare at every step."""

_MOST_DETAILS: Final = 5
_MODES: Final = {b"off": "off", b"first": "first", b"always": "always"}
_ENVIRONMENT: Final = getattr(os.environb, "_data", os.environb)
"""The dictionary behind ``os.environb``. Every collective reads a variable. If it is
not set, ``os.environb`` takes longer than all other Python code of a collective."""


class CollectiveFingerprint(NamedTuple):
    """What a rank is about to do; it must be the same on every rank.

    Attributes:
        operation: The collective.
        reduction: The reduction.
        dtype: Type of the tensors.
        shape: Their shape, if it must be the same.
        root: Global rank of the root.
        details: What else must be the same, each in words, or a name with the type and
            the shape of its tensor.
        backend: Name of the backend.
        problem: Why this rank cannot do it.
    """

    operation: str
    reduction: object = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    root: int | None = None
    details: tuple[object, ...] = ()
    backend: str = ""
    problem: str | None = None

    def __str__(self) -> str:
        """Return it in words, without details."""
        return self.words(())

    def words(self, details: Iterable[str]) -> str:
        """Return it in words.

        Args:
            details: The details to include.
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

    def posted(self) -> str:
        """Return it as text; equal calls have equal texts."""
        details = [_in_words(each) for each in self.details]
        if self.backend:
            details.append(f"on {self.backend}")
        reduction = None if self.reduction is None else str(self.reduction)
        shape = None if self.shape is None else list(self.shape)
        fields = (self.operation, reduction, self.dtype, shape, self.root)
        return json.dumps([*fields, details, "", self.problem])


def _in_words(detail: object) -> str:
    if isinstance(detail, tuple):
        name, dtype, shape = detail
        return f"{name}: {str(dtype).removeprefix('torch.')} {tuple(shape)}"
    return str(detail)


@dataclass(slots=True)  # one for each call: freezing it would cost more than the rest
class CollectiveCall:
    """A collective of a group.

    Attributes:
        members: The group.
        seq: The number of this collective in its group, counted from 1.
        fingerprint: What this rank does.
        is_compared: Whether ranks compare this call.
        held: The round in the store, until this rank has read its result.
        is_verified: Whether it is known that all ranks do the same.
        is_async: Whether this rank does not wait for it.
        own_group: The group in which its tensors travel; None for that of torch.
        own_store: The members' store, for the thread that does it in the background.
    """

    members: GroupState
    seq: int
    fingerprint: CollectiveFingerprint
    is_compared: bool
    held: StoreRound | None = None
    is_verified: bool = False
    is_async: bool = False
    own_group: OwnGroup | None = None
    own_store: Store | None = None
    is_last: ClassVar[bool] = False

    @property
    def store(self) -> Store | None:
        """The store in which it is compared."""
        return self.members.store if self.own_store is None else self.own_store

    @property
    def is_open(self) -> bool:
        """Whether the ranks may still find a difference."""
        return self.is_compared and not self.is_verified

    def is_completed(self) -> bool:
        """Whether the backend may start."""
        return self.held is None

    def wait(self) -> None:
        """Wait until the backend may start: it is known that all ranks do the same.

        Raises:
            MismatchError: The ranks call different operations.
            DistError: A rank is missing.
        """
        self.verify(is_begun=False)

    def post(self) -> None:
        """Post what this rank does, without waiting."""
        members = self.members
        assert self.store is not None
        # In a job of this package no later group uses this store, so the message may
        # stay for late ranks.
        self.held = StoreRound(
            store=PrefixStore(str(self.seq), self.store),
            rank=members.rank,
            ranks=members.ranks,
            wording=self,
            is_erased=True,
            is_kept=members.is_of_job,
        )
        with members.using_store():
            self.held.post(self.fingerprint.posted(), note=f"\n{_place()}")

    def verify(
        self, timeout: timedelta | None = None, *, is_begun: bool = True
    ) -> None:
        """Wait until all ranks have posted their call, and all calls are the same.

        Args:
            timeout: How long to wait; by default as long as the group.
            is_begun: Whether the backend has started it.

        Raises:
            MismatchError: The calls differ.
            DistError: A rank is missing.
        """
        if dist.group.WORLD is None:  # it was destroyed: nothing is left to compare
            self.held = None
        if self.held is not None:
            self._heed(self._hear(timeout), is_begun=is_begun)

    def verify_in_background(
        self, store: Store, is_given_up: Callable[[], bool]
    ) -> None:
        """Wait likewise, in a thread in the background.

        Args:
            store: The members' store, on a connection that only this thread uses.
            is_given_up: Whether the result is not needed any more.

        Raises:
            MismatchError: The calls differ.
            DistError: A rank is missing.
        """
        self.own_store = store
        if self.held is not None:
            self.held.store = usable_store(PrefixStore(str(self.seq), store))
            self.held.is_given_up = is_given_up
            self._heed(self._hear(is_place=False), is_begun=True)

    def look_around(self, waited_s: float) -> None:
        """Compare a call that takes long, or that another rank asks to compare.

        Ranks that post different calls with the same number in this group do differ:
        this is certain, not a guess.

        Raises:
            MismatchError: The ranks differ.
        """
        members = self.members
        if not self.is_open or self.store is None:
            return
        if self.held is not None:
            if self.is_decided():
                self._heed(self._hear(), is_begun=True)
            return
        asked = usable_store(PrefixStore(str(self.seq), self.store))
        with members.using_store():
            is_asked = waited_s > _LONG_S or asked.check(["first"])
        if is_asked:
            self.post()

    def end(self) -> None:
        """Remove what was posted while waiting, because the collective has ended."""
        held, self.held = self.held, None
        if held is not None:
            with self.members.using_store():
                held.withdraw()

    def explain(self, time_s: float) -> Verdict | None:
        """Return the possible cause of a failure: missing ranks, or different calls."""
        if not self.is_open or self.store is None:
            return None
        try:
            if self.held is None:
                self.post()
            return self._hear(timedelta(seconds=time_s))
        except (DistError, RuntimeError):  # the store is lost too
            return None

    def is_decided(self) -> bool:
        """Whether all ranks have posted their call, or no comparison is needed."""
        if self.held is None or dist.group.WORLD is None:
            return True
        with self.members.using_store():
            return self.held.is_decided()

    def differing(self, said: Mapping[int, str]) -> tuple[str, tuple[int, ...]]:
        """Return a table of what the ranks do, one line for ranks that do the same."""
        return _table(self.members, self.seq, said), tuple(said)

    def missing(self, absent: Sequence[int], time_s: float) -> str:
        """Return the message that names missing ranks, and where some of them wait."""
        if not absent:  # the last rank arrived, but no verdict was published
            absent = self.members.ranks[-1:]
        elsewhere = [
            f"; rank {rank} waits in {place}"
            for rank in absent[:_MOST_ABSENT]
            if (place := self.members.place_of(rank))
        ]
        return (
            f"{ranks_in_words(absent)} did not reach collective {self.seq} of "
            f"{self.members.name} within {time_s:g} s; the others call "
            f"{self.fingerprint}{''.join(elsewhere)}"
        )

    def give_up(self, time_s: float) -> None:
        """Tell the others what this rank cannot do.

        Raises:
            MismatchError: The others do something else.
        """
        limit = timedelta(seconds=time_s)
        verdict = self._hear(limit, looks=False, is_place=False)
        self._heed(verdict, is_begun=False)

    def _hear(
        self,
        timeout: timedelta | None = None,
        *,
        looks: bool = True,
        is_place: bool = True,
    ) -> Verdict | None:
        """Return the verdict.

        Args:
            timeout: How long to wait; by default as long as the group.
            looks: Whether to name missing ranks; else None is returned after that time.
            is_place: Whether this is where the script waits, which others may ask for.
        """
        held, self.held = self.held, None
        assert held is not None
        members = self.members
        time_s = (timeout or members.timeout).total_seconds()
        with members.using_store():
            on_wait = self._publish_place if is_place else None
            verdict = held.hear(time_s, looks=looks, on_wait=on_wait)
            if is_place:
                members.set_place(None)
        return verdict

    def _publish_place(self) -> None:
        name = self.members.name
        self.members.set_place(f"{self.fingerprint}, collective {self.seq} of {name}")

    def _heed(self, verdict: Verdict | None, *, is_begun: bool) -> None:
        if verdict is None:
            return
        if verdict.kind == "agreed":
            self.is_verified = True
            return
        if self.fingerprint.problem is None:
            # All ranks that read this forget the call, so all of them compare it again
            # the next time.
            self.members.known.discard(self.fingerprint)
        if is_begun:  # otherwise gloo waits forever, and the process cannot end
            self.members.fail(verdict.message)
        kind = MismatchError if verdict.kind == "differ" else DistError
        raise kind(verdict.message)


def begin_call(
    members: GroupState,
    fingerprint: CollectiveFingerprint,
    problem: Exception | None = None,
) -> CollectiveCall:
    """Count a collective, and post what this rank is about to do, without waiting.

    Args:
        members: The group.
        fingerprint: What this rank is about to do.
        problem: Why this rank cannot do it.

    Raises:
        Exception: The problem, if all ranks have it or nothing is compared.
        MismatchError: The others do something else.
        DistError: The group has failed before.
    """
    if members.failure is not None:
        members.refuse_failed()
    if members.unverified:
        members.check_dropped()
    mode = check_mode()
    members.seq += 1
    is_compared = mode != "off" and members.can_compare
    call = CollectiveCall(members, members.seq, fingerprint, is_compared)
    if not is_compared:
        if problem is not None:
            raise problem
        return call
    if problem is not None:
        call.fingerprint = fingerprint._replace(problem=str(problem))
        call.post()
        call.give_up(min(members.timeout.total_seconds(), _OTHERS_S))
        raise problem
    if mode == "first":
        if fingerprint in members.known:
            return call
        if len(members.known) >= MOST_KNOWN:
            _warn_of_many(members)
            return call
        members.known.add(fingerprint)
    call.post()
    return call


def await_backend(
    work: dist.Work, members: GroupState, call: CollectiveCall | None
) -> None:
    """Wait for torch; if it takes long, answer ranks that compare this call.

    Raises:
        MismatchError: Another rank does something else.
        DistError: The collective failed, or did not end in time.
    """
    try:
        if not members.supports_timed_wait or call is None or not call.is_open:
            work.wait()
            return
        try:
            work.wait(_LOOK)
        except RuntimeError:  # it failed, or the time was too short
            _wait_and_answer(work, call)
    except DistError:
        raise
    except RuntimeError as error:
        raise explained(error, members, call) from error


def _wait_and_answer(work: dist.Work, call: CollectiveCall) -> None:
    """Wait for gloo, and compare the call in the meantime.

    Raises:
        MismatchError: Another rank does something else.
        RuntimeError: The collective failed.
    """
    begin = time.monotonic() - _LOOK.total_seconds()
    while not work.is_completed():
        call.look_around(time.monotonic() - begin)
        if time.monotonic() - begin > call.members.timeout.total_seconds():
            break  # gloo has its own time-out
        with contextlib.suppress(RuntimeError):
            work.wait(_LOOK)
    work.wait()  # it may have failed, and raises the reason
    call.end()


def explained(
    error: RuntimeError, members: GroupState, call: CollectiveCall | None
) -> DistError:
    """Return the error for an operation that torch could not finish."""
    verdict = None if call is None else call.explain(_AFTER_S)
    if verdict is not None and verdict.kind == "differ":
        members.fail(verdict.message)
        return MismatchError(verdict.message)
    what = "what was sent or received"
    if call is not None:
        what = f"{call.fingerprint}, collective {call.seq} of {members.name},"
    others = "another rank has ended, or the ranks call different operations"
    if verdict is not None and verdict.kind == "missing":
        others = verdict.message
    return DistError(
        f"{what} failed on rank {members.rank}: {reason_of(error)}; {others} "
        "(RANKTABLE_DIST_CHECK=always compares every call)"
    )


def refused(
    error: RuntimeError, members: GroupState, backend: str, call: CollectiveCall | None
) -> DistError:
    """Return the error for an operation that torch did not start on this rank.

    Args:
        error: The error of torch.
        members: The group.
        backend: The name of the backend that refused it.
        call: The collective, None for a transfer between two ranks.
    """
    what = "a transfer" if call is None else str(call.fingerprint)
    return DistError(
        f"{what} failed on rank {members.rank} ({backend}): {reason_of(error)}"
    )


def reason_of(error: RuntimeError) -> str:
    """Return what torch says before its stack of C++ calls."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def wait_for_all(members: GroupState, time_s: float) -> None:
    """Wait until all ranks have called this, on every backend; name the missing ones.

    Raises:
        MismatchError: A rank does something else.
        DistError: Ranks are missing after the time-out, or there is no usable store.
    """
    members.refuse_failed()
    members.seq += 1
    fingerprint = CollectiveFingerprint("barrier", details=("with a time-out",))
    if members.store is None:
        raise DistError(
            "this group has no store, which a barrier with a time-out needs"
        )
    call = CollectiveCall(members, members.seq, fingerprint, is_compared=True)
    call.post()
    call.verify(timedelta(seconds=time_s), is_begun=False)


def _warn_of_many(members: GroupState) -> None:
    if not members.has_warned:
        members.has_warned = True
        warnings.warn(
            f"{members.name} has compared {MOST_KNOWN} different collectives, each "
            "with a request to the store, and will not compare any others; "
            "RANKTABLE_DIST_CHECK=always compares every call, and off none",
            RuntimeWarning,
            stacklevel=2,
        )


def check_mode() -> str:
    """Return when ranks compare what they are about to do.

    Raises:
        ValueError: ``RANKTABLE_DIST_CHECK`` is something else.
    """
    mode = _ENVIRONMENT.get(b"RANKTABLE_DIST_CHECK") or b"first"
    if mode not in _MODES:
        raise ValueError(
            f"RANKTABLE_DIST_CHECK is {os.fsdecode(mode)!r}, not one of off, first "
            "and always"
        )
    return _MODES[mode]


def _place() -> str:
    """Return the place in the script that has called this package."""
    frame = sys._getframe(2)
    while frame.f_globals.get("__name__", "").startswith(_HERE):
        if frame.f_back is None:
            break
        frame = frame.f_back
    file = frame.f_code.co_filename
    with contextlib.suppress(OSError):  # that folder was removed
        file = file.removeprefix(f"{Path.cwd()}/")
    return f"{file}:{frame.f_lineno}"


def _table(members: GroupState, seq: int, said: Mapping[int, str]) -> str:
    """Return a table of what the ranks do, with the details that differ."""
    texts = {text: json.loads(text.partition("\n")[0]) for text in set(said.values())}
    common = set.intersection(*(set(fields[5]) for fields in texts.values()))
    first = texts[said[min(said)]][5]
    shown = {}
    for text, fields in texts.items():
        own = [detail for detail in fields[5] if detail not in common]
        if not own and fields[5] and fields[5] != first:
            own = ["the same in another order"]
        details = own[:_MOST_DETAILS]
        if len(own) > len(details):
            details.append(f"and {len(own) - len(details)} others")
        place = text.partition("\n")[2]
        words = CollectiveFingerprint(*fields).words(details)
        shown[text] = f"{words}  at {place}" if place else words
    return table_of(members, seq, {rank: shown[text] for rank, text in said.items()})


def table_of(members: GroupState, seq: int, said: Mapping[int, str]) -> str:
    """Return a table of what the ranks say, one line for ranks that say the same."""
    groups: dict[str, list[int]] = {}
    for rank in sorted(said):
        groups.setdefault(said[rank], []).append(rank)
    names = [ranks_in_words(ranks) for ranks in groups.values()]
    width = max(map(len, names))
    lines = [
        f"  {name:<{width}}  {each}" for name, each in zip(names, groups, strict=True)
    ]
    title = f"the ranks differ in collective {seq} of {members.name}:"
    return "\n".join([title, *lines])


def ranks_in_words(ranks: Sequence[int]) -> str:
    """Return ``rank 3``, or ``ranks 3-5``."""
    from ranktable.schema.diagnostic import folded

    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {folded(ranks)}"


def shape_of(data: object) -> tuple[int, ...] | None:
    """Return the shape of a tensor, None if it is not one."""
    if not isinstance(data, torch.Tensor) or data.is_nested:
        return None
    return data.shape
