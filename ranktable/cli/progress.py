"""The progress of a long command; it is shown only on a terminal."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ranktable.schema.diagnostic import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from rich.status import Status

PAUSE_S = 0.1
"""Seconds between two updates."""


class Progress:
    """One line on standard error that is overwritten; only if that is a terminal."""

    def __init__(self) -> None:
        """Check whether standard error is a terminal."""
        self.is_shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._next_s = 0.0
        self._status: Status | None = None

    def show(self, text: str) -> None:
        """Show the progress, unless it was updated a moment ago."""
        if not self.is_shown or time.monotonic() < self._next_s:
            return
        from rich.console import Console
        from rich.status import Status
        from rich.text import Text

        shown = Text(printable(text), no_wrap=True, overflow="ellipsis")
        if self._status is None:
            self._status = Status(shown, console=Console(stderr=True))
            self._status.start()
        self._status.update(shown)
        self._next_s = time.monotonic() + PAUSE_S

    def clear(self) -> None:
        """Clear the line."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        self._next_s = 0.0


@contextmanager
def progress() -> Iterator[Progress]:
    """Yield a progress line, which is cleared at the end."""
    line = Progress()
    try:
        yield line
    finally:
        line.clear()


class CountingStream:
    """A stream that shows how many lines were read."""

    def __init__(self, stream: BinaryIO, line: Progress, name: str) -> None:
        """Store the stream and the progress line."""
        self._stream = stream
        self._line = line
        self._name = name
        self._count = 0

    def read(self, size: int) -> bytes:
        """Return at most so many bytes; nothing at the end."""
        read = getattr(self._stream, "read1", self._stream.read)
        data: bytes = read(size)
        self._count += data.count(b"\n")
        self._line.show(f"{self._name}: {self._count} lines so far")
        return data
