"""Everybody meets before communication starts, and who is missing is named.

A collective with a missing rank waits for half an hour and names nobody. Here every
process announces itself in the store that torch uses anyway. There are two phases: all
are here and agree on the job; all have seen that, so nobody has died while waiting.
Each ends with one verdict that everybody reads, so a job of any size costs each process
some ten requests, and only one process looks who is missing.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from ranktable.runtime.deadline import GRACE_S, Deadline, LateError, in_time
from ranktable.runtime.errors import BootstrapError
from ranktable.runtime.rendezvous import first_line
from ranktable.schema.messages import folded

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

_ALL = "all"
_LOOK_S = 0.5
"""Time for the process that looks who is missing to say it to the others."""

_READ_S = 1.0
"""Time after the end for the others to read a verdict before the store goes away."""

_LATECOMERS_S = 10.0
"""Time before the end that the store stays for those who have not come yet: the
processes of a job start within some seconds, and should all learn what is wrong."""

_POLL_S = 0.02
_CLOCK_S = 0.05  # torch rounds a wait to milliseconds, so it may end a bit early


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A process that meets the others.

    Attributes:
        rank: Its global rank.
        world_size: How many there are, as it was told.
        digest: Digest of its rank table, None without one.
        serves_store: Whether it serves the store, and so should leave last.
    """

    rank: int
    world_size: int
    digest: str | None
    serves_store: bool


def meet(store: Store, member: Member, deadline: Deadline) -> None:
    """Wait until every rank of the job is here and holds the same table.

    It ends at the latest ``GRACE_S`` after the deadline.

    Raises:
        BootstrapError: A rank did not come or went away (RT404), or does not agree
            with rank 0 on the job (RT405).
    """
    try:
        in_time(lambda: _meet(store, member, deadline), deadline.left_s + GRACE_S)
    except BootstrapError:
        raise
    except LateError:
        raise BootstrapError(
            "RT404",
            f"after {deadline.time_s:g} s the store of the job does not answer rank "
            f"{member.rank} any more; look at the process that serves it: rank 0, or "
            "torchrun on its host",
        ) from None
    except RuntimeError as error:  # torch's errors of the network are RuntimeErrors
        raise BootstrapError(
            "RT404",
            f"rank {member.rank} lost the store of the job, so its host has gone: "
            f"{first_line(error)}; look at the output of rank 0",
        ) from error


def _meet(store: Store, member: Member, deadline: Deadline) -> None:
    try:
        _announce(store, member)
        _compare(store, member, deadline)
        _gather(store, member, "here", deadline)
        _enter(store, member, "ready")
        _gather(store, member, "ready", deadline)
    except BootstrapError as error:
        _leave(store, member, error, deadline)
        raise


def _announce(store: Store, member: Member) -> None:
    """Say that this process is here, and refuse a second one of the same rank."""
    if store.add(f"here/{member.rank}", 1) > 1:
        raise _refuse(
            store,
            f"two processes have rank {member.rank}; give every process of the job a "
            "RANK of its own, and end the processes of an earlier job",
            member.rank,
        )
    if member.rank == 0:
        store.set("reference", _claim(member))
    _enter(store, member, "here")


def _enter(store: Store, member: Member, phase: str) -> None:
    # One list instead of one key a rank: who is missing is then a single request.
    store.append(f"{phase}/list", f"{member.rank},")  # type: ignore[attr-defined]


def _claim(member: Member) -> str:
    return json.dumps([member.world_size, member.digest])


def _compare(store: Store, member: Member, deadline: Deadline) -> None:
    """Refuse to go on unless this process was told the same as rank 0."""
    if not _wait(store, "reference", deadline.left_s):
        _read_verdict(store, member, "here", deadline)  # it names rank 0
    reference = store.get("reference").decode()
    if reference == _claim(member):
        return
    world_size, digest = json.loads(reference)
    if world_size != member.world_size:
        finding = (
            f"rank {member.rank} is one of {member.world_size} ranks, rank 0 one of "
            f"{world_size}; start all of them with the same WORLD_SIZE"
        )
    elif digest is None or member.digest is None:
        has = (member.rank, 0) if digest is None else (0, member.rank)
        finding = (
            f"rank {has[0]} has a rank table and rank {has[1]} has none; give all of "
            "them the same table"
        )
    else:
        finding = (
            f"rank {member.rank} has another rank table than rank 0; compare the files "
            "on their hosts with ranktable digest"
        )
    raise _refuse(store, finding, member.rank)


def _refuse(store: Store, finding: str, rank: int) -> BootstrapError:
    """Return the error, which everybody learns of, so no one is left waiting."""
    error = BootstrapError("RT405", finding, (rank,))
    _publish(store, "here", json.dumps(["RT405", finding, [rank]]))
    return error


def _publish(store: Store, phase: str, verdict: str) -> None:
    # The first verdict stands: set only where there is none.
    store.compare_set(f"{phase}/verdict", "", verdict)


def _gather(store: Store, member: Member, phase: str, deadline: Deadline) -> None:
    """Wait until every rank has come to this point."""
    if store.add(f"{phase}/count", 1) == member.world_size:
        _publish(store, phase, _ALL)
    _read_verdict(store, member, phase, deadline)


def _read_verdict(store: Store, member: Member, phase: str, deadline: Deadline) -> None:
    """Wait for the verdict of a phase, and raise it unless all have come."""
    key = f"{phase}/verdict"
    if not _wait(store, key, deadline.left_s):
        if store.add(f"{phase}/lookers", 1) == 1:
            _publish(store, phase, _missing(store, member, phase, deadline))
        elif not _wait(store, key, _LOOK_S):
            raise BootstrapError(
                "RT404",
                f"after {deadline.time_s:g} s not all of {member.world_size} ranks "
                f"have come, and rank {member.rank} cannot tell which; look at the "
                "output of the others",
            )
    verdict = store.get(key).decode()
    if verdict != _ALL:
        code, message, ranks = json.loads(verdict)
        raise BootstrapError(code, message, tuple(ranks))


def _missing(store: Store, member: Member, phase: str, deadline: Deadline) -> str:
    """Return the verdict that names the ranks that are not in this phase's list."""
    listed = store.get(f"{phase}/list").decode()
    came = {int(rank) for rank in listed.split(",") if rank}
    absent = [rank for rank in range(member.world_size) if rank not in came]
    what = "have not come" if phase == "here" else "came and went away"
    message = (
        f"after {deadline.time_s:g} s {len(absent)} of {member.world_size} ranks "
        f"{what}: {folded(absent)} (seen by rank {member.rank}); look at their output"
    )
    if not absent:  # the last one has come, but has not yet compared its table
        message = f"the last rank came after {deadline.time_s:g} s; raise timeout_s"
    return json.dumps(["RT404", message, absent])


def _wait(store: Store, key: str, time_s: float) -> bool:
    """Whether a key is set in time.

    Raises:
        RuntimeError: The store is lost.
    """
    end = time.monotonic() + time_s
    try:
        store.wait([key], timedelta(seconds=max(time_s, 0.001)))
    except RuntimeError:
        if time.monotonic() < end - _CLOCK_S:
            raise
        return False
    return True


def _leave(
    store: Store, member: Member, error: BootstrapError, deadline: Deadline
) -> None:
    """Let the others read the verdict before the store's own process leaves."""
    read = store.add("read", 1)
    if not member.serves_store:
        return
    expected = member.world_size
    if error.code == "RT404":
        expected -= len(error.ranks)
    end = time.monotonic() + min(_LATECOMERS_S, deadline.left_s + _READ_S)
    while read < expected and time.monotonic() < end:
        time.sleep(_POLL_S)
        read = store.add("read", 0)
