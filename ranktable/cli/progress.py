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
