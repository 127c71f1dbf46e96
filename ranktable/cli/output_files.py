"""The files that a command writes: all or none, and never over something else."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.cli.failure import CommandError
from ranktable.cli.output import write
from ranktable.schema.check import check
from ranktable.schema.messages import counted, printable
from ranktable.schema.writing import create_file, replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ranktable.schema.model import RankTable

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
    path = option or os.environ.get("RANK_TABLE_FILE") or DEFAULT_FILE
    folder, name = os.path.split(path)
    if not name:
        raise CommandError(f"{path} names a folder, not a file")
    if folder and not os.path.isdir(folder):  # noqa: PTH112 - any name, no Path needed
        raise CommandError(f"the folder {folder} does not exist; create it first")
    return path


def put_table(
    output: str | None,
    table: RankTable,
    data: bytes,
    *,
    force: bool,
    read: Mapping[str, bytes] | None = None,
) -> None:
    """Print a table, or write it to its file and say so on standard error.

    Args:
        output: Path of the file, ``-`` for standard output, None for the default.
        table: The table.
        data: Its bytes.
        force: Whether to replace a file that holds another table.
        read: What the command has read, by the path of the file.

    Raises:
        CommandError: The file holds another table, and that is not to be replaced.
    """
    if is_standard_output(output):
        write([data.decode()])
        return

    def other_content(there: bytes) -> str | None:
        other = check(there).table
        if other is None:
            return SOMETHING_ELSE
        return None if other.digest() == table.digest() else "a different table"

    file = OutputFile(path=output_file(output), data=data)
    (done,) = put_files([file], force=force, other_content=other_content, read=read)
    tell_written(done, file.path, table_size(table))


def table_size(table: RankTable) -> str:
    """Return how large a table is, in words."""
    nodes = counted(len(table.nodes), "node")
    return f"{nodes}, {counted(table.world_size, 'rank')}"


def tell_written(done: str, name: str, size: str) -> None:
    """Say on standard error what was written: ``wrote t.json: 1 node, 8 ranks``."""
    sys.stderr.write(f"{done} {printable(name)}: {size}\n")


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
            _write(file, known, folders)
            done.append((file, old))
            said.append("wrote")
    except BaseException:
        _take_back(done, folders)
        raise
    return said


def _write(file: OutputFile, expected: bytes | None, folders: list[Path]) -> None:
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
    if file.is_executable:
        mode = path.stat().st_mode
        path.chmod(mode | (mode & 0o444) >> 2)  # for whoever may read it


def _take_back(
    done: Sequence[tuple[OutputFile, bytes | None]], folders: Sequence[Path]
) -> None:
    """Leave things as they were, as far as that is possible."""
    for file, old in done:
        with contextlib.suppress(OSError, RuntimeError):
            if old is None:
                Path(file.path).unlink(missing_ok=True)
            else:
                replace_file(file.path, old, expected=file.data)
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()
