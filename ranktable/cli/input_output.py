"""The files that a command reads and writes.

FILE is a path, ``-`` for standard input, else ``$RANK_TABLE_FILE``. A command writes a
file atomically, and does not overwrite other content.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ranktable.cli import DEFECTS_FOUND, CommandError, OutputFormat, write
from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.server_groups import GROUPED, group_of, tables_of
from ranktable.layout.errors import LayoutError
from ranktable.runtime.table import VARIABLE
from ranktable.schema.atomic_files import create_file, replace_file
from ranktable.schema.check import check, check_bytes, check_path, report_unreadable
from ranktable.schema.diagnostic import Options, RankTableError, counted, printable
from ranktable.schema.files import (
    DEFAULT_MAX_SIZE_BYTES,
    UnreadableError,
    read_file,
    read_stream,
)
from ranktable.schema.rules.records import no_global_ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ranktable.schema.diagnostic import Report
    from ranktable.schema.model import RankTable

Result = TypeVar("Result")

STANDARD_INPUT = "-"
STANDARD_INPUT_NAME = "<stdin>"
DEFAULT_MAX_ERRORS = 20
MIB = 1024 * 1024
FILE_HELP = "Rank table, or - for standard input; by default $RANK_TABLE_FILE."


NO_GROUP = "\0"
"""Where a command has no option for the group: what nobody can give as an argument."""


class TableFile(NamedTuple):
    """A table that was read.

    Attributes:
        name: Name of its file.
        table: The table.
        data: The bytes of the file, with which it is compared before it is replaced.
        whole: The table of groups that the table is one group of, None if it is none.
        group: The name of this group.
    """

    name: str
    table: RankTable
    data: bytes
    whole: RankTable | None = None
    group: str = ""


def named_file(file: str | None, *, may_be_input: bool = True) -> str:
    """Return the argument, else ``$RANK_TABLE_FILE``.

    Args:
        file: The argument.
        may_be_input: Whether the command takes ``-``, so that its error names it.

    Raises:
        CommandError: There is neither.
    """
    if file:
        return file
    name = os.environ.get(VARIABLE, "")
    if not name:
        how = "\nhelp: name a file, or - for standard input" if may_be_input else ""
        raise CommandError(f"no FILE is given, and {VARIABLE} is not set{how}")
    # "-" means standard input as an argument only.
    return os.path.join(".", name) if name == STANDARD_INPUT else name  # noqa: PTH118


def check_file(file: str, options: Options) -> Report:
    """Judge a file or standard input."""
    if file != STANDARD_INPUT:
        return check_path(file, options)
    try:
        data = read_stream(sys.stdin.buffer, options.max_size_bytes)
    except UnreadableError as error:
        return report_unreadable(error, file=STANDARD_INPUT_NAME)
    return check_bytes(data, options, file=STANDARD_INPUT_NAME)


def read_input(
    file: str, max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES
) -> tuple[str, bytes]:
    """Return the name and the bytes of a file or of standard input.

    Raises:
        CommandError: It cannot be read.
    """
    name = STANDARD_INPUT_NAME if file == STANDARD_INPUT else file
    try:
        if file == STANDARD_INPUT:
            return name, read_stream(sys.stdin.buffer, max_size_bytes)
        return name, read_file(file, max_size_bytes)
    except UnreadableError as error:
        raise CommandError(f"{name}: {error.code} {error.message}") from None


def sound_table(
    file: str | None, *, needs_ranks: bool = True, group: str | None = NO_GROUP
) -> TableFile:
    """Return a file and its table.

    Args:
        file: Name of the file, ``-`` or None.
        needs_ranks: Whether its ranks have to be those of one job.
        group: In a table of groups, the group whose table is meant: None for the only
            one, ``NO_GROUP`` where the command has no option for it.

    Raises:
        CommandError: The table has errors; the message is their concise form.
    """
    report = check_file(named_file(file), Options(limit=5, is_table_wanted=True))
    read = TableFile(report.file, table_in(report), report.data or b"")
    return with_ranks(read, group) if needs_ranks else read


def with_ranks(read: TableFile, group: str | None) -> TableFile:
    """Return a file with the table of one job: its own, or that of a group.

    Raises:
        CommandError: Its ranks are not those of one job, and no group is named.
    """
    table = read.table
    if group == "":
        raise CommandError("--server-group is empty; give the name of a group")
    if table.format == GROUPED and group != NO_GROUP:
        try:
            name, part = group_of(table, group)
        except ArgumentError as error:
            raise CommandError(f"{read.name}: {error}") from None
        return read._replace(table=part, whole=table, group=name)
    if group not in (None, NO_GROUP):
        raise CommandError(f"--server-group: {read.name} is not a table of groups")
    refuse_without_ranks(table, read.name)
    return read


def refuse_without_ranks(table: RankTable, name: str) -> None:
    """Refuse a table that does not give ranks to the processes of a job.

    Raises:
        CommandError: It is such a table.
    """
    if not table.has_global_ranks:
        finding = no_global_ranks(table.format)
        raise CommandError(f"{name}: {finding.message}\nhelp: {finding.hint}")


def table_in(report: Report) -> RankTable:
    """Return the table of a report.

    Raises:
        CommandError: It has errors; the message is their concise form.
    """
    try:
        return report.sound_table()
    except RankTableError as error:
        if report.is_unreadable:
            raise CommandError(f"the table cannot be read\n{error}") from None
        raise CommandError(f"the table is not sound\n{error}", DEFECTS_FOUND) from None


def sound_tables(file: str | None, group: str | None) -> list[TableFile]:
    """Return a file with its table, or once for each group if none is named.

    Raises:
        CommandError: The table has errors, or is not that of a job.
    """
    read = sound_table(file, needs_ranks=False)
    if group is None and read.table.format == GROUPED:
        try:
            parts = tables_of(read.table)
        except ArgumentError as error:
            raise CommandError(f"{read.name}: {error}") from None
        if len(parts) > 1:
            return [
                read._replace(
                    name=f"{read.name}, {name.replace('-', ' ', 1)}",
                    table=part,
                    whole=read.table,
                    group=name,
                )
                for name, part in parts.items()
            ]
    return [with_ranks(read, group)]


def of_group(read: TableFile, made: Callable[[TableFile], Result]) -> Result:
    """Return the result of a function of a table.

    Raises:
        CommandError: It cannot be made; the message says of which group.
    """
    try:
        return made(read)
    except (CommandError, LayoutError) as error:
        if not read.group:
            raise
        raise CommandError(f"{read.group.replace('-', ' ', 1)}: {error}") from None


def show_each(shown: Mapping[str, Iterable[str]], form: OutputFormat) -> None:
    """Write the output of every group under its name; for one table without a name.

    As JSON, several are members of ``server_groups``.
    """
    if len(shown) == 1:
        write(next(iter(shown.values())))
        return
    if form is OutputFormat.JSON:
        found = {name: json.loads("".join(pieces)) for name, pieces in shown.items()}
        write([json.dumps({"server_groups": found}, indent=2), "\n"])
        return
    write("\n".join("".join(pieces) for pieces in shown.values()))


STANDARD_OUTPUT = "-"

_ALSO_STANDARD_OUTPUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")

DEFAULT_FILE = "sccl_rank_table.json"
"""In the working folder, as the vendor's generator has it."""

SOMETHING_ELSE = "something else"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """A file to write.

    Attributes:
        path: Where.
        data: What.
        is_executable: Whether it is a program.
    """

    path: str
    data: bytes
    is_executable: bool = False


def is_standard_output(option: str | None) -> bool:
    """Whether an option for an output names standard output."""
    return option == STANDARD_OUTPUT or option in _ALSO_STANDARD_OUTPUT


def output_file(option: str | None = None) -> str:
    """Return the path to write to: an option, ``$RANK_TABLE_FILE``, or a name.

    Raises:
        CommandError: It names a folder, or is in a folder that does not exist.
    """
    if option == "":
        raise CommandError("--output is empty; name a file, or - for standard output")
    path = option or os.environ.get(VARIABLE) or DEFAULT_FILE
    folder, name = os.path.split(path)
    if not name:
        raise CommandError(f"{path} names a folder, not a file")
    if folder and not os.path.isdir(folder):  # noqa: PTH112 - any name, no Path needed
        raise CommandError(f"the folder {folder} does not exist; create it first")
    return path


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
        data: What was made.
        size: How large that is, in words.
        force: Whether to replace a file that holds something else.
        read: What the command has read, by the path of the file.
        other_content: As ``put_files`` takes it.

    Raises:
        CommandError: The file holds something else, and that is not to be replaced.
    """
    if output is None or is_standard_output(output):
        write([data.decode()])
        return
    file = OutputFile(path=output_file(output), data=data)
    (done,) = put_files([file], force=force, other_content=other_content, read=read)
    tell_written(done, file.path, size)


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
        force: Whether to replace a file that holds another table.
        read: What the command has read, by the path of the file.

    Raises:
        CommandError: The file holds another table, and that is not to be replaced.
    """

    def other_content(there: bytes) -> str | None:
        other = check(there).table
        if other is None:
            return SOMETHING_ELSE
        return None if other.digest() == table.digest() else "a different table"

    put_text(
        output_file() if output is None else output,
        data,
        table_size(table),
        force=force,
        read=read,
        other_content=other_content,
    )


def table_size(table: RankTable) -> str:
    """Return how large a table is, in words."""
    nodes = counted(len(table.nodes), "node")
    return f"{nodes}, {counted(table.world_size, 'rank')}"


def tell_written(done: str, name: str, size: str) -> None:
    """Say on standard error what was written: ``wrote t.json: 1 node, 8 ranks``."""
    more = f": {size}" if size else ""
    sys.stderr.write(f"{done} {printable(name)}{more}\n")


def put_files(
    files: Sequence[OutputFile],
    *,
    force: bool,
    instead: str = "--output names another",
    other_content: Callable[[bytes], str | None] = lambda _: SOMETHING_ELSE,
    read: Mapping[str, bytes] | None = None,
) -> list[str]:
    """Write files unless they are there already.

    Args:
        files: The files.
        force: Whether to replace files that hold something else.
        instead: What to do instead of replacing one.
        other_content: Names what a file holds, None where it may be replaced.
        read: What the command has read, by path: a file that holds something else by
            now is not replaced.

    Returns:
        ``wrote`` or ``unchanged`` for each.

    Raises:
        CommandError: A file is there and holds something else; nothing is written.
        FileChangedError: A file has changed meanwhile.
        OSError: A file cannot be written; what was written before is taken back.
    """
    paths = {os.path.realpath(path): data for path, data in (read or {}).items()}
    while True:
        before = [_content(file.path) for file in files]
        for file, old in zip(files, before, strict=True):
            if old in (None, file.data) or force:
                continue
            what = other_content(old or b"")
            if what is not None:
                raise CommandError(
                    f"{file.path} holds {what}; --force replaces it, {instead}"
                )
        expected = [
            old if old is None else paths.get(os.path.realpath(file.path), old)
            for file, old in zip(files, before, strict=True)
        ]
        try:
            return _write_all(files, before, expected)
        except FileExistsError:  # somebody else has created one: compare again
            continue


def _content(path: str) -> bytes | None:
    return Path(path).read_bytes() if Path(path).is_file() else None


def _write_all(
    files: Sequence[OutputFile],
    before: Sequence[bytes | None],
    expected: Sequence[bytes | None],
) -> list[str]:
    said: list[str] = []
    done: list[tuple[OutputFile, bytes | None]] = []
    folders: list[Path] = []
    try:
        for file, old, known in zip(files, before, expected, strict=True):
            if old == file.data:
                said.append("unchanged")
                continue
            _write_one(file, known, folders)
            done.append((file, old))
            said.append("wrote")
    except BaseException:
        _take_back(done, folders)
        raise
    return said


def _write_one(file: OutputFile, expected: bytes | None, folders: list[Path]) -> None:
    """Write a file; folders that are made for it are noted."""
    path = Path(file.path)
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir()
        folders.append(folder)
    if expected is None:
        create_file(file.path, file.data)
    else:
        replace_file(file.path, file.data, expected=expected)
    if file.is_executable and path.is_file():
        mode = path.stat().st_mode
        path.chmod(mode | (mode & 0o444) >> 2)  # for whoever may read it


def _take_back(
    done: Sequence[tuple[OutputFile, bytes | None]], folders: Sequence[Path]
) -> None:
    """Leave things as they were, as far as that is possible."""
    for file, old in done:
        with contextlib.suppress(OSError, RuntimeError):
            if old is not None:
                replace_file(file.path, old, expected=file.data)
            elif Path(file.path).is_file():  # a device stays
                Path(file.path).unlink()
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()
