"""Runs the project's commands in real processes that need not import everything."""

from __future__ import annotations

import atexit
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.command_server import AT_START, MAX_REQUEST_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
PROGRAMS = ("ranktable", "tpu_gen_sccl_rank_table")
TORCH_PROGRAMS = (*PROGRAMS, "python", "torchrun")
# What follows #! may hold no blank and not be long; a shell knows neither limit.
SHELL_TO_PYTHON = f"""#!/bin/sh
'''exec' "{sys.executable}" -IS "$0" "$@"
' '''
"""
TORCH_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    "GLOO_SOCKET_IFNAME": "lo",
}
"""What torch reads when it is imported, or a rank should have anyway."""
KEPT = ("PATH", "HOME", "LANG", "TMPDIR")
OF_DEVICES = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")


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


def run_afresh(  # noqa: PLR0913 - what a process consists of
    program: str,
    arguments: Sequence[str],
    *,
    given: bytes,
    env: Mapping[str, str],
    cwd: Path,
    timeout_s: float,
) -> Ended:
    """Run an installed command in an interpreter of its own."""
    done = subprocess.run(  # noqa: S603 - the project's own commands
        [BIN / program, *arguments],
        input=given,
        env=env,
        cwd=cwd,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


class Commands:
    """A server of commands, and ``folder``, in which a shell finds its programs.

    With torch its programs are ``python`` and ``torchrun`` too; see ``command_server``.
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
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(self.folder / "server"))
            listener.listen()
            self.server = subprocess.Popen(  # noqa: S603 - our own server
                [*server, str(listener.fileno()), *(["torch"] if torch else [])],
                stdin=subprocess.PIPE,
                env=torch_environment() if torch else clean_environment(),
                pass_fds=[listener.fileno()],
                start_new_session=True,  # an interrupt is for pytest
            )

    def close(self) -> None:
        """End the server, which removes the folder."""
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait(10)

    def run(  # noqa: PLR0913 - what a process consists of
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
        if program in PROGRAMS and len(request) < MAX_REQUEST_BYTES // 4:
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
