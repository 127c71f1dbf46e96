"""Write a table: to canonical bytes, and to a file that is replaced atomically."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import time
from typing import TYPE_CHECKING

import msgspec

from ranktable._error import Error
from ranktable.schema.check import WRAPPED, decode_any, judge
from ranktable.schema.config_map import new_config_map
from ranktable.schema.document import Document, Location
from ranktable.schema.files import UnreadableError, read_file
from ranktable.schema.finding import Finding, Findings, RankTableError, Severity
from ranktable.schema.formats import by_name
from ranktable.schema.json_parser import parse
from ranktable.schema.plain_data import plain_data
from ranktable.schema.reader import read_document
from ranktable.schema.report import Options
from ranktable.schema.rules.ranks import NOT_FROM_ZERO, RANK_GAP, WRONG_LOCAL_RANK
from ranktable.schema.rules.syntax import LONE_SURROGATE, NOT_A_REGULAR_FILE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ranktable.schema.declare import Format
    from ranktable.schema.model import RankTable

# A key is at the beginning of its line; a value may also begin with ": ".
_KEY = re.compile(rb'^ *"[^"\\]*(?:\\.[^"\\]*)*": ', re.MULTILINE)

OF_GAPS = (RANK_GAP.code, NOT_FROM_ZERO.code, WRONG_LOCAL_RANK.code)
"""Errors of a table in which ranks are missing."""

IN_MEMORY = "<table>"
"""Name of a table that is not in a file."""

INDENT = 4
"""Spaces for each level, as in the files of the vendor's generator."""

LOCK_TIMEOUT_S = 10.0
"""Seconds to wait for a file that another program has locked."""

_LOCK_PAUSE_S = 0.005
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def dumps(table: RankTable, *, format: str | None = None) -> bytes:
    """Return the bytes of a table's file; equal tables give equal bytes.

    A table that was read is written in the same form: the same keys in the same order,
    strings or integers, with unknown keys. The layout is that of the vendor's
    generator: four spaces for each level, and no blank after a colon.

    Args:
        table: The table.
        format: Name of the format; by default the one it was read from.

    Raises:
        RankTableError: The table is not sound, for example a rank occurs twice.
        ValueError: There is no such format.
    """
    if format == WRAPPED:
        return new_config_map(dumps(table), table.format)
    target = None if format is None else by_name(format)
    return dumps_judged(table, target)[0]


def dumps_judged(
    table: RankTable,
    target: Format | None = None,
    *,
    options: Options | None = None,
    may_have_gaps: bool = False,
) -> tuple[bytes, list[Finding]]:
    """Return the bytes of ``dumps``, and the notes about the table.

    Args:
        table: The table.
        target: The format; by default the one it was read from.
        options: Facts about the hosts, as for a check.
        may_have_gaps: Whether ranks may be missing.

    Raises:
        RankTableError: The table is not sound.
        ValueError: The table is of a format that does not exist.
    """
    target = target or by_name(table.format)
    data, found = judged_document(
        target, plain_data(table, target), options or Options()
    )
    _refuse_errors(found, OF_GAPS if may_have_gaps else ())
    return data, found.kept


def judged_document(
    format_: Format, document: dict[str, object], options: Options
) -> tuple[bytes, Findings]:
    """Return the bytes of plain data, and what is wrong with these bytes."""
    found = Findings(limit=options.limit)
    try:
        data = encode(document)
    except UnicodeError:
        message = "a text of the table has half of a surrogate pair"
        return b"", Findings([LONE_SURROGATE.finding(None, message)])
    columns = decode_any(data, format_)
    if columns is None:
        parsed = parse(data.decode(), options.limit)
        if isinstance(parsed, Finding):
            return data, Findings([parsed])
        found.extend(parsed[1])
        read = Document(text=data.decode(), data=parsed[0])
        columns = read_document(format_, read, found)
    judge(columns, options, found)
    return data, found


def refuse_unsound(table: RankTable) -> None:
    """Raise RankTableError if a table has an error; a script may have made it."""
    dumps_judged(table)


def encode(document: object) -> bytes:
    """Return plain data in the generator's layout, with a newline at the end."""
    compact = msgspec.json.encode(document)
    pretty = msgspec.json.format(compact, indent=INDENT)
    # No value contains it, so it is only after keys: ten times faster.
    if b'": ' not in compact:
        return pretty.replace(b'": ', b'":') + b"\n"
    # A function is twice as fast as a template, which re expands in Python.
    return _KEY.sub(_without_blank, pretty) + b"\n"


def _without_blank(key: re.Match[bytes]) -> bytes:
    return key[0][:-1]


def _refuse_errors(found: Findings, but: Collection[str] = ()) -> None:
    """Raise RankTableError if one of the findings is an error.

    Args:
        found: The findings.
        but: Codes of errors that do not matter.
    """
    errors = [
        finding.diagnostic(
            Location(
                file=IN_MEMORY, pointer=finding.span.pointer if finding.span else None
            )
        )
        for finding in found.kept
        if finding.severity is Severity.ERROR and finding.rule.code not in but
    ]
    if errors:
        raise RankTableError(errors)


def dump(
    table: RankTable,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
) -> None:
    """Write a table to a file, which has the old or the new bytes at every moment.

    Args:
        table: The table.
        path: Path of the file; a symbolic link is followed.
        format: Name of the format; by default the one it was read from.

    Raises:
        RankTableError: The table is not sound, or the path is not a regular file.
        OSError: The file cannot be written; no temporary file is left.
    """
    replace_file(path, dumps(table, format=format))


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
            os.replace(temporary, target)
            return
        # The lock is held from the comparison until the rename. So if two programs have
        # read the same content, the second one sees what the first one has written.
        with _locked(target):
            if _holds(target, expected):
                os.replace(temporary, target)
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
            os.replace(temporary, target)


def _write_to_device(target: str, path: str | os.PathLike[str], data: bytes) -> bool:
    """Write to a character device, such as /dev/null; return whether it is one.

    Raises:
        OSError: It does not take the bytes; the error names the path.
    """
    try:
        if not stat.S_ISCHR(os.stat(target).st_mode):
            return False
        with open(target, "wb") as device:
            device.write(data)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    return True


def _status(target: str, path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return the status of a file, None if there is none."""
    try:
        status = os.stat(target)
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
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".ranktable.{os.urandom(8).hex()}.tmp")
    try:
        try:
            _write_new(temporary, data, old)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        yield temporary
    finally:
        with contextlib.suppress(OSError):  # it may already have the name of the target
            os.unlink(temporary)
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
            if os.path.samestat(os.fstat(descriptor), os.stat(target)):
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
    from concurrent.futures import ThreadPoolExecutor

    target = os.path.realpath(path)
    parent = os.path.dirname(target)
    temporary = os.path.join(parent, f".ranktable.{os.urandom(8).hex()}.tmp")
    try:
        os.mkdir(temporary)

        def write(file: tuple[str, bytes]) -> None:
            _write_new(os.path.join(temporary, file[0]), file[1], None)

        # A disk can sync many files at once: this takes an eighth of the time of
        # syncing one after the other.
        with ThreadPoolExecutor(_SYNCS_AT_ONCE) as pool:
            list(pool.map(write, files))
        _sync_folder(temporary)
        os.rename(temporary, target)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, path) from None
        raise
    _sync_folder(parent)


def _sync_folder(path: str) -> None:
    """Make the names in a folder survive a crash, if the file system allows this."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
