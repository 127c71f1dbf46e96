"""How far a long command is, on a terminal and nowhere else."""

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
"""Between two texts; nobody reads faster."""


class Progress:
    """One line on standard error that is written over, if that is a terminal."""

    def __init__(self) -> None:
        """Look whether anybody would see it."""
        self.is_shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._next_s = 0.0
        self._status: Status | None = None

    def show(self, text: str) -> None:
        """Show how far things are, unless the last time was a moment ago."""
        if not self.is_shown or time.monotonic() < self._next_s:
            return
        from rich.console import Console  # noqa: PLC0415 - 0.1 s, on a terminal alone
        from rich.status import Status  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        shown = Text(printable(text), no_wrap=True, overflow="ellipsis")
        if self._status is None:
            self._status = Status(shown, console=Console(stderr=True))
            self._status.start()
        self._status.update(shown)
        self._next_s = time.monotonic() + PAUSE_S

    def clear(self) -> None:
        """Leave an empty line for what comes next."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        self._next_s = 0.0


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
