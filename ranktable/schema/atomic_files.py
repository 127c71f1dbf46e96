"""Files and folders that are written completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import time
from typing import TYPE_CHECKING

from ranktable._error import Error
from ranktable.schema.diagnostic import Location, RankTableError
from ranktable.schema.files import UnreadableError, read_file
from ranktable.schema.rules.syntax import NOT_A_REGULAR_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LOCK_TIMEOUT_S = 10.0
"""Seconds to wait for a file that another program has locked."""

_LOCK_PAUSE_S = 0.005
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class FileChangedError(Error, RuntimeError):
    """A file was changed after it was read and before it was replaced."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Make the message for a file."""
        super().__init__(
            f"{os.fsdecode(path)} has changed since it was read; nothing was written; "
            "run the command again"
        )


def replace_file(
    path: str | os.PathLike[str], data: bytes, *, expected: bytes | None = None
) -> None:
    """Replace a file atomically: temporary file in its folder, fsync, rename.

    A new file gets its permissions from the umask; an existing file keeps its owner and
    its permissions.

    Args:
        path: Path of the file; a symbolic link is followed.
        data: The new content.
        expected: The content that the file must still have, as it was read; None to
            skip this check. A file that already has the new content is not written.

    Raises:
        FileChangedError: The file has another content than expected.
        RankTableError: The path is a directory or a pipe.
        OSError: The file cannot be written; no temporary file is left.
    """
    target = os.path.realpath(path)
    if _write_to_device(target, path, data):
        return
    with _temporary_beside(path, target, data, _status(target, path)) as temporary:
        if expected is None:
            os.replace(temporary, target)  # noqa: PTH105
            return
        # The lock is held from the comparison until the rename. So if two programs have
        # read the same content, the second one sees what the first one has written.
        with _locked(target):
            if _holds(target, expected):
                os.replace(temporary, target)  # noqa: PTH105
            elif not _holds(target, data):
                raise FileChangedError(path)


def create_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a new file, which has all of its bytes from the beginning.

    Args:
        path: Path of the file; a symbolic link is followed.
        data: Its content.

    Raises:
        FileExistsError: The file exists; of several calls at once, one succeeds.
        RankTableError: The path is a directory or a pipe.
        OSError: The file cannot be written; no temporary file is left.
    """
    target = os.path.realpath(path)
    if _write_to_device(target, path, data):
        return
    if _status(target, path) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    with _temporary_beside(path, target, data, None) as temporary:
        try:
            os.link(temporary, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links: create the name first
            os.close(os.open(target, _NEW_FILE, 0o666))
            os.replace(temporary, target)  # noqa: PTH105


def _write_to_device(target: str, path: str | os.PathLike[str], data: bytes) -> bool:
    """Write to a character device, such as /dev/null; return whether it is one.

    Raises:
        OSError: It does not take the bytes; the error names the path.
    """
    try:
        if not stat.S_ISCHR(os.stat(target).st_mode):  # noqa: PTH116 - any name
            return False
        with open(target, "wb") as device:  # noqa: PTH123
            device.write(data)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    return True


def _status(target: str, path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return the status of a file, None if there is none."""
    try:
        status = os.stat(target)  # noqa: PTH116 - beside the calls below
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        finding = NOT_A_REGULAR_FILE.finding(
            None, "this is not a regular file; it is not replaced"
        )
        raise RankTableError([finding.diagnostic(Location(file=os.fsdecode(path)))])
    return status


@contextlib.contextmanager
def _temporary_beside(
    path: str | os.PathLike[str], target: str, data: bytes, old: os.stat_result | None
) -> Iterator[str]:
    """Yield a temporary file with these bytes in the folder of the target.

    Raises:
        OSError: It cannot be written; the error names the path, not this file.
    """
    folder = os.path.dirname(target)  # noqa: PTH120 - any name, no Path needed
    temporary = os.path.join(folder, f".ranktable.{os.urandom(8).hex()}.tmp")  # noqa: PTH118
    try:
        try:
            _write_new(temporary, data, old)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        yield temporary
    finally:
        with contextlib.suppress(OSError):  # it may already have the name of the target
            os.unlink(temporary)  # noqa: PTH108
    _sync_folder(folder)


def _write_new(path: str, data: bytes, old: os.stat_result | None) -> None:
    """Write a new file, with the owner and the permissions of an old one."""
    descriptor = os.open(path, _NEW_FILE, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        if old is not None:
            with contextlib.suppress(PermissionError):  # only root can change the owner
                os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
        file.write(data)
        file.flush()
        os.fsync(descriptor)


@contextlib.contextmanager
def _locked(target: str) -> Iterator[None]:
    """Hold the lock of a file, if the file exists and its file system has locks."""
    descriptor = _lock(target)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(target: str) -> int | None:
    """Return the descriptor that holds the lock, None if there is no lock.

    Raises:
        TimeoutError: Another program holds it for more than ``LOCK_TIMEOUT_S``.
    """
    deadline_s = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            descriptor = _opened(target)
        except OSError:
            return None  # missing or not readable: the comparison finds out
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() > deadline_s:
                reason = "another program keeps the file locked"
                raise TimeoutError(errno.ETIMEDOUT, reason, target) from None
            time.sleep(_LOCK_PAUSE_S)
            continue
        except OSError:
            os.close(descriptor)
            return None
        # While this waited, another file may have replaced the locked one.
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), os.stat(target)):  # noqa: PTH116
                return descriptor
        os.close(descriptor)


def _opened(target: str) -> int:
    """Open a file for its lock; NFS locks only files that are open for writing."""
    try:
        return os.open(target, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except PermissionError:
        return os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)


def _holds(target: str, data: bytes) -> bool:
    try:
        return read_file(target, len(data)) == data
    except UnreadableError:
        return False


_SYNCS_AT_ONCE = 32


def create_folder(path: str, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files into a new folder, which gets its name when all are complete.

    Args:
        path: The folder; it may exist if it is empty.
        files: Name and content of every file.

    Raises:
        OSError: It cannot be written, or the folder is not empty any more; no
            temporary file is left. The error names the folder, not these files.
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - 10 ms

    target = os.path.realpath(path)
    parent = os.path.dirname(target)  # noqa: PTH120 - any name, no Path needed
    temporary = os.path.join(parent, f".ranktable.{os.urandom(8).hex()}.tmp")  # noqa: PTH118
    try:
        os.mkdir(temporary)  # noqa: PTH102
        paths = [
            _write(os.path.join(temporary, name), data)  # noqa: PTH118
            for name, data in files
        ]
        # A disk can sync many files at once: this takes an eighth of the time of
        # syncing one after the other.
        with ThreadPoolExecutor(_SYNCS_AT_ONCE) as pool:
            parts = (paths[at::_SYNCS_AT_ONCE] for at in range(_SYNCS_AT_ONCE))
            list(pool.map(_sync_all, parts))
        _sync_folder(temporary)
        os.rename(temporary, target)  # noqa: PTH104 - over an empty folder, or none
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, path) from None
        raise
    _sync_folder(parent)


def _write(path: str, data: bytes) -> str:
    with os.fdopen(os.open(path, _NEW_FILE, 0o666), "wb") as file:
        file.write(data)
    return path


def _sync_all(paths: Iterable[str]) -> None:
    for path in paths:
        _sync(path)


def _sync(path: str) -> None:
    """Flush a written file to the disk, so that it survives a crash."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: str) -> None:
    """Make the names in a folder survive a crash, if the file system allows this."""
    with contextlib.suppress(OSError):
        _sync(path)
