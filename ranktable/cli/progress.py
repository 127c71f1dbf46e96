"""The progress of a long command; it is shown only on a terminal."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ranktable.schema.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

PAUSE_S = 0.1
"""Seconds between two updates."""

_ERASE = "\r\x1b[2K"


class Progress:
    """One line on standard error that is overwritten; only if that is a terminal."""

    def __init__(self) -> None:
        """Check whether standard error is a terminal."""
        self.is_shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._next_s = 0.0

    def show(self, text: str) -> None:
        """Show the progress, unless it was updated a moment ago."""
        if self.is_shown and time.monotonic() >= self._next_s:
            width = shutil.get_terminal_size().columns - 1
            self._write(f"{_ERASE}{printable(text)[:width]}")
            self._next_s = time.monotonic() + PAUSE_S

    def clear(self) -> None:
        """Clear the line."""
        if self._next_s:
            self._write(_ERASE)
        self._next_s = 0.0

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


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
