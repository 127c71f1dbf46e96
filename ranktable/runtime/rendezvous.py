"""The store in which the processes of a job meet: torch's own, at the master."""

from __future__ import annotations

import itertools
import socket
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from ranktable.runtime.deadline import LateError, in_time
from ranktable.runtime.errors import BootstrapError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch._C._distributed_c10d import Store

    from ranktable.runtime.deadline import Deadline
    from ranktable.runtime.environment import Environment

_PROBE_S = 0.5
"""Time after the end for an attempt that has begun to say why it failed."""

_LEAST_S = 0.001  # torch counts in milliseconds, and 0 has other meanings
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0  # between attempts to connect: many ranks ask one host

_calls = itertools.count(1)
_served: list[Store] = []
# Rank 0 keeps its store until it ends: after a first job in the same processes, the
# others may have come for the second before rank 0 has.


def serves_store(rank: int | None, env: Mapping[str, str]) -> bool:
    """Whether this process serves the store; under torchrun the agent does."""
    return rank == 0 and env.get("TORCHELASTIC_USE_AGENT_STORE") != "True"


def open_store(
    environment: Environment, env: Mapping[str, str], deadline: Deadline
) -> Store:
    """Return the store of the job, reached at the master's address.

    Raises:
        BootstrapError: The port is taken, nothing answers there in time, or what
            answers is no store.
    """
    # torch.distributed has this name too, but does not declare it to type checkers.
    from torch._C._distributed_c10d import PrefixStore  # noqa: PLC0415

    is_master = serves_store(environment.rank, env)
    if not is_master:
        _await_listener(environment, deadline)
    store = _tcp_store(environment, deadline, is_master=is_master)
    if is_master:
        _served.append(store)
    # What communicates later through this store has its time, not what is left here.
    store.set_timeout(timedelta(seconds=deadline.time_s))
    # Every restart of the job by its agent meets under keys of its own, and so does
    # every further job of the same processes.
    attempt = env.get("TORCHELASTIC_RESTART_COUNT", "0")
    return PrefixStore(f"ranktable/{attempt}/{next(_calls)}", store)


def _address(environment: Environment) -> tuple[str, int]:
    host, port = environment.master_addr, environment.master_port
    assert host is not None  # noqa: S101 - filled in by now
    assert port is not None  # noqa: S101
    return host, port


def _await_listener(environment: Environment, deadline: Deadline) -> None:
    """Wait until something answers at the master's address.

    Torch's store would wait too, but for twice the time, and a thread left in its C++
    code aborts the interpreter if it comes back while that is ending.
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
        in_time(connect, deadline.left_s + _PROBE_S)  # a name may take any time
    except LateError:
        reason = "its name is not resolved"
    except OSError as error:
        reason = error.strerror or str(error)
    else:
        return
    raise BootstrapError(
        "RT404",
        f"rank {environment.rank} cannot reach the master at {host}:{port} within "
        f"{deadline.time_s:g} s: {reason}; look at the output of rank 0, and whether "
        "MASTER_ADDR and MASTER_PORT are the same everywhere",
        (0,),
    )


def _tcp_store(
    environment: Environment, deadline: Deadline, *, is_master: bool
) -> Store:
    from torch._C._distributed_c10d import TCPStore  # noqa: PLC0415

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
        finding = (
            f"rank {environment.rank} has waited {deadline.time_s:g} s: something "
            f"answers at {host}:{port}, but it is no store of torch that works; if "
            "another program has this port choose another MASTER_PORT on every host, "
            "else look whether rank 0 hangs"
        )
        raise BootstrapError("RT404", finding, (0,)) from None
    except RuntimeError as error:  # torch's errors of the network are RuntimeErrors
        raise _refused(environment, error, is_master=is_master) from error


def _refused(
    environment: Environment, error: RuntimeError, *, is_master: bool
) -> BootstrapError:
    """Return the error for a store that torch could not open."""
    host, port = _address(environment)
    if is_master and "EADDRINUSE" in str(error):
        finding = (
            f"rank 0 cannot serve the store of the job: port {port} of this host is "
            "taken, by another job or by a second process with rank 0; choose another "
            "MASTER_PORT on every host"
        )
    else:
        finding = (
            f"rank {environment.rank} cannot open the store of the job at "
            f"{host}:{port}: {first_line(error)}; check MASTER_ADDR and MASTER_PORT, "
            "and look at the output of rank 0"
        )
    return BootstrapError("RT404", finding, (0,))


def first_line(error: Exception) -> str:
    """Return what torch says before its stack of C++ calls."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
