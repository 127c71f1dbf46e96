"""Model to canonical bytes, and files that are replaced as a whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import time
from typing import TYPE_CHECKING

import msgspec

from ranktable._error import Error
from ranktable.schema.check import judge
from ranktable.schema.diagnostic import Location, RankTableError, Severity
from ranktable.schema.document import Document
from ranktable.schema.files import UnreadableError, read_file
from ranktable.schema.finding import Finding
from ranktable.schema.formats import by_name
from ranktable.schema.json_parser import parse
from ranktable.schema.options import Options
from ranktable.schema.quota import Quota
from ranktable.schema.rules import reading as rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ranktable.schema.format import Format
    from ranktable.schema.model import RankTable

# A key stands at the beginning of its line; a value may well begin with ": ".
_KEY = re.compile(rb'^ *"[^"\\]*(?:\\.[^"\\]*)*": ', re.MULTILINE)

IN_MEMORY = "<table>"
"""Name of a table that is in no file."""

INDENT = 4
"""Spaces a level, as the vendor's generator writes."""

LOCK_TIMEOUT_S = 10.0
"""How long to wait for a file that another program has locked."""

_LOCK_PAUSE_S = 0.005
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def dumps(table: RankTable, *, format: str | None = None) -> bytes:  # noqa: A002
    """Return a table as the bytes of a file, always the same for the same table.

    A table that was read is written as it was spelt: the same keys in the same order,
    strings or integers, unknown keys included. The layout is the generator's: four
    spaces a level and no blank after a colon.

    Args:
        table: The table.
        format: Name of the format; by default the one it was read from.

    Raises:
        RankTableError: The table is not sound, for example a rank appears twice.
        ValueError: There is no such format.
    """
    return dumps_judged(table, format=format)[0]


def dumps_judged(
    table: RankTable,
    *,
    format: str | None = None,  # noqa: A002 - as in dumps
    options: Options | None = None,
) -> tuple[bytes, list[Finding]]:
    """Return the bytes of ``dumps``, and what there is to note about the table.

    Args:
        table: The table.
        format: Name of the format; by default the one it was read from.
        options: What else is known of the hosts, as for a check.

    Raises:
        RankTableError: The table is not sound.
        ValueError: There is no such format.
    """
    target = by_name(format if format is not None else table.format)
    document = target.write(table)
    options = options or Options()
    found = judge_document(target, document, options, Quota(options.limit))
    _refuse_errors(found)
    data = encode(document)
    if _has_extra(table):
        _refuse_unreadable(data)
    return data, found


def _has_extra(table: RankTable) -> bool:
    return bool(table.extra) or any(
        node.extra or any(device.extra for device in node.devices)
        for node in table.nodes
    )


def _refuse_unreadable(data: bytes) -> None:
    """Raise RankTableError if unknown keys hold what no reader could read back."""
    parsed = parse(data.decode())
    _refuse_errors([parsed] if isinstance(parsed, Finding) else parsed[1])


def encode(document: object) -> bytes:
    """Return plain data in the generator's layout, with a newline at the end."""
    compact = msgspec.json.encode(document)
    pretty = msgspec.json.format(compact, indent=INDENT)
    # No value holds it, so that it stands behind keys only: a tenth of the time.
    if b'": ' not in compact:
        return pretty.replace(b'": ', b'":') + b"\n"
    # A function: re expands a template in Python, which takes twice the time.
    return _KEY.sub(_without_blank, pretty) + b"\n"


def _without_blank(key: re.Match[bytes]) -> bytes:
    return key[0][:-1]


def judge_document(
    format_: Format, document: dict[str, object], options: Options, quota: Quota
) -> list[Finding]:
    """Return what is wrong with the plain data of a table that is to be written."""
    with contextlib.suppress(UnicodeError, OverflowError):  # what no file can hold
        decoded = format_.decode(encode(document))
        if decoded is not None:
            decoded.quota = quota
            return list(judge(decoded, options))
    columns, found = format_.read(Document(text="", data=document), quota)
    return [*found, *judge(columns, options)]


def refuse_unsound(table: RankTable) -> None:
    """Raise RankTableError if a table, which may be made by hand, has an error."""
    format_ = by_name(table.format)
    document = Document(text="", data=format_.write(table))
    columns, found = format_.read(document, Quota())
    _refuse_errors([*found, *judge(columns, Options())])


def _refuse_errors(found: Iterable[Finding]) -> None:
    """Raise RankTableError if there is an error among the findings."""
    errors = [
        finding.diagnostic(
            Location(
                file=IN_MEMORY, pointer=finding.span.pointer if finding.span else None
            )
        )
        for finding in found
        if finding.rule.severity is Severity.ERROR
    ]
    if errors:
        raise RankTableError(errors)


def dump(
    table: RankTable,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - a fixed name
) -> None:
    """Write a table to a file, which holds the old or the new bytes at every moment.

    Args:
        table: The table.
        path: Path of the file; a symbolic link is followed.
        format: Name of the format; by default the one it was read from.

    Raises:
        RankTableError: The table is not sound, or the path is no regular file.
        OSError: The file cannot be written; nothing is left behind.
    """
    replace_file(path, dumps(table, format=format))


class FileChangedError(Error, RuntimeError):
    """A file that somebody changed between its reading and its replacement."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Name the file."""
        super().__init__(
            f"{os.fsdecode(path)} has changed since it was read; nothing was written; "
            "run the command again"
        )


def replace_file(
    path: str | os.PathLike[str], data: bytes, *, expected: bytes | None = None
) -> None:
    """Replace a file atomically: temporary file in its folder, fsync, rename.

    A new file gets the user's umask, an old one keeps its owner
    and its permissions.

    Args:
        path: Path of the file; a symbolic link is followed.
        data: The new content.
        expected: What the file has to hold still, as it was read; by default it is
            not compared. A file that holds the new content already is left alone.

    Raises:
        FileChangedError: The file holds something else than expected.
        RankTableError: The path is a directory, a pipe or a device.
        OSError: The file cannot be written; nothing is left behind.
    """
    target = os.path.realpath(path)
    with _temporary_beside(path, target, data, _status(target, path)) as temporary:
        if expected is None:
            os.replace(temporary, target)  # noqa: PTH105
            return
        # Whoever compares holds the lock until the new file has the name: of two who
        # have read the same, the second finds what the first has written.
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
        FileExistsError: There is one; of several who create it, one succeeds.
        RankTableError: The path is a directory, a pipe or a device.
        OSError: The file cannot be written; nothing is left behind.
    """
    target = os.path.realpath(path)
    if _status(target, path) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    with _temporary_beside(path, target, data, None) as temporary:
        try:
            os.link(temporary, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without links: the name is taken first
            os.close(os.open(target, _NEW_FILE, 0o666))
            os.replace(temporary, target)  # noqa: PTH105


def _status(target: str, path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return the status of a file, None if there is none."""
    try:
        status = os.stat(target)  # noqa: PTH116 - beside the calls below
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        finding = rules.NOT_A_REGULAR_FILE.finding(
            None, "this is not a regular file; it is not replaced"
        )
        raise RankTableError([finding.diagnostic(Location(file=os.fsdecode(path)))])
    return status


@contextlib.contextmanager
def _temporary_beside(
    path: str | os.PathLike[str], target: str, data: bytes, old: os.stat_result | None
) -> Iterator[str]:
    """Give a file with these bytes in the folder of the target, gone afterwards.

    Raises:
        OSError: It cannot be written; the error names the path, not this file.
    """
    folder = os.path.dirname(target)  # noqa: PTH120 - any name, no Path needed
    temporary = os.path.join(folder, f".ranktable.{secrets.token_hex(8)}.tmp")  # noqa: PTH118
    try:
        try:
            _write_new(temporary, data, old)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        yield temporary
    finally:
        with contextlib.suppress(OSError):  # it has the name of the target by now
            os.unlink(temporary)  # noqa: PTH108
    _sync_folder(folder)


def _write_new(path: str, data: bytes, old: os.stat_result | None) -> None:
    """Write a new file, with the owner and the permissions of an old one."""
    descriptor = os.open(path, _NEW_FILE, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        if old is not None:
            with contextlib.suppress(PermissionError):  # only root gives away
                os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
        file.write(data)
        file.flush()
        os.fsync(descriptor)


@contextlib.contextmanager
def _locked(target: str) -> Iterator[None]:
    """Hold the lock of a file, if it is there and its file system has locks."""
    descriptor = _lock(target)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(target: str) -> int | None:
    """Return the descriptor that holds the lock, None where there is no lock.

    Raises:
        TimeoutError: Another program keeps it.
    """
    deadline_s = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            descriptor = _opened(target)
        except OSError:
            return None  # gone or not to be opened: comparing it tells
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
        # The name may have been given to a new file while this waited for the old one.
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), os.stat(target)):  # noqa: PTH116
                return descriptor
        os.close(descriptor)


def _opened(target: str) -> int:
    """Open a file for its lock: NFS gives one only to those who may write."""
    try:
        return os.open(target, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except PermissionError:
        return os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)


def _holds(target: str, data: bytes) -> bool:
    try:
        return read_file(target, len(data)) == data
    except UnreadableError:
        return False


def _sync_folder(folder: str) -> None:
    """Make the rename survive a crash, where the file system lets folders be synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
