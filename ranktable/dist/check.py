"""Checking mode: before a call, the ranks compare what they are about to do.

It is a debugging mode, as ``TORCH_DISTRIBUTED_DEBUG=DETAIL`` is torch's, but for every
backend, and for reductions and roots too. The ranks compare through the store of the
job, not by a collective, so nothing has begun when they differ.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import socket
import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

from torch._C._distributed_c10d import PrefixStore
from torch.distributed.distributed_c10d import (
    _get_default_store,
    _get_process_group_name,
)

from ranktable.dist.errors import DistError, MismatchError
from ranktable.runtime.job import current_job, error_of_script
from ranktable.runtime.rendezvous import LateError, in_time
from ranktable.runtime.store_round import (
    StoreRound,
    Verdict,
    has_list_store,
    usable_store,
)
from ranktable.schema.text import folded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.dist.members import Members

VARIABLE: Final = "RANKTABLE_DIST_CHECK"
_VALUES: Final = {"": False, "0": False, "1": True}
_TIMEOUT_S: Final = 1800.0  # torch's own
_PAUSE_S: Final = 0.01
_ANSWER_S: Final = 1.0
"""Time after the time-out for the store to answer: it names who is missing."""

_READ_S: Final = 2.0
"""Time for the others to read why rank 0, which serves the store, has ended."""

_asked: bool | None = None
_live: list[Rounds] = []


def is_checking() -> bool:
    """Whether the ranks compare their calls.

    Raises:
        ValueError: The environment variable has another value than 0 or 1.
    """
    if _asked is not None and current_job() is not None:
        return _asked
    value = os.environ.get(VARIABLE, "")
    if value not in _VALUES:
        raise ValueError(f"{VARIABLE} is {value!r}, not 0 or 1")
    return _VALUES[value]


def agree_on_checking(members: Members, *, asked: bool | None) -> None:
    """Turn checking mode on or off, the same on all ranks of a job.

    Args:
        members: All ranks.
        asked: Whether this rank asks for it; None for what the environment says.

    Raises:
        MismatchError: The ranks ask for different things; raised on all of them.
        ValueError: The environment variable has another value than 0 or 1.
    """
    global _asked  # noqa: PLW0603 - a process has one job
    value = os.environ.get(VARIABLE, "") if asked is None else str(int(asked))
    is_on = _VALUES.get(value)
    said = f"init_dist(check={is_on})" if is_on is not None else f"{VARIABLE}={value!r}"
    if members.size > 1:
        Rounds(members, "check").compare(said)
    _asked = asked
    _asked = is_checking()
    announce_end(members)


def announce_end(members: Members) -> None:
    """In checking mode, when this process ends, say so in the others' next call."""
    if members.is_checking:
        _watch_the_end()
        _live.append(members.rounds)


@functools.cache
def _watch_the_end() -> None:
    # Torch waits without end for an answer of a store whose process is stopped, so
    # another thread asks. Since Python 3.12 none can be started at the end.
    is_ending, is_told = Event(), Event()

    def tell() -> None:
        is_ending.wait()
        _say_that_this_rank_leaves()
        is_told.set()

    def end() -> None:
        if _live:
            is_ending.set()
            is_told.wait(2 * _READ_S)

    Thread(target=tell, daemon=True).start()
    atexit.register(end)
    os.register_at_fork(after_in_child=_live.clear)  # it is not the rank


class Rounds:
    """The rounds of a group in the store: one for each call that is compared."""

    def __init__(self, members: Members, name: str = "calls") -> None:
        """Describe the rounds of this rank."""
        job, group = current_job(), members.group
        shared = _get_default_store() if job is None or job.store is None else job.store
        of_group = f"ranktable/{name}/{_get_process_group_name(group)}"
        self._store = PrefixStore(of_group, shared)
        self._ranks, self._rank = members.ranks, members.rank
        try:
            backend = group._get_backend(members.device)
            self._timeout_s = backend.options._timeout.total_seconds()
        except (AttributeError, RuntimeError):  # it has no options
            self._timeout_s = _TIMEOUT_S
        self._seq, self._call = 0, ""
        self._ended: str | None = None

    def compare(
        self, call: str, time_s: float | None = None, *, is_final: bool = True
    ) -> None:
        """Wait until all ranks have posted a call, and raise on all if they differ.

        Args:
            call: What this rank is about to do, in words.
            time_s: Time for the others; by default that of the group.
            is_final: Whether the group has ended after a rank was missing.

        Raises:
            MismatchError: The ranks differ.
            DistError: A rank is missing, or the ranks differed before, or the store
                does not answer.
        """
        self.refuse_ended()
        time_s = self._timeout_s if time_s is None else time_s
        self._seq += 1
        self._call = call
        said = functools.partial(self._hold, call, _place(), time_s)
        try:
            verdict = in_time(said, time_s + _ANSWER_S)
        except LateError:
            self._ended = (
                f"the store of the job did not answer within {time_s:g} s: the process "
                "that serves it, the launcher or rank 0, is stopped or starved"
            )
            raise DistError(self._ended) from None
        except RuntimeError as error:  # torch's network errors
            raise DistError(
                f"rank {self._rank} lost the connection to the store of the job, so "
                "the process that serves it has ended; look at the output of rank 0"
            ) from error
        if verdict.kind != "agreed":
            if is_final or verdict.kind == "differ":
                self._ended = verdict.message
            kind = MismatchError if verdict.kind == "differ" else DistError
            raise kind(verdict.message)

    def _hold(self, call: str, place: str, time_s: float) -> Verdict:
        if not has_list_store(self._store):
            return self._hold_plainly(f"{call}\n{place}", time_s)
        held = self._round(self._seq)
        held.post(call, note=f"\n{place}")
        return held.hear(time_s)

    def refuse_ended(self) -> None:
        """Raise if the ranks differed before: the group has ended for all of them.

        Raises:
            DistError: They did.
        """
        if self._ended is not None:
            raise DistError(f"this group has ended, because {self._ended}")

    def _round(self, seq: int) -> StoreRound:
        store = PrefixStore(str(seq), self._store)
        return StoreRound(
            store=store,
            rank=self._rank,
            ranks=self._ranks,
            wording=self,
            is_erased=True,
            is_awaited=True,
        )

    def _hold_plainly(self, said: str, time_s: float) -> Verdict:
        """Compare by one key for each rank, in a store without lists: a FileStore."""
        store = usable_store(self._store)
        keys = {rank: f"{self._seq}/{rank}" for rank in self._ranks}
        store.set(keys[self._rank], said)
        end = time.monotonic() + time_s
        while absent := [r for r in self._ranks if not store.check([keys[r]])]:
            if time.monotonic() > end:
                return Verdict("missing", self.missing(absent, time_s), tuple(absent))
            time.sleep(_PAUSE_S)
        texts = {rank: store.get(key).decode() for rank, key in keys.items()}
        if len({text.partition("\n")[0] for text in texts.values()}) == 1:
            return Verdict("agreed")
        return Verdict("differ", *self.differing(texts))

    def differing(self, said: Mapping[int, str]) -> tuple[str, tuple[int, ...]]:
        """Return a table of what the ranks call, and these ranks."""
        groups: dict[str, list[int]] = {}
        for rank in sorted(said):
            groups.setdefault(said[rank].replace("\n", "  at "), []).append(rank)
        names = [
            f"rank{'s' * (len(each) > 1)} {folded(each)}" for each in groups.values()
        ]
        width = max(map(len, names))
        pairs = zip(names, groups, strict=True)
        lines = [f"  {name:<{width}}  {text}" for name, text in pairs]
        title = f"the ranks differ in call {self._seq} of this group:"
        return "\n".join([title, *lines]), tuple(said)

    def missing(self, absent: Sequence[int], time_s: float) -> str:
        """Return the message that names missing ranks."""
        named = f"rank{'s' * (len(absent) > 1)} {folded(absent)}"
        who = named if absent else "another rank"
        return (
            f"{who} did not reach call {self._seq} of this group within {time_s:g} s; "
            f"the others call {self._call}"
        )

    @property
    def can_publish(self) -> bool:
        """Whether the store has lists, and the process that serves it still runs.

        Torch would print its stack of C++ calls about a store that has ended.
        """
        store: Any = self._store
        while isinstance(store, PrefixStore):
            store = store.underlying_store
        if hasattr(store, "port"):
            try:
                socket.create_connection((store.host, store.port), _READ_S).close()
            except OSError:
                return False
        return has_list_store(self._store)

    def publish_end(self, why: str) -> StoreRound:
        """Let the others know in their next call that this rank has left."""
        message = f"rank {self._rank} has left the job{why}"
        held = self._round(self._seq + 1)
        held.publish(Verdict("missing", message, (self._rank,)))
        return held


def _say_that_this_rank_leaves() -> None:
    error = error_of_script()
    why = "" if error is None else f": {type(error).__name__}: {error}"
    listed = [rounds for rounds in _live if rounds.can_publish]
    with contextlib.suppress(RuntimeError):  # the store has ended too
        published = [rounds.publish_end(why) for rounds in listed]
        end = time.monotonic() + _READ_S
        for held in published:
            if why and held.rank == 0:  # most stores end with its process
                held.linger(end - time.monotonic())


def _place() -> str:
    """Return the place in the script that has called this package."""
    frame = sys._getframe(1)
    while frame.f_globals["__name__"].startswith("ranktable.dist"):
        frame = frame.f_back or frame  # the script has called it
    file = frame.f_code.co_filename
    with contextlib.suppress(OSError):  # that folder was removed
        file = file.removeprefix(f"{Path.cwd()}/")
    return f"{file}:{frame.f_lineno}"
