"""The rendezvous: all processes of a job connect before communication starts.

They use torch's own store at the master's address. A collective with a missing rank
waits for half an hour and does not name the rank. Here every process posts in the store
that it is present, and missing ranks are named. There are two rounds. In the first, all
ranks are present and agree on the job. In the second, all ranks confirm this, so none
has ended while it waited.
"""

from __future__ import annotations

import itertools
import json
import socket
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import timedelta
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from ranktable.runtime.errors import BootstrapError
from ranktable.runtime.store_round import StoreRound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch._C._distributed_c10d import Store

    from ranktable.runtime.backends.backend import Placement
    from ranktable.runtime.environment import Environment

GRACE_S = 2.0
"""Additional time after the time-out, to report what went wrong."""

_PROBE_S = 0.5
"""Time after the deadline for a running attempt to report why it failed."""

_NAME_SERVER = (
    "the name server in /etc/resolv.conf answers, which torch asks for the name of "
    "each address"
)

_PORT_IS_USED = ("EADDRINUSE", "Address already in use")  # torch 2.1 has the second

_LEAST_S = 0.001  # torch counts in milliseconds, and 0 has other meanings
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0  # between attempts to connect: many ranks ask one host

_READ_S = 1.0
"""Time after the deadline for the others to read a result before the store closes."""

_LATECOMERS_S = 10.0
"""Time that the store stays open for late ranks: the processes of a job start within
some seconds of each other, and all should read what is wrong."""

_calls = itertools.count(1)
_served: list[Store] = []
# Rank 0 keeps its store until it ends. After a first job in the same processes, other
# ranks may join the second job before rank 0 does.


_Result = TypeVar("_Result")


class SlowStartError(BootstrapError):
    """The time-out was over before this process could try to connect."""


class LateError(Exception):
    """The time-out is over before the function has returned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """The time at which to stop waiting.

    Attributes:
        time_s: The whole time, for messages.
        end: The time, by ``time.monotonic``.
    """

    time_s: float
    end: float

    @classmethod
    def after(cls, time_s: float) -> Deadline:
        """Return the deadline after a time that begins now."""
        return cls(time_s=time_s, end=time.monotonic() + time_s)

    @property
    def left_s(self) -> float:
        """The remaining seconds, 0 after the deadline."""
        return max(self.end - time.monotonic(), 0.0)


def in_time(work: Callable[[], _Result], time_s: float) -> _Result:
    """Return the result of a function, if it returns in time.

    Torch reads some answers without a time-out, so the function runs in its own thread.
    A late thread is abandoned; it is a daemon, so the process can still end.

    Raises:
        LateError: It has not returned in time.
    """
    future = in_background(work)
    done, _ = wait([future], time_s)
    if not done:
        raise LateError
    return future.result()


def in_background(work: Callable[[], _Result]) -> Future[_Result]:
    """Start a function in a thread of its own, which does not keep the process."""
    future: Future[_Result] = Future()
    Thread(target=_keep, args=(work, future), daemon=True).start()
    return future


def _keep(work: Callable[[], _Result], future: Future[_Result]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised where it is waited for
        future.set_exception(error)


def serves_store(rank: int | None, env: Mapping[str, str]) -> bool:
    """Whether this process serves the store; under torchrun the agent does."""
    return rank == 0 and env.get("TORCHELASTIC_USE_AGENT_STORE") != "True"


def refuse_slow_start(environment: Environment, deadline: Deadline) -> None:
    """Raise SlowStartError if the time is over before the first attempt."""
    if deadline.left_s == 0:
        rank = environment.rank or 0
        raise SlowStartError(
            "RT404",
            f"rank {rank} did not try to connect: the {deadline.time_s:g} s were over "
            "before, so this host is slow to start programs; give more time",
            (rank,),
        )


def open_store(
    environment: Environment, env: Mapping[str, str], deadline: Deadline
) -> Store:
    """Return the store of the job, reached at the master's address.

    Raises:
        BootstrapError: The port is in use, no program answers in time, or the program
            that answers is not a store.
        SlowStartError: The deadline has passed already.
    """
    # torch.distributed has this name too, but does not declare it to type checkers.
    from torch._C._distributed_c10d import PrefixStore

    refuse_slow_start(environment, deadline)
    is_master = serves_store(environment.rank, env)
    if not is_master:
        _await_listener(environment, deadline)
    store = _tcp_store(environment, deadline, is_master=is_master)
    if is_master:
        _served.append(store)
    # Later users of this store have their whole time-out, not the rest of this one.
    store.set_timeout(timedelta(seconds=deadline.time_s))
    # Every restart of the job by its agent, and every further job of the same
    # processes, uses its own keys.
    attempt = env.get("TORCHELASTIC_RESTART_COUNT", "0")
    return PrefixStore(f"ranktable/{attempt}/{next(_calls)}", store)


def _address(environment: Environment) -> tuple[str, int]:
    host, port = environment.master_addr, environment.master_port
    assert host is not None
    assert port is not None
    return host, port


def _await_listener(environment: Environment, deadline: Deadline) -> None:
    """Wait until a program answers at the master's address.

    Torch's store would wait too, but for twice the time. A thread in its C++ code
    aborts the interpreter if it returns while the interpreter ends.
    """
    host, port = _address(environment)

    def connect() -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                time_s = max(deadline.left_s, _LEAST_S)
                socket.create_connection((host, port), timeout=time_s).close()
            except OSError:
                if deadline.left_s == 0:
                    raise
            else:
                return
            time.sleep(min(pause_s, deadline.left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    try:
        in_time(
            connect, deadline.left_s + _PROBE_S
        )  # finding a host name may take long
    except LateError:
        reason = "the host name was not resolved in time"
    except OSError as error:
        reason = error.strerror or str(error)
    else:
        return
    raise BootstrapError(
        "RT404",
        f"rank {environment.rank} cannot reach the master at {host}:{port} within "
        f"{deadline.time_s:g} s: {reason}; look at the output of rank 0, and check "
        "that MASTER_ADDR and MASTER_PORT are the same on every host",
        (0,),
    )


def _tcp_store(
    environment: Environment, deadline: Deadline, *, is_master: bool
) -> Store:
    from torch._C._distributed_c10d import TCPStore

    host, port = _address(environment)

    def open_it() -> Store:
        return TCPStore(
            host,
            port,
            world_size=None,
            is_master=is_master,
            timeout=timedelta(seconds=max(deadline.left_s, _LEAST_S)),
            wait_for_workers=False,
            multi_tenant=True,
        )

    try:
        return in_time(open_it, deadline.left_s + _PROBE_S)
    except LateError:
        reason = f"no answer within {deadline.time_s:g} s"
        if is_master:
            raise _not_reached(environment, reason) from None
        finding = (
            f"rank {environment.rank} waited {deadline.time_s:g} s: a program answers "
            f"at {host}:{port}, but not as torch's store does; if another program "
            "uses this port, choose another MASTER_PORT on every host; otherwise check "
            f"whether rank 0 hangs, and whether {_NAME_SERVER}"
        )
        raise BootstrapError("RT404", finding, (0,)) from None
    except RuntimeError as error:  # torch's errors of the network are RuntimeErrors
        raise _refused(environment, error, is_master=is_master) from error


def _refused(
    environment: Environment, error: RuntimeError, *, is_master: bool
) -> BootstrapError:
    """Return the error for a store that torch could not open."""
    host, port = _address(environment)
    if is_master and any(words in str(error) for words in _PORT_IS_USED):
        finding = (
            f"rank 0 cannot start the store of the job: port {port} of this host is "
            "used already, by another job or by a second process with rank 0; choose "
            "another MASTER_PORT on every host"
        )
    elif is_master:
        return _not_reached(environment, first_line(error))
    else:
        finding = (
            f"rank {environment.rank} cannot open the store of the job at "
            f"{host}:{port}: {first_line(error)}; check MASTER_ADDR and MASTER_PORT, "
            "and look at the output of rank 0"
        )
    return BootstrapError("RT404", finding, (0,))


def _not_reached(environment: Environment, reason: str) -> BootstrapError:
    """Return the error of rank 0, which serves the store and cannot connect to it.

    Its port was free. Torch's store asks for the name of every address that connects,
    and waits for the name server: 10 s with glibc, if it does not answer.
    """
    host, port = _address(environment)
    return BootstrapError(
        "RT404",
        f"rank 0 started the store of the job, but cannot connect to it at "
        f"{host}:{port}: {reason}; check that MASTER_ADDR is an address of this host, "
        f"and whether {_NAME_SERVER}",
        (0,),
    )


def first_line(error: Exception) -> str:
    """Return torch's message, without its stack of C++ calls."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def rendezvous_barrier(
    store: Store, member: Placement, deadline: Deadline, *, serves_store: bool
) -> None:
    """Wait until every rank of the job has connected with the same table.

    It ends at most ``GRACE_S`` after the deadline.

    Args:
        store: The store of the job.
        member: This process.
        deadline: Until when the others may come.
        serves_store: Whether this process serves the store, and should leave last.

    Raises:
        BootstrapError: A rank did not connect or has ended (RT404), or differs from
            rank 0 in the job (RT405).
    """
    try:
        in_time(
            lambda: _pass(store, member, deadline, is_last=serves_store),
            deadline.left_s + GRACE_S,
        )
    except BootstrapError:
        raise
    except LateError:
        raise BootstrapError(
            "RT404",
            f"after {deadline.time_s:g} s the store of the job no longer answers rank "
            f"{member.rank}; look at the process that serves it: rank 0, or torchrun "
            "on the host of rank 0",
        ) from None
    except RuntimeError as error:  # torch's network errors are RuntimeErrors
        raise BootstrapError(
            "RT404",
            f"rank {member.rank} lost the connection to the store of the job, so the "
            f"process that serves it has ended: {first_line(error)}; look at the "
            "output of rank 0",
        ) from error


def _pass(
    store: Store, member: Placement, deadline: Deadline, *, is_last: bool
) -> None:
    from torch._C._distributed_c10d import PrefixStore

    for phase in ("here", "ready"):
        held = StoreRound(
            store=PrefixStore(phase, store),
            rank=member.rank,
            ranks=range(member.world_size),
            wording=_Joining(member, phase),
            # Ranks with different sizes would wait for different numbers of ranks.
            is_urgent=lambda first, own: json.loads(first)[0] != json.loads(own)[0],
            is_alone=True,
        )
        held.post(json.dumps([member.world_size, member.digest]))
        verdict = held.hear(deadline.time_s, left_s=deadline.left_s)
        if verdict.kind == "agreed":
            continue
        if is_last:
            held.linger(min(_LATECOMERS_S, deadline.left_s + _READ_S))
        code = "RT404" if verdict.kind == "missing" else "RT405"
        raise BootstrapError(code, verdict.message, verdict.ranks)


@dataclass(frozen=True, slots=True)
class _Joining:
    """The messages about ranks that join a job."""

    member: Placement
    phase: str

    def differing(self, said: Mapping[int, str]) -> tuple[str, tuple[int, ...]]:
        first = min(said)
        other = min(rank for rank in said if said[rank] != said[first])
        (size, digest), (first_size, first_digest) = (
            json.loads(said[rank]) for rank in (other, first)
        )
        if size != first_size:
            finding = (
                f"rank {other} expects {size} ranks, and rank {first} expects "
                f"{first_size}; start all of them with the same WORLD_SIZE"
            )
        elif digest is None or first_digest is None:
            has = (first, other) if digest is None else (other, first)
            finding = (
                f"rank {has[0]} has a rank table and rank {has[1]} does not; give "
                "all of them the same table"
            )
        else:
            finding = (
                f"rank {other} and rank {first} have different rank tables; compare "
                "the files on their hosts with ranktable show --digest"
            )
        return finding, (other,)

    def missing(self, absent: Sequence[int], time_s: float) -> str:
        from ranktable.schema.text import folded

        size = self.member.world_size
        if not absent:  # the last rank connected, but no result was published
            return f"the last rank connected after {time_s:g} s; raise timeout_s"
        is_first = self.phase == "here"
        what = "did not connect" if is_first else "connected and then ended"
        return (
            f"after {time_s:g} s {len(absent)} of {size} ranks {what}: "
            f"{folded(absent)} (reported by rank {self.member.rank}); look at "
            "their output"
        )
