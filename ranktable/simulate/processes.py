"""The processes of a run: that which starts the ranks, these, and what they started.

Every rank is in a session of its own, so no group of processes has them all. What they
have in common is the variable with the folder of the run, which goes when the run does.

A launcher that is killed cannot remove its folder, so the next one does. A lock that
each holds tells the dead from the living: unlike the number of a process, it means the
same in another container that shares the folder for temporary files.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.runtime.launchers.slurm import PORT_BASE, PORT_COUNT
from ranktable.simulate.simulated_run import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType


_NOTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """What the launcher was told.

    Attributes:
        received: The signals that came, in their order.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.received: list[int] = []

    def note(self, signum: int, _frame: FrameType | None) -> None:
        """Keep a signal."""
        self.received.append(signum)


@contextlib.contextmanager
def noted_signals() -> Iterator[Signals]:
    """Note SIGINT, SIGTERM and SIGHUP; in another thread than the main one, none."""
    signals = Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    # What is ignored, as SIGHUP is under nohup, stays ignored.
    before = {
        signum: signal.signal(signum, signals.note)
        for signum in _NOTED
        if signal.getsignal(signum) is not signal.SIG_IGN
    }
    try:
        yield signals
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


Process = subprocess.Popen[bytes]

_POLL_S = 0.05
_GRACE_S = 3.0
"""For what a signal has asked to end."""
_KILL_S = 5.0
"""For the kernel to end what was killed."""


def start(command: Sequence[str], env: Mapping[str, str]) -> Process:
    """Start the process that starts the ranks.

    A session of its own keeps the terminal's Ctrl-C away from it: it comes by way of
    the launcher, once.
    """
    return subprocess.Popen(  # noqa: S603 - this interpreter, and the user's script
        command, env=env, stdin=subprocess.DEVNULL, start_new_session=True
    )


def wait(process: Process, folder: Path, signals: Signals) -> None:
    """Wait until a process has ended, or a signal has come, which is passed on."""
    while process.poll() is None:
        if signals.received:
            process.send_signal(signals.received[0])
            _wait_for(lambda: not processes_of(folder), signals, _GRACE_S)
            return
        time.sleep(_POLL_S)


def _wait_for(is_over: Callable[[], bool], signals: Signals, time_s: float) -> None:
    """Wait for something, but not beyond another signal."""
    end = time.monotonic() + time_s
    seen = len(signals.received)
    while time.monotonic() < end and len(signals.received) == seen:
        if is_over():
            return
        time.sleep(_POLL_S)


def end(process: Process | None, folder: Path) -> None:
    """Kill whatever is left of a run."""
    limit = time.monotonic() + _KILL_S
    while (left := processes_of(folder)) and time.monotonic() < limit:
        _kill(left)
        if process is not None:
            process.poll()
        time.sleep(_POLL_S)
    if process is not None:
        process.wait()


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


_PREFIX = "ranktable-simulate-"
_LOCK = "launcher.lock"


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Make a private folder for a run; in the end nothing of either is left."""
    _remove_orphans(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    finally:
        end(None, folder)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_orphans(parent: Path) -> None:
    """Remove the folders of this user's launchers that are dead."""
    for folder in parent.glob(f"{_PREFIX}*"):
        # It may have gone by now, have no lock yet, or be locked: then it stays.
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid == os.getuid():
                _remove_unlocked(folder)


def _remove_unlocked(folder: Path) -> None:
    with (folder / _LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not processes_of(folder):
            shutil.rmtree(folder, ignore_errors=True)


_TRIES = 100


def free_port() -> int:
    """Return a free port of the loopback interface.

    It is out of the range that the kernel gives to connections, so it stays free until
    torchrun has started, a second or more later.

    Raises:
        OSError: None is free.
    """
    for _ in range(_TRIES):
        port = PORT_BASE + random.randrange(PORT_COUNT)  # noqa: S311 - no secret
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError("no free port was found on the loopback interface")
