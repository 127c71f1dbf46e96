"""A folder of files that comes into being as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def create_folder(path: str, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files into a new folder, which is named when the last one is complete.

    Args:
        path: The folder; an empty one may be there.
        files: Name and content of every file.

    Raises:
        OSError: It cannot be written, or the folder holds something by now; nothing
            is left behind.
    """
    target = os.path.realpath(path)
    parent = os.path.dirname(target)  # noqa: PTH120 - any name, no Path needed
    temporary = os.path.join(parent, f".ranktable.{secrets.token_hex(8)}.tmp")  # noqa: PTH118
    os.mkdir(temporary)  # noqa: PTH102
    try:
        for name, data in files:
            _write(os.path.join(temporary, name), data)  # noqa: PTH118
        _sync(temporary)
        os.rename(temporary, target)  # noqa: PTH104 - over an empty folder, or none
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync(parent)


def _write(path: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: str) -> None:
    """Make what is in a folder survive a crash, where the file system lets that be."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
