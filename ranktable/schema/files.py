"""Read files with a size limit and a time limit, and explain why reading fails.

Every process that reads its table imports this module, so it imports little.
"""

from __future__ import annotations

import os
import re
import select
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import io
    from typing import Protocol

    class ByteStream(Protocol):
        """A stream that can be read in parts."""

        def read(self, size: int, /) -> bytes:
            """Return at most so many bytes, nothing at the end."""
            ...


DEFAULT_MAX_SIZE_BYTES = 256 * 1024 * 1024
"""Enough for a million ranks; a larger file is probably not a rank table."""

PIPE_WAIT_S = 30.0
"""How long a named pipe may have no data."""

_PART_BYTES = 1 << 24

_OPENED = re.compile(r"/dev/stdin|(?:/dev|/proc/self)/fd/([0-9]{1,7})")

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class UnreadableError(Exception):
    """A file could not be read.

    Attributes:
        code: The diagnostic code, RT0xx.
        message: What is wrong.
        hint: What to do, if that is certain.
    """

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        """Store the parts."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


def refuse_other_types(data: object) -> None:
    """Raise TypeError if data is neither the bytes nor the text of a file."""
    if not isinstance(data, (bytes, bytearray, str)):
        kind = type(data).__name__
        raise TypeError(f"expected the bytes or the text of a file, not {kind}")


def read_file(
    path: str,
    max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES,
    pipe_wait_s: float = PIPE_WAIT_S,
) -> bytes:
    """Return the bytes of a file or a pipe.

    Symbolic links are followed. ``/dev/stdin``, ``<(...)`` of a shell and a named pipe
    are read to their end. A named pipe to which nothing is written for
    ``pipe_wait_s`` is refused. A folder, a socket or a device is refused before it is
    opened.

    Raises:
        UnreadableError: It is missing, unreadable, too large, or not a file or a pipe.
    """
    try:
        opened = _OPENED.fullmatch(path)
        if opened is not None:
            with os.fdopen(os.dup(int(opened[1] or 0)), "rb", buffering=0) as stream:
                return read_stream(stream, max_size_bytes)
        _refuse_kind(os.stat(path).st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            # Between stat and open, another file may have got this name.
            status = os.fstat(descriptor)
            _refuse_kind(status.st_mode)
            if stat.S_ISFIFO(status.st_mode):
                return read_stream(_NamedPipe(file, pipe_wait_s), max_size_bytes)
            return _read(file, status.st_size, max_size_bytes)
    except (FileNotFoundError, NotADirectoryError):
        raise UnreadableError("RT001", _missing(path)) from None
    except ValueError:  # an embedded null byte
        raise UnreadableError("RT001", "no file can have this name") from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UnreadableError("RT002", f"the file cannot be read: {reason}") from None


def is_open_already(path: str) -> bool:
    """Whether a path is an open descriptor, as a shell passes it for ``<(...)``."""
    return _OPENED.fullmatch(path) is not None


def read_stream(
    stream: ByteStream, max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES
) -> bytes:
    """Return all bytes of a stream.

    Raises:
        UnreadableError: It has more bytes than the limit.
    """
    return _read(stream, 0, max_size_bytes)


def _read(file: ByteStream, expected_bytes: int, max_size_bytes: int) -> bytes:
    parts = []
    left = max_size_bytes + 1
    # Files of the kernel say 0 bytes, and give a number only to one read.
    if 0 < expected_bytes < left:
        # One byte more than expected, to see the end without a larger buffer.
        parts.append(file.read(expected_bytes + 1))
        left -= len(parts[0])
        if len(parts[0]) == expected_bytes:
            return parts[0]
    while left > 0:
        part = file.read(min(left, _PART_BYTES))
        if not part:
            return b"".join(parts)
        parts.append(part)
        left -= len(part)
    raise UnreadableError(
        "RT004",
        f"the file is larger than {max_size_bytes} bytes",
        "raise the limit with --max-size if this really is a rank table",
    )


class _NamedPipe:
    """A named pipe; its writer may be missing, or may have stopped writing."""

    def __init__(self, pipe: io.FileIO, timeout_s: float) -> None:
        self._pipe = pipe
        self._timeout_s = timeout_s
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)

    def read(self, size: int) -> bytes:
        """Return at most so many bytes; nothing at the end.

        Raises:
            UnreadableError: Nothing was written in time.
        """
        if self._poll.poll(1000 * self._timeout_s):
            return self._pipe.read(size) or b""
        waited = f" for {self._timeout_s:g} s" if self._timeout_s else ""
        raise UnreadableError(
            "RT003",
            f"nothing was written to this named pipe{waited}",
            "start the program that writes to it first, and let it end",
        )


def _missing(path: str) -> str:
    if os.path.islink(path):
        target = os.readlink(path)
        return f"the file is a link to {target!r}, which does not exist"
    return "the file does not exist"


def _refuse_kind(mode: int) -> None:
    for is_kind, name in _KINDS:
        if is_kind(mode):
            raise UnreadableError(
                "RT003",
                f"this is {name}, not a file",
                "name a file, or the pipe of a program that writes one",
            )


def lies_in(path: str, folder: str) -> bool:
    """Whether a file is in a folder, or below it, wherever links lead.

    A file that names another one must not make us read, and quote, any file of the
    machine: who sends the first one may be somebody else.
    """
    try:
        home = os.path.realpath(folder or ".")
        return os.path.commonpath([home, os.path.realpath(path)]) == home
    except ValueError:  # an embedded null byte
        return False
