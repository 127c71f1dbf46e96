"""Read the files and folders of a job: logs, also packed ones, and reports."""

from __future__ import annotations

import gzip
import os
import sys
from typing import TYPE_CHECKING, BinaryIO

from ranktable.doctor.flight_recorder import MAX_BYTES, is_dump, read_dump
from ranktable.doctor.lines import Log, read_log
from ranktable.doctor.reports import report_log
from ranktable.doctor.status_texts import HEAD_BYTES, is_status, status_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    OnFile = Callable[[str], None]

MAX_REPORT_BYTES = 16 << 20


def read_logs(paths: Iterable[str], on_file: OnFile | None = None) -> Iterator[Log]:
    """Yield every log of files, folders and ``-``, in the order of their names.

    Folders are read whole; links in them that lead out of them are not followed.
    """
    for path in paths:
        if path == "-":
            yield read_log(sys.stdin.buffer, "-")
            continue
        for name in log_files(path):
            if on_file is not None:
                on_file(name)
            yield _read_file(name)


def log_files(path: str) -> Iterator[str]:
    """Yield the files below a path, or the path itself."""
    if not os.path.isdir(path):
        yield path
        return
    home = os.path.realpath(path)
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            file = os.path.join(folder, name)
            inside = os.path.realpath(file).startswith(home + os.sep)
            if inside and os.path.isfile(file):
                yield file


def _read_file(name: str) -> Log:
    try:
        if not os.path.isfile(name):
            os.stat(name)
            return Log(file=name, problem="it is not a regular file")
        with open(name, "rb") as stream:
            if stream.read(2) == b"\x1f\x8b":
                with gzip.open(name) as unpacked:
                    return read_log(unpacked, name)  # type: ignore[arg-type]
            stream.seek(0)
            start, size = stream.read(2), os.path.getsize(name)
            known = _read_state(stream, start, name, size)
            if known is not None:
                return known
            stream.seek(0)
            return read_log(stream, name)
    except OSError as error:
        return Log(file=name, problem=error.strerror or str(error))


def _read_state(stream: BinaryIO, start: bytes, name: str, size: int) -> Log | None:
    """Return what a dump or report says, None if it is a log."""
    if is_dump(start) and size < MAX_BYTES:
        return read_dump(start + stream.read(), name)
    if size >= MAX_REPORT_BYTES:
        return None
    if start[:1] == b"{":
        data = start + stream.read()
        return report_log(data, name) or read_dump(data, name)
    head = start + stream.read(HEAD_BYTES)
    return status_log(head + stream.read(), name) if is_status(head) else None
