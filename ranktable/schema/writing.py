"""Model to canonical bytes, and files that are replaced as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from typing import TYPE_CHECKING

import msgspec

from ranktable.schema.check import judge
from ranktable.schema.diagnostic import Location, RankTableError, Severity
from ranktable.schema.document import Document
from ranktable.schema.finding import Finding
from ranktable.schema.formats import by_name
from ranktable.schema.json_parser import parse
from ranktable.schema.options import Options
from ranktable.schema.quota import Quota
from ranktable.schema.rules import reading as rules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.schema.format import Format
    from ranktable.schema.model import RankTable

# A key stands at the beginning of its line; a value may well begin with ": ".
_KEY = re.compile(rb'^ *"[^"\\]*(?:\\.[^"\\]*)*": ', re.MULTILINE)

IN_MEMORY = "<table>"
"""Name of a table that is in no file."""

INDENT = 4
"""Spaces a level, as the vendor's generator writes."""


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
    document = format_.write(table)
    _refuse_errors(judge_document(format_, document, Options(), Quota()))


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


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace a file atomically: temporary file in its folder, fsync, rename.

    A new file gets the user's umask, an old one keeps its owner
    and its permissions.

    Raises:
        RankTableError: The path is a directory, a pipe or a device.
        OSError: The file cannot be written; nothing is left behind.
    """
    target = os.path.realpath(path)
    old: os.stat_result | None = None
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(target)  # noqa: PTH116 - beside the calls below
        if not stat.S_ISREG(status.st_mode):
            finding = rules.NOT_A_REGULAR_FILE.finding(
                None, "this is not a regular file; it is not replaced"
            )
            raise RankTableError([finding.diagnostic(Location(file=os.fsdecode(path)))])
        old = status
    folder = os.path.dirname(target)  # noqa: PTH120 - any name, no Path needed
    temporary = os.path.join(folder, f".ranktable.{secrets.token_hex(8)}.tmp")  # noqa: PTH118
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if old is not None:
                with contextlib.suppress(PermissionError):  # only root gives away
                    os.fchown(descriptor, old.st_uid, old.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, target)  # noqa: PTH105
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    """Make the rename survive a crash, where the file system lets folders be synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
