"""The files that a command writes: atomically, and not over other content."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.cli import CommandError, write
from ranktable.runtime.table import VARIABLE
from ranktable.schema.check import check
from ranktable.schema.diagnostic import counted, printable
from ranktable.schema.writing import create_file, replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ranktable.schema.model import RankTable

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
        is_executable: Whether it is a program.
    """

    path: str
    data: bytes
    is_executable: bool = False


def is_standard_output(option: str | None) -> bool:
    """Whether the value of an output option means standard output."""
    return option == STANDARD_OUTPUT or option in _ALSO_STANDARD_OUTPUT


def output_file(option: str | None = None, name: str = DEFAULT_FILE) -> str:
    """Return the path to write to: the option, ``$RANK_TABLE_FILE``, or a default.

    Raises:
        CommandError: The path is a folder, or is in a folder that does not exist.
    """
    if option == "":
        raise CommandError("--output is empty; name a file, or - for standard output")
    path = option or os.environ.get(VARIABLE) or name
    folder, last = os.path.split(path)
    if not last:
        raise CommandError(f"{path} names a folder, not a file")
    if folder and not os.path.isdir(folder):  # noqa: PTH112 - any name, no Path needed
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
        force: Whether to replace a file with another table.
        read: What the command has read, by the path of the file.

    Raises:
        CommandError: The file has another table and must not be replaced.
    """

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


def table_size(table: RankTable) -> str:
    """Return the size of a table in words."""
    nodes = counted(len(table.nodes), "node")
    return f"{nodes}, {counted(table.world_size, 'rank')}"


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
) -> list[str]:
    """Write files that do not exist yet or have this content already.

    Args:
        files: The files.
        force: Whether to replace files with other content.
        instead: What the user can do instead of replacing a file.
        other_content: Names the content of a file, None if it may be replaced.
        read: What the command has read, by path; if such a file has changed, it is not
            replaced.

    Returns:
        ``wrote`` or ``unchanged`` for each file.

    Raises:
        CommandError: A file exists with other content; nothing is written.
        FileChangedError: A file has changed since it was read.
        OSError: A file cannot be written; files written before are restored.
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
        except FileExistsError:  # another program has just created it: compare again
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
    """Write a file; record the folders that are created for it."""
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
        path.chmod(mode | (mode & 0o444) >> 2)  # executable for all who may read it


def _take_back(
    done: Sequence[tuple[OutputFile, bytes | None]], folders: Sequence[Path]
) -> None:
    """Restore the old files and folders, as far as possible."""
    for file, old in done:
        with contextlib.suppress(OSError, RuntimeError):
            if old is not None:
                replace_file(file.path, old, expected=file.data)
            elif Path(file.path).is_file():  # a device is left as it is
                Path(file.path).unlink()
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()
