"""Several files written together: all of them, or none."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from ranktable.cli.failure import CommandError
from ranktable.schema.messages import printable
from ranktable.schema.writing import replace_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A file to write.

    Attributes:
        path: Where.
        data: What.
        is_executable: Whether it is a program.
    """

    path: str
    data: bytes
    is_executable: bool = False


def write_copies(copies: list[Copy], *, force: bool) -> list[str]:
    """Write files, and return what was done, a line for each.

    Raises:
        CommandError: A file is there and holds something else; nothing is written.
        OSError: A file cannot be written; what was written before is taken back.
    """
    before = [_bytes(copy.path) for copy in copies]
    for copy, old in zip(copies, before, strict=True):
        if old not in (None, copy.data) and not force:
            raise CommandError(
                f"{copy.path} holds something else; --force replaces it, --output "
                "names another"
            )
    done: list[tuple[Copy, bytes | None]] = []
    folders: list[Path] = []
    try:
        for copy, old in zip(copies, before, strict=True):
            if old != copy.data:
                done.append((copy, old))
                _write(copy, folders)
    except BaseException:
        _take_back(done, folders)
        raise
    pairs = zip(copies, before, strict=True)
    return [
        f"{'unchanged' if old == copy.data else 'wrote'} {printable(copy.path)}"
        for copy, old in pairs
    ]


def _bytes(path: str) -> bytes | None:
    """Return what a file holds, None if there is none.

    Raises:
        CommandError: There is something else: a folder, a pipe, a link to nothing.
    """
    if Path(path).is_file():
        return Path(path).read_bytes()
    if os.path.lexists(path):
        raise CommandError(f"{path} is there and is not a file; it is not replaced")
    return None


def _write(copy: Copy, folders: list[Path]) -> None:
    """Write a file; folders that are made for it are noted."""
    path = Path(copy.path)
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir()
        folders.append(folder)
    replace_file(copy.path, copy.data)
    if copy.is_executable:
        mode = path.stat().st_mode
        path.chmod(mode | (mode & 0o444) >> 2)  # for whoever may read it


def _take_back(done: list[tuple[Copy, bytes | None]], folders: list[Path]) -> None:
    """Leave things as they were, as far as that is possible."""
    for copy, old in done:
        with contextlib.suppress(OSError):
            if old is None:
                Path(copy.path).unlink(missing_ok=True)
            else:
                replace_file(copy.path, old)
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()
