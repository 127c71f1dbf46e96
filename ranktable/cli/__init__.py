"""The command line: arguments in, text and exit codes out.

Exit status: 0 sound, 1 defects found, 2 could not judge or wrong usage. Findings are
written to standard output, everything else to standard error. If a command fails, it
prints one message and never a traceback.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import sys
from enum import Enum
from typing import TYPE_CHECKING, NoReturn

from ranktable.schema.diagnostic import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TextIO

    from ranktable.report.terminal import Style
    from ranktable.schema.diagnostic import Report

DEFECTS_FOUND = 1
COULD_NOT_JUDGE = 2
_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
_PIPE_CLOSED = 141  # 128 + SIGPIPE
_CHOICE = re.compile(r"\n\t")
"""Click puts a tab before each choice, which would be shown as an escape."""

DEBUG_VARIABLE = "RANKTABLE_DEBUG"
"""If this variable is set, the traceback of an internal error is printed."""


_OBJECTS = 2_000_000
"""Number of new objects after which Python searches for reference cycles.

Tables have many objects but no cycles, and the search takes a third of the time.
"""


class CommandError(Exception):
    """A command cannot continue; the text is the message for the user."""

    def __init__(self, message: str, status: int = COULD_NOT_JUDGE) -> None:
        """Store the message and the exit status."""
        super().__init__(message)
        self.status = status


@contextlib.contextmanager
def reported(program: str) -> Iterator[None]:
    """Turn every exception into a message on standard error and an exit status."""
    _open_standard_streams()
    try:
        yield
        sys.stdout.flush()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            _end_quietly()  # click would return 1, which means defects found
        raise
    except BrokenPipeError:
        _end_quietly()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except CommandError as error:
        sys.exit(_say(program, str(error), error.status))
    except Exception as error:  # internal errors
        if os.environ.get(DEBUG_VARIABLE):
            raise
        sys.exit(_say(program, *_message(error)))


def _end_quietly() -> NoReturn:
    """End the process without a message, because nobody reads the output any more."""
    # At exit Python flushes the stream again, even if click has replaced it.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # type: ignore[union-attr]
    sys.exit(_PIPE_CLOSED)


def _open_standard_streams() -> None:
    """Open /dev/null in place of a standard stream that the shell has closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - stays


def _message(error: Exception) -> tuple[str, int]:
    """Return the message for an exception, and the exit status."""
    format_message = getattr(error, "format_message", None)
    if format_message is not None:  # click: wrong usage, with an exit status of its own
        text = _CHOICE.sub(" ", format_message()).replace(": Value error, ", ": ")
        return text, getattr(error, "exit_code", COULD_NOT_JUDGE)
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror.lower()}", COULD_NOT_JUDGE
    from ranktable.cluster.argument import ArgumentError  # noqa: PLC0415 - rare
    from ranktable.layout.layout_errors import ChangeError, LayoutError  # noqa: PLC0415
    from ranktable.schema.diagnostic import RankTableError  # noqa: PLC0415
    from ranktable.schema.format import NotExpressibleError  # noqa: PLC0415
    from ranktable.schema.writing import FileChangedError  # noqa: PLC0415

    refusals = (ArgumentError, ChangeError, LayoutError, RankTableError)
    if isinstance(error, (*refusals, FileChangedError, NotExpressibleError)):
        return str(error), COULD_NOT_JUDGE
    name = type(error).__name__
    report = f"please report it, with what {DEBUG_VARIABLE}=1 adds to the output"
    return f"internal error: {name}: {error}\n{report}", COULD_NOT_JUDGE


def _say(program: str, message: str, status: int) -> int:
    lines = [printable(line) for line in message.splitlines()]
    if not lines:  # the help was printed already, because there were no arguments
        return status
    with contextlib.suppress(OSError):
        sys.stderr.write("\n".join([f"{program}: {lines[0]}", *lines[1:]]) + "\n")
    return status


def main() -> None:
    """Run ``ranktable`` and end the process with its exit status."""
    gc.set_threshold(_OBJECTS)
    with reported("ranktable"):
        from ranktable.cli.app import app_for  # noqa: PLC0415 - keeps the package light

        app = app_for(sys.argv[1:])
        sys.exit(app(prog_name="ranktable", standalone_mode=False) or 0)


_WITH_LINES = ("utf-8", "utf8")
"""Encodings that contain the characters for drawing lines."""

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

    Source: no-color.org for NO_COLOR, force-color.org for FORCE_COLOR. An option is
    stronger than both, and an empty variable counts as unset.
    """
    from ranktable.report.terminal import Style  # noqa: PLC0415 - not for the generator

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
    """Write pieces of text to standard output in its encoding."""
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
        # At exit Python would write the rest again, and report the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OSError(error.errno, error.strerror, "<stdout>") from None


FORM_HELP = "Form of the findings."


class FindingsFormat(str, Enum):
    """Forms of findings, each with a renderer in ``ranktable.report``."""

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
    """Print findings.

    Args:
        reports: The reports; if there are none, nothing is printed, unless a form for
            programs is requested.
        form: The form; by default full on a terminal, concise in a pipe.
        color: When to use colour.
        aside: Whether to print on standard error, because standard output has the
            result of the command.
    """
    stream = sys.stderr if aside else sys.stdout
    if not reports and form in (None, FindingsFormat.FULL, FindingsFormat.CONCISE):
        return
    if form is None:
        form = FindingsFormat.FULL if stream.isatty() else FindingsFormat.CONCISE
    from ranktable.report.findings_data import RENDERERS  # noqa: PLC0415 - as in style

    pieces = dict(RENDERERS)[form.value](reports, style(color, stream))
    if aside:
        stream.writelines(pieces)
    else:
        write(pieces)
