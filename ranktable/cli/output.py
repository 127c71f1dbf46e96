"""Text to standard output, in colour where that is wanted."""

from __future__ import annotations

import os
import shutil
import sys
from enum import Enum
from typing import TYPE_CHECKING

from ranktable.report.style import Style

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

_WITH_LINES = ("utf-8", "utf8")
"""Encodings that have the characters of which lines are drawn."""

_FLUSH_CHARACTERS = 1 << 16


class Color(str, Enum):
    """When to use colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class OutputFormat(str, Enum):
    """Forms of the facts that a command prints."""

    TEXT = "text"
    JSON = "json"


COLOR_HELP = "When to use colour; NO_COLOR and FORCE_COLOR are honoured too."


def style(color: Color = Color.AUTO, stream: TextIO | None = None) -> Style:
    """Return the style for a stream, by default standard output.

    Source: no-color.org for NO_COLOR, force-color.org for FORCE_COLOR; an option wins
    over both, and an empty variable counts as unset.
    """
    stream = stream or sys.stdout
    is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    wanted = is_terminal
    if os.environ.get("FORCE_COLOR"):
        wanted = True
    if os.environ.get("NO_COLOR"):
        wanted = False
    if color is not Color.AUTO:
        wanted = color is Color.ALWAYS
    width = shutil.get_terminal_size((100, 24)).columns
    is_drawn = is_terminal and (stream.encoding or "").lower() in _WITH_LINES
    return Style(is_coloured=wanted, width=width, is_drawn=is_drawn)


def write(pieces: Iterable[str]) -> None:
    """Write pieces of text to standard output, whatever its encoding can hold."""
    buffer: list[str] = []
    size = 0
    for piece in pieces:
        buffer.append(piece)
        size += len(piece)
        if size > _FLUSH_CHARACTERS:
            _write(buffer)
            buffer, size = [], 0
    _write(buffer)


def _write(buffer: list[str]) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    data = "".join(buffer).encode(encoding, "backslashreplace")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # Python would write what is left once more at exit, and complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OSError(error.errno, error.strerror, "<stdout>") from None
