"""What a command gives back: text, findings, files, and its exit status.

Exit status: 0 sound, 1 defects found, 2 could not judge or wrong usage. Findings are
written to standard output, everything else to standard error. Files are written
atomically, and not over other content. If a command fails, it prints one message and
never a traceback.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from ranktable._error import Error
from ranktable.cluster.argument import ArgumentError
from ranktable.schema.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TextIO

    from ranktable.report.terminal import Style
    from ranktable.schema.model import RankTable
    from ranktable.schema.report import Report

DEFECTS_FOUND = 1
COULD_NOT_JUDGE = 2
_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
_PIPE_CLOSED = 141  # 128 + SIGPIPE
_CHOICE = re.compile(r"\n\t")
"""Click puts a tab before each choice, which would be shown as an escape."""

DEBUG_VARIABLE = "RANKTABLE_DEBUG"
"""If this variable is set, the traceback of an internal error is printed."""


class CommandError(Exception):
    """A command cannot continue; the text is the message for the user."""

    def __init__(self, message: str, status: int = COULD_NOT_JUDGE) -> None:
        """Store the message and the exit status."""
        super().__init__(message)
        self.status = status


@contextlib.contextmanager
def about(name: str) -> Iterator[None]:
    """Name the option, or the file, in an error about an argument.

    Raises:
        CommandError: An ArgumentError was raised; the message begins with the name.
    """
    try:
        yield
    except ArgumentError as error:
        raise CommandError(f"{name}: {error}") from None


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
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - stays


def _message(error: Exception) -> tuple[str, int]:
    """Return the message for an exception, and the exit status."""
    format_message = getattr(error, "format_message", None)
    if format_message is not None:  # click: wrong usage, with an exit status of its own
        text = _CHOICE.sub(" ", format_message())
        if type(error).__name__ == "MissingParameter":
            text += _values_of(error)
        return text, getattr(error, "exit_code", COULD_NOT_JUDGE)
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror.lower()}", COULD_NOT_JUDGE
    if isinstance(error, Error):
        return str(error), COULD_NOT_JUDGE
    name = type(error).__name__
    report = f"please report it, with what {DEBUG_VARIABLE}=1 adds to the output"
    return f"internal error: {name}: {error}\n{report}", COULD_NOT_JUDGE


def _values_of(error: Any) -> str:
    """Return a line with the values of a missing option, nothing without a list."""
    items = error.param.shell_complete(error.ctx, "") if error.param else []
    names = [item.value for item in items if item.value]
    return f"\nhelp: it is one of {', '.join(names)}" if names else ""


def _say(program: str, message: str, status: int) -> int:
    lines = [printable(line) for line in message.splitlines()]
    with contextlib.suppress(OSError):
        sys.stderr.write("\n".join([f"{program}: {lines[0]}", *lines[1:]]) + "\n")
    return status


_WITH_LINES = ("utf-8", "utf8")
"""Encodings that contain the characters for drawing lines."""

_FLUSH_CHARACTERS = 1 << 16


class Color(str, Enum):
    """When to use colour."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


OutputFormat = Literal["text", "json"]
"""Forms of the facts that a command prints."""


def style_of(color: Color = Color.AUTO, stream: TextIO | None = None) -> Style:
    """Return the style for a stream, by default standard output.

    Source: no-color.org for NO_COLOR, force-color.org for FORCE_COLOR. An option is
    stronger than both, and an empty variable counts as unset.
    """
    from ranktable.report.terminal import Style

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


def write_json(data: object) -> None:
    """Write plain data to standard output."""
    write([json.dumps(data, indent=2), "\n"])


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


FindingsFormat = Literal["full", "concise", "json", "sarif", "github"]
"""Forms of findings, each with a renderer in ``ranktable.report``."""


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
    if not reports and form in (None, "full", "concise"):
        return
    if form is None:
        form = "full" if stream.isatty() else "concise"
    from ranktable.report.findings_data import RENDERERS

    pieces = RENDERERS[form](reports, style_of(color, stream))
    if aside:
        stream.writelines(pieces)
    else:
        write(pieces)


STANDARD_OUTPUT = "-"

_ALSO_STANDARD_OUTPUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")

DEFAULT_FILE = "sccl_rank_table.json"
"""In the working folder, like that of the vendor's generator."""

_DEFAULT_FILES = {"sccl": DEFAULT_FILE, "hccl": "hccl.json"}
"""The same by the beginning of a format; Ascend's controllers write hccl.json."""

SOMETHING_ELSE = "something else"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """A file to write.

    Attributes:
        path: Its path.
        data: Its content.
        size: Its size in words.
        is_executable: Whether it is a program.
    """

    path: str
    data: bytes
    size: str = ""
    is_executable: bool = False


def is_standard_output(option: str | None) -> bool:
    """Whether the value of an output option means standard output."""
    return option == STANDARD_OUTPUT or option in _ALSO_STANDARD_OUTPUT


def output_file(option: str | None = None, name: str = DEFAULT_FILE) -> str:
    """Return the path to write to: the option, ``$RANK_TABLE_FILE``, or a default.

    Raises:
        CommandError: The path is a folder, or is in a folder that does not exist.
    """
    from ranktable.runtime.table import VARIABLE

    if option == "":
        raise CommandError("--output is empty; name a file, or - for standard output")
    path = option or os.environ.get(VARIABLE) or name
    folder, last = os.path.split(path)
    if not last:
        raise CommandError(f"{path} names a folder, not a file")
    if folder and not os.path.isdir(folder):
        raise CommandError(f"the folder {folder} does not exist; create it first")
    return path


def _default_file(table: RankTable) -> str:
    return _DEFAULT_FILES.get(table.format.partition("-")[0], "rank_table.json")


def put_text(
    output: str | None,
    data: bytes,
    size: str = "",
    *,
    force: bool,
    read: Mapping[str, bytes] | None = None,
    other_content: Callable[[bytes], str | None] = lambda _: SOMETHING_ELSE,
) -> None:
    """Print the output of a command, or write it to its file with a message.

    Args:
        output: Path of the file; ``-`` or None for standard output.
        data: The output.
        size: Its size in words.
        force: Whether to replace a file with other content.
        read: What the command has read, by the path of the file.
        other_content: As in ``put_files``.

    Raises:
        CommandError: The file has other content and must not be replaced.
    """
    if output is None or is_standard_output(output):
        write([data.decode()])
        return
    file = OutputFile(path=output_file(output), data=data, size=size)
    put_files([file], force=force, other_content=other_content, read=read)


def put_table(
    output: str | None,
    table: RankTable,
    data: bytes,
    *,
    force: bool,
    read: Mapping[str, bytes] | None = None,
) -> None:
    """Print a table, or write it to its file with a message on standard error.

    Args:
        output: Path of the file, ``-`` for standard output, None for the default.
        table: The table.
        data: Its bytes.
        force: Whether to replace a file with another table.
        read: What the command has read, by the path of the file.

    Raises:
        CommandError: The file has another table and must not be replaced.
    """
    from ranktable.report.terminal import table_size
    from ranktable.schema.check import check

    def other_content(there: bytes) -> str | None:
        other = check(there).table
        if other is None:
            return SOMETHING_ELSE
        return None if other.digest() == table.digest() else "a different table"

    put_text(
        output_file(name=_default_file(table)) if output is None else output,
        data,
        table_size(table),
        force=force,
        read=read,
        other_content=other_content,
    )


def tell_written(done: str, name: str, size: str) -> None:
    """Print on standard error what was written: ``wrote t.json: 1 node, 8 ranks``."""
    more = f": {size}" if size else ""
    sys.stderr.write(f"{done} {printable(name)}{more}\n")


def put_files(
    files: Sequence[OutputFile],
    *,
    force: bool,
    instead: str = "--output names another",
    other_content: Callable[[bytes], str | None] = lambda _: SOMETHING_ELSE,
    read: Mapping[str, bytes] | None = None,
) -> None:
    """Write files that do not exist yet or have this content already.

    For each, standard error says whether it was written or is unchanged. Each is
    written atomically; if one fails, those before it stay.

    Args:
        files: The files.
        force: Whether to replace files with other content.
        instead: What the user can do instead of replacing a file.
        other_content: Names the content of a file, None if it may be replaced.
        read: What the command has read, by path; if such a file has changed, it is not
            replaced.

    Raises:
        CommandError: A file exists with other content; nothing is written.
        FileChangedError: A file has changed since it was read.
        OSError: A file cannot be written.
    """

    def state(file: OutputFile) -> bytes | None:
        """Return the content of a file if it may be replaced, None without one."""
        old = _content(file.path)
        if old in (None, file.data) or force:
            return old
        what = other_content(old or b"")
        if what is not None:
            raise CommandError(
                f"{file.path} holds {what}; --force replaces it, {instead}"
            )
        return old

    known = {os.path.realpath(path): data for path, data in (read or {}).items()}
    for file in files:
        state(file)
    for file in files:
        Path(file.path).parent.mkdir(parents=True, exist_ok=True)
        while True:
            old = state(file)
            try:
                _write_file(file, old, known.get(os.path.realpath(file.path), old))
            except FileExistsError:  # another program has just created it
                continue
            break
        tell_written("unchanged" if old == file.data else "wrote", file.path, file.size)


def _content(path: str) -> bytes | None:
    return Path(path).read_bytes() if Path(path).is_file() else None


def _write_file(file: OutputFile, old: bytes | None, known: bytes | None) -> None:
    """Write a file that has the content ``old``, or that does not exist.

    Args:
        file: The file.
        old: Its content, None if there is no file.
        known: The content that the command has read; another one is not replaced.
    """
    from ranktable.schema.writing import create_file, replace_file

    if old == file.data:
        return
    if old is None:
        create_file(file.path, file.data)
    else:
        replace_file(file.path, file.data, expected=known)
    path = Path(file.path)
    if file.is_executable and path.is_file():
        mode = path.stat().st_mode
        path.chmod(mode | (mode & 0o444) >> 2)  # executable for all who may read it
