"""The processes of a run: the one that starts the ranks, the ranks, and their children.

Every rank is in a session of its own, so no process group contains all of them. They
share a variable with the folder of the run, which is removed when the run ends.

A launcher that is killed cannot remove its folder, so the next launcher does. Each
holds a lock that shows whether it still runs. Unlike a process id, this also works in
another container with the same folder for temporary files.
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


_NOTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def noted_signals() -> Iterator[list[int]]:
    """Record SIGINT, SIGTERM and SIGHUP in a list; only in the main thread."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    # A signal that is ignored, as SIGHUP is under nohup, stays ignored.
    before = {
        signum: signal.signal(signum, lambda signum, _frame: received.append(signum))
        for signum in _NOTED
        if signal.getsignal(signum) is not signal.SIG_IGN
    }
    try:
        yield received
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


Process = subprocess.Popen[bytes]

_POLL_S = 0.05
_GRACE_S = 3.0
"""Time to end after a signal."""
_KILL_S = 5.0
"""Time for the kernel to end a killed process."""


def start(command: Sequence[str], env: Mapping[str, str]) -> Process:
    """Start the process that starts the ranks.

    It has a session of its own, so that it does not get the terminal's Ctrl-C twice:
    the launcher passes it on.
    """
    return subprocess.Popen(  # noqa: S603 - this interpreter, and the user's script
        command, env=env, stdin=subprocess.DEVNULL, start_new_session=True
    )


def wait(process: Process, folder: Path, signals: Sequence[int]) -> None:
    """Wait until a process has ended; pass on a signal that was received."""
    while process.poll() is None:
        if signals:
            process.send_signal(signals[0])
            _wait_for(lambda: not processes_of(folder), signals, _GRACE_S)
            return
        time.sleep(_POLL_S)


def _wait_for(
    is_over: Callable[[], bool], signals: Sequence[int], time_s: float
) -> None:
    """Wait for a condition, at most until another signal."""
    end = time.monotonic() + time_s
    seen = len(signals)
    while time.monotonic() < end and len(signals) == seen:
        if is_over():
            return
        time.sleep(_POLL_S)


def end(process: Process | None, folder: Path) -> None:
    """Kill the processes of a run that are still there."""
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
    """Return the processes of a run that still run."""
    mark = f"{VARIABLE}={folder}\0".encode()
    found = set()
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        # A process may have ended, or belong to another user.
        with contextlib.suppress(OSError):
            if mark in (place / "environ").read_bytes():
                found.add(int(place.name))
    return found


_PREFIX = "ranktable-simulate-"
_LOCK = "launcher.lock"


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Make a private folder for a run; at the end, remove it and all processes."""
    _remove_orphans(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    except OSError as error:
        if error.filename is not None:
            raise
        # A write to an open file names no file, for example without space on the disk.
        raise OSError(error.errno, error.strerror, str(folder)) from error
    finally:
        end(None, folder)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_orphans(parent: Path) -> None:
    """Remove the folders of this user's launchers that no longer run."""
    for folder in parent.glob(f"{_PREFIX}*"):
        # It may be removed already, have no lock yet, or be locked: then it stays.
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

    It is outside the range from which the kernel takes ports for connections, so it
    stays free until the ranks need it, a second or more later.

    Raises:
        OSError: There is no free port.
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
