"""A vendor's tool, run so that it can neither hang nor flood this process."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from ranktable.cluster.discovery.unseen import UnseenError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_OUTPUT_BYTES = 1 << 20
"""Of either stream; a tool says a few kilobytes of a node."""

_PART_BYTES = 1 << 16
_LINGER_S = 0.1
"""For what a tool that has ended left in its pipes."""

_END_S = 1.0
"""For a killed tool to go. One that hangs in its driver stays, and is left behind."""


def run_command(
    arguments: Sequence[str], *, env: Mapping[str, str], timeout_s: float
) -> str:
    """Return what a program prints on standard output.

    No shell is involved, standard input is empty, and everything the program started
    is killed when its time is up.

    Raises:
        UnseenError: It cannot be started, fails, prints too much or takes too long.
    """
    name = os.path.basename(arguments[0])  # noqa: PTH119 - any name, no Path needed
    try:
        process = subprocess.Popen(  # noqa: S603 - fixed arguments, no shell
            arguments,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise UnseenError(f"{name} cannot be started: {reason.lower()}") from None
    try:
        out, err = _read(process, name, time.monotonic() + timeout_s, timeout_s)
    finally:
        _end(process)
    if process.returncode:
        raise UnseenError(_failed(name, process.returncode, err or out))
    return out.decode("utf-8", "replace")


def _read(
    process: subprocess.Popen[bytes], name: str, end: float, timeout_s: float
) -> tuple[bytes, bytes]:
    """Return both streams of a tool that ends in time."""
    out, err = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        for stream, found in ((process.stdout, out), (process.stderr, err)):
            assert stream is not None  # noqa: S101 - both are pipes
            selector.register(stream, selectors.EVENT_READ, found)
        while selector.get_map() and time.monotonic() < end:
            ready = selector.select(_LINGER_S)
            if not ready and process.poll() is not None:
                break  # something that it started keeps the pipes open
            for key, _ in ready:
                if not _take(key.fd, key.data, name):
                    selector.unregister(key.fileobj)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(end - time.monotonic(), 0))
    if process.returncode is None:
        raise UnseenError(f"{name} did not end within {timeout_s:g} s")
    return bytes(out), bytes(err)


def _take(descriptor: int, found: bytearray, name: str) -> bool:
    """Read what is there; return False at the end of the stream."""
    part = os.read(descriptor, _PART_BYTES)
    found += part
    if len(found) > MAX_OUTPUT_BYTES:
        raise UnseenError(f"{name} prints more than {MAX_OUTPUT_BYTES} bytes")
    return bool(part)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a tool, and close its pipes."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)


def _failed(name: str, status: int, output: bytes) -> str:
    how = f"exit status {status}" if status > 0 else f"signal {-status}"
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return f"{name} failed with {how}" + (f": {lines[0][:200]}" if lines else "")
