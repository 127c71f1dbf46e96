"""Text and findings to standard output, in colour where that is wanted."""

from __future__ import annotations

import os
import shutil
import sys
from enum import Enum
from typing import TYPE_CHECKING

from ranktable.report.findings_data import RENDERERS
from ranktable.report.terminal import Style

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TextIO

    from ranktable.schema.diagnostic import Report

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


FORM_HELP = "Form of the findings."


class FindingsFormat(str, Enum):
    """Forms of findings; ``report.renderers`` has one renderer for each."""

    FULL = "full"
    CONCISE = "concise"
    JSON = "json"
    JSONL = "jsonl"
    SARIF = "sarif"
    GITHUB = "github"


def show_findings(
    reports: Sequence[Report],
    form: FindingsFormat | None,
    color: Color,
    *,
    aside: bool = False,
) -> None:
    """Print what was found.

    Args:
        reports: The reports; nothing is printed where there are none, unless a form
            for programs is asked for.
        form: The form; by default full on a terminal, concise in a pipe.
        color: When to use colour.
        aside: Whether to print on standard error, because standard output is the
            result's.
    """
    stream = sys.stderr if aside else sys.stdout
    if not reports and form in (None, FindingsFormat.FULL, FindingsFormat.CONCISE):
        return
    if form is None:
        form = FindingsFormat.FULL if stream.isatty() else FindingsFormat.CONCISE
    pieces = dict(RENDERERS)[form.value](reports, style(color, stream))
    if aside:
        stream.writelines(pieces)
    else:
        write(pieces)
