"""The command line: arguments in, text and exit codes out.

Exit status: 0 sound, 1 defects found, 2 could not judge or wrong usage. Findings go to
standard output, everything else to standard error. A command that fails says so in one
message, never in a traceback.
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
"""Click lists choices with a tab before each, which would be shown as an escape."""

DEBUG_VARIABLE = "RANKTABLE_DEBUG"
"""Set to anything, it lets the traceback of an internal error through."""


_OBJECTS = 2_000_000
"""New objects after which Python looks for cycles of them.

Tables hold none, and have so many objects that looking takes a third of the time.
"""


class CommandError(Exception):
    """A command that cannot go on; its text is what the user reads."""

    def __init__(self, message: str, status: int = COULD_NOT_JUDGE) -> None:
        """Keep the message and the exit status."""
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
            _end_quietly()  # click has met it first, and says 1: defects found
        raise
    except BrokenPipeError:
        _end_quietly()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except CommandError as error:
        sys.exit(_say(program, str(error), error.status))
    except Exception as error:  # the last line of defence
        if os.environ.get(DEBUG_VARIABLE):
            raise
        sys.exit(_say(program, *_message(error)))


def _end_quietly() -> NoReturn:
    """Leave: whoever read the output has seen enough."""
    # Python flushes once more at exit, whatever click has put in place of the stream.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # type: ignore[union-attr]
    sys.exit(_PIPE_CLOSED)


def _open_standard_streams() -> None:
    """Give a stream that the shell has closed a place to go: nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - stays


def _message(error: Exception) -> tuple[str, int]:
    """Return what to say of an exception, and the exit status."""
    format_message = getattr(error, "format_message", None)
    if format_message is not None:  # click's: wrong usage, with a status of its own
        text = _CHOICE.sub(" ", format_message()).replace(": Value error, ", ": ")
        return text, getattr(error, "exit_code", COULD_NOT_JUDGE)
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror.lower()}", COULD_NOT_JUDGE
    from ranktable.cluster.argument import ArgumentError  # noqa: PLC0415 - rare
    from ranktable.layout.change.errors import ChangeError  # noqa: PLC0415
    from ranktable.layout.errors import LayoutError  # noqa: PLC0415
    from ranktable.schema.atomic_files import FileChangedError  # noqa: PLC0415
    from ranktable.schema.diagnostic import RankTableError  # noqa: PLC0415
    from ranktable.schema.format import NotExpressibleError  # noqa: PLC0415

    refusals = (ArgumentError, ChangeError, LayoutError, RankTableError)
    if isinstance(error, (*refusals, FileChangedError, NotExpressibleError)):
        return str(error), COULD_NOT_JUDGE
    name = type(error).__name__
    report = f"please report it, with what {DEBUG_VARIABLE}=1 adds to the output"
    return f"internal error: {name}: {error}\n{report}", COULD_NOT_JUDGE


def _say(program: str, message: str, status: int) -> int:
    lines = [printable(line) for line in message.splitlines()]
    if not lines:  # what there is to say was shown: the help, where nothing was given
        return status
    with contextlib.suppress(OSError):
        sys.stderr.write("\n".join([f"{program}: {lines[0]}", *lines[1:]]) + "\n")
    return status


def main() -> None:
    """Run ``ranktable`` and leave the process with its exit status."""
    from ranktable.cli.app import app_for  # noqa: PLC0415 - keeps the package light

    gc.set_threshold(_OBJECTS)
    with reported("ranktable"):
        app = app_for(sys.argv[1:])
        sys.exit(app(prog_name="ranktable", standalone_mode=False) or 0)


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
    from ranktable.report.findings_data import RENDERERS  # noqa: PLC0415 - as in style

    pieces = dict(RENDERERS)[form.value](reports, style(color, stream))
    if aside:
        stream.writelines(pieces)
    else:
        write(pieces)
