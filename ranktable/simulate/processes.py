"""The processes of a run: torchrun's agents, their ranks, and what these started.

torchrun starts every rank in a session of its own, so no group of processes has them
all. What they have in common is the variable with the folder of the run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.simulate.run import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ranktable.simulate.signals import Signals

Agent = subprocess.Popen[bytes]

_POLL_S = 0.05
_GRACE_S = 3.0
"""For what a signal has asked to end."""
_OTHERS_S = 5.0
"""For the other nodes, once a node has failed, to say what they have seen of it."""
_KILL_S = 5.0
"""For the kernel to end what was killed."""


def start(commands: Sequence[Sequence[str]], env: Mapping[str, str]) -> list[Agent]:
    """Start an agent for each node.

    A session of its own keeps the terminal's Ctrl-C away from it: it comes by way of
    the launcher, once.
    """
    return [
        subprocess.Popen(  # noqa: S603 - this interpreter, and the user's script
            command, env=env, stdin=subprocess.DEVNULL, start_new_session=True
        )
        for command in commands
    ]


def wait(agents: Sequence[Agent], folder: Path, signals: Signals) -> None:
    """Wait until every agent has ended; a failure or a signal ends the others."""
    while not signals.received and not any(agent.poll() for agent in agents):
        if _have_ended(agents):
            return
        time.sleep(_POLL_S)

    def are_idle() -> bool:
        return not _ranks(agents, folder)

    if not signals.received:
        _wait(are_idle, signals, _OTHERS_S)
        # torchrun looks after its ranks every 0.1 s, and then waits for other nodes.
        _wait(lambda: _have_ended(agents), signals, _GRACE_S / 3)
    _signal(agents, signals.received[0] if signals.received else signal.SIGTERM)
    _wait(are_idle, signals, _GRACE_S)


def _have_ended(agents: Sequence[Agent]) -> bool:
    return all(agent.poll() is not None for agent in agents)


def _ranks(agents: Sequence[Agent], folder: Path) -> set[int]:
    """Return the processes of a run that are no agents."""
    return processes_of(folder) - {agent.pid for agent in agents}


def _wait(is_over: Callable[[], bool], signals: Signals, time_s: float) -> None:
    """Wait for something, but not beyond another signal."""
    end = time.monotonic() + time_s
    seen = len(signals.received)
    while time.monotonic() < end and len(signals.received) == seen:
        if is_over():
            return
        time.sleep(_POLL_S)


def _signal(agents: Sequence[Agent], signum: int) -> None:
    for agent in agents:
        with contextlib.suppress(ProcessLookupError):
            agent.send_signal(signum)


def end(agents: Sequence[Agent], folder: Path) -> None:
    """Kill whatever is left of a run."""
    limit = time.monotonic() + _KILL_S
    # The ranks first, since their agent is who reaps them.
    while (left := _ranks(agents, folder)) and time.monotonic() < limit:
        _kill(left)
        time.sleep(_POLL_S)
    for agent in agents:
        with contextlib.suppress(subprocess.TimeoutExpired):
            agent.wait(_GRACE_S / 3)
        agent.kill()
        agent.wait()


def _kill(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def processes_of(folder: Path) -> set[int]:
    """Return the processes that were started in a run, and still run."""
    mark = f"{VARIABLE}={folder}\0".encode()
    found = set()
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        # A process may end, or belong to somebody else.
        with contextlib.suppress(OSError):
            if mark in (place / "environ").read_bytes():
                found.add(int(place.name))
    return found
