"""How far a long command is, on a terminal and nowhere else."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ranktable.schema.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

PAUSE_S = 0.1
"""Between two lines; nobody reads faster."""

_ERASE = "\r\x1b[K"


class Progress:
    """One line on standard error that is written over, if that is a terminal."""

    def __init__(self) -> None:
        """Look whether anybody would see it."""
        self.is_shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._next_s = 0.0
        self._is_dirty = False

    def show(self, text: str) -> None:
        """Show how far things are, unless the last time was a moment ago."""
        if not self.is_shown or time.monotonic() < self._next_s:
            return
        sys.stderr.write(f"{_ERASE}{printable(text)[: _columns() - 1]}")
        sys.stderr.flush()
        self._is_dirty = True
        self._next_s = time.monotonic() + PAUSE_S

    def clear(self) -> None:
        """Leave an empty line for what comes next."""
        if self._is_dirty:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()
            self._is_dirty = False
        self._next_s = 0.0


def _columns() -> int:
    try:
        return max(os.get_terminal_size(sys.stderr.fileno()).columns, 20)
    except OSError:
        return 80


@contextmanager
def progress() -> Iterator[Progress]:
    """Give a line of progress that is gone afterwards."""
    line = Progress()
    try:
        yield line
    finally:
        line.clear()


class CountingStream:
    """A stream that shows how many lines have come."""

    def __init__(self, stream: BinaryIO, line: Progress, name: str) -> None:
        """Keep the stream, and where to show what comes from it."""
        self._stream = stream
        self._line = line
        self._name = name
        self._count = 0

    def read(self, size: int) -> bytes:
        """Return what is there, at most so many bytes; nothing at the end."""
        read = getattr(self._stream, "read1", self._stream.read)
        data: bytes = read(size)
        self._count += data.count(b"\n")
        self._line.show(f"{self._name}: {self._count} lines so far")
        return data
