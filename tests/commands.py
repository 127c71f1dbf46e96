"""Starts processes for tests; those of the project's commands are forks.

Only this file and ``tests.ranks``, for what has torch imported, start processes:

- the fixture ``run`` of ``conftest`` runs a command of the project, as a fork of a
  process that has everything imported; ``with_torch`` is the same for ``python`` and
  ``torchrun``;
- ``run_process`` and ``run_python`` run any program to its end, in a process that
  imports what it needs itself;
- ``start_process`` starts one that a test talks to, ``on_terminal`` shows what a
  terminal is given, and ``run_measured`` tells what a program costs.
"""

from __future__ import annotations

import atexit
import os
import pty
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from tests.command_server import AT_START, MAX_REQUEST_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
COMMANDS = ("ranktable", "tpu_gen_sccl_rank_table")
PROGRAMS = (*COMMANDS, "python")
TORCH_PROGRAMS = (*PROGRAMS, "torchrun")
# What follows #! may hold no blank and not be long; a shell knows neither limit.
SHELL_TO_PYTHON = f"""#!/bin/sh
'''exec' "{sys.executable}" -IS "$0" "$@"
' '''
"""
TORCH_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    "GLOO_SOCKET_IFNAME": "lo",
    # Torch asks the name server for the name of each address, also of 127.0.0.1.
    # One that loses an answer would delay a rank by 5 to 20 s.
    "RES_OPTIONS": "timeout:1 attempts:1",
}
"""What torch reads when it is imported, or a rank should have anyway."""
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH")
OF_DEVICES = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
ROOM, ROOM_BYTES = "RANKTABLE_TESTS_ROOM", 1 << 14
"""Room for the variables that a fork shows; see ``show_environment``."""
DEVNULL = subprocess.DEVNULL
TIMEOUT_S = 180.0
"""Time for what hangs, not for what is slow: other work may leave little of a core."""

Started = subprocess.Popen[str]
"""A process that runs beside a test; in a ``with`` it is waited for at the end."""


def clean_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in KEPT if name in os.environ}


def torch_environment() -> dict[str, str]:
    """Return the variables of a process that has torch imported, or does it."""
    kept = {
        name: os.environ[name]
        for name in os.environ
        if name.startswith(AT_START) or name in OF_DEVICES
    }
    return {**clean_environment(), **kept, **TORCH_ENVIRONMENT}


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it wrote."""

    status: int
    out: bytes
    err: bytes


def run_afresh(
    program: str,
    arguments: Sequence[str],
    *,
    given: bytes,
    env: Mapping[str, str],
    cwd: Path,
    timeout_s: float,
) -> Ended:
    """Run an installed command in an interpreter of its own."""
    command = [f"{BIN}/{program}", *arguments]
    return _run_bytes(command, given=given, env=env, cwd=cwd, timeout_s=timeout_s)


def _run_bytes(
    command: Sequence[str | Path],
    *,
    given: bytes,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    timeout_s: float,
) -> Ended:
    done = subprocess.run(  # noqa: S603 - what tests name
        command,
        input=given,
        env=env,
        cwd=cwd,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


class Outcome(NamedTuple):
    """How a process ended, and the text that it wrote."""

    status: int
    out: str
    err: str


def run_process(
    command: Sequence[str | Path],
    *,
    given: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Outcome:
    """Run a program to its end; ``env`` is that of the tests where none is given."""
    done = _run_bytes(command, given=given, env=env, cwd=cwd, timeout_s=timeout_s)
    return Outcome(done.status, done.out.decode(), done.err.decode())


def run_python(
    *arguments: str | Path,
    given: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Outcome:
    """Run an interpreter that has nothing imported to its end."""
    command = [sys.executable, *arguments]
    return run_process(command, given=given, env=env, cwd=cwd, timeout_s=timeout_s)


def run_in_shell(
    line: str,
    folder: Path,
    *,
    programs: Path = BIN,
    given: bytes = b"",
    env: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Outcome:
    """Run a line of bash in a folder; it finds ``programs`` before any others."""
    path = os.pathsep.join([str(programs), str(BIN), os.environ["PATH"]])
    variables = {**clean_environment(), "PATH": path, **(env or {})}
    return run_process(
        ["/bin/bash", "-c", line],
        given=given,
        env=variables,
        cwd=folder,
        timeout_s=timeout_s,
    )


def start_process(
    command: Sequence[str | Path],
    *,
    pipes: Collection[str] = (),
    out: IO[bytes] | int | None = None,
    err: IO[bytes] | int | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    leads_session: bool = False,
) -> Started:
    """Start a program beside the test.

    Args:
        command: The program and its arguments.
        pipes: Which of stdin, stdout and stderr the test reads or writes.
        out: Where else its output goes; that of the tests when it is not said.
        err: The same for its errors.
        env: Its variables, those of the tests by default.
        cwd: Its folder.
        leads_session: Whether signals of a terminal do not reach it.
    """
    pipe = subprocess.PIPE
    return subprocess.Popen(  # noqa: S603 - what tests name
        command,
        stdin=pipe if "stdin" in pipes else DEVNULL,
        stdout=pipe if "stdout" in pipes else out,
        stderr=pipe if "stderr" in pipes else err,
        env=env,
        cwd=cwd,
        text=True,
        start_new_session=leads_session,
    )


def wait_at_most(process: Started, timeout_s: float) -> bool:
    """Return whether a process ends in time."""
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def on_terminal(
    command: Sequence[str | Path],
    folder: Path,
    *,
    stream: str = "stdout",
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a program one of whose output streams is a terminal, and show both."""
    ours, theirs = pty.openpty()
    with tempfile.TemporaryFile() as other:
        is_out = stream == "stdout"
        out, err = (theirs, other) if is_out else (other, theirs)
        variables = {**clean_environment(), "TERM": "xterm", **(env or {})}
        process = start_process(command, out=out, err=err, env=variables, cwd=folder)
        with process:
            os.close(theirs)
            shown = _read_terminal(ours)
            status = process.wait(TIMEOUT_S)
        other.seek(0)
        rest = other.read().decode()
    return Outcome(status, shown, rest) if is_out else Outcome(status, rest, shown)


def _read_terminal(terminal: int) -> str:
    parts = []
    with open(terminal, "rb", buffering=0) as shown:
        try:
            while part := shown.read(1 << 16):
                parts.append(part)
        except OSError:  # Linux says so when the last writer is gone
            pass
    return b"".join(parts).decode()


def run_measured(
    command: Sequence[str | Path], cwd: Path | None = None
) -> tuple[int, float]:
    """Run a program, and return its exit status and its CPU seconds."""
    process = start_process(command, out=DEVNULL, err=DEVNULL, cwd=cwd)
    _, status, use = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, use.ru_utime + use.ru_stime


class Commands:
    """A server of commands, and ``folder``, in which a shell finds its programs.

    With torch ``torchrun`` is among its programs too; see ``command_server``.
    """

    def __init__(self, *, torch: bool = False) -> None:
        # Not pytest's folder: the name of a socket may have 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="ranktable-"))
        (self.folder / "real").symlink_to(BIN)
        body = (HERE / "command_shim.py").read_text("utf-8")
        for program in TORCH_PROGRAMS if torch else PROGRAMS:
            path = self.folder / program
            path.write_text(f"{SHELL_TO_PYTHON}{body}", "utf-8")
            path.chmod(0o700)
        server = [sys.executable, str(HERE / "command_server.py"), str(self.folder)]
        env = torch_environment() if torch else clean_environment()
        env[ROOM] = " " * ROOM_BYTES
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(self.folder / "server"))
            listener.listen()
            self.server = subprocess.Popen(  # noqa: S603 - our own server
                [*server, str(listener.fileno()), *(["torch"] if torch else [])],
                stdin=subprocess.PIPE,
                env=env,
                pass_fds=[listener.fileno()],
                start_new_session=True,  # an interrupt is for pytest
            )

    def close(self) -> None:
        """End the server, which removes the folder."""
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait(10)

    def run(
        self,
        program: str,
        arguments: Sequence[str],
        *,
        given: bytes,
        env: Mapping[str, str],
        cwd: Path,
        timeout_s: float,
    ) -> Ended:
        """Run an installed command, in a fork where that makes no difference."""
        umask = os.umask(0)
        os.umask(umask)
        head = (program, str(umask), str(len(arguments)), *arguments)
        request = "\0".join([*head, *(f"{n}={env[n]}" for n in env)])
        ended = None
        if program in COMMANDS and len(request) < MAX_REQUEST_BYTES // 4:
            ended = self._fork(os.fsencode(request), given, cwd, timeout_s)
        return ended or run_afresh(
            program, arguments, given=given, env=env, cwd=cwd, timeout_s=timeout_s
        )

    def _fork(
        self, request: bytes, given: bytes, cwd: Path, timeout_s: float
    ) -> Ended | None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
            server.settimeout(timeout_s)
            server.connect(str(self.folder / "server"))
            folder = os.open(cwd, os.O_RDONLY)
            (theirs, stdin), (out, stdout), (err, stderr) = (
                os.pipe() for _ in range(3)
            )
            socket.send_fds(server, [request], [theirs, stdout, stderr, folder])
            for descriptor in (theirs, stdout, stderr, folder):
                os.close(descriptor)
            status, *written = exchange(
                stdin, given, (server.fileno(), out, err), timeout_s
            )
        if not status:
            return None
        return Ended(int(status), *written)


@cache
def with_torch() -> Path:
    """Return the folder of programs that have torch imported; they start at once.

    What they are given has to have ``TORCH_DEVICE_BACKEND_AUTOLOAD=0``, else they start
    afresh: ``python`` and ``torchrun`` are what a test starts and torchrun starts.
    """
    started = Commands(torch=True)
    atexit.register(started.close)
    return started.folder


def exchange(
    stdin: int, given: bytes, sources: tuple[int, int, int], timeout_s: float
) -> list[bytes]:
    """Write what is given, and return what comes from each source until it ends.

    All descriptors but the first source are closed.
    """
    got: dict[int, list[bytes]] = {source: [] for source in sources}
    end = time.monotonic() + timeout_s
    left = memoryview(given)
    os.set_blocking(stdin, False)
    with selectors.DefaultSelector() as selector:
        selector.register(stdin, selectors.EVENT_WRITE)
        for source in sources:
            selector.register(source, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(end - time.monotonic(), 0))
            if not ready:
                raise TimeoutError(timeout_s)
            for key, _ in ready:
                if key.fd == stdin:
                    try:
                        left = left[os.write(stdin, left) :] if left else left
                    except BrokenPipeError:
                        left = left[:0]
                    over = not left
                else:
                    data = os.read(key.fd, 1 << 16)
                    got[key.fd].append(data)
                    over = not data
                if over:
                    selector.unregister(key.fd)
                    if key.fd != sources[0]:
                        os.close(key.fd)
    return [b"".join(pieces) for pieces in got.values()]
