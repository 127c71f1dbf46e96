"""A file of numbered texts, in which the ranks of a group read each other's.

All ranks of a simulated run are processes of this machine.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from pathlib import Path

_CHECKSUM_BYTES = 4
_NUMBER_BYTES = 8


class Records:
    """A file with places of the same size, each with a number and a text.

    The number of a place without a text is 0. So is that of a place that is just being
    written, because its checksum is wrong.
    """

    def __init__(self, path: Path, size_bytes: int) -> None:
        """Open the file; the first process creates it.

        Args:
            path: The file.
            size_bytes: Size of a place; of the text 12 bytes less, the rest is cut off.
        """
        self._size_bytes = size_bytes
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        weakref.finalize(self, os.close, self._file).atexit = False

    def write(self, place: int, number: int, text: str = "") -> None:
        """Write a number that is not 0, and a text."""
        content = number.to_bytes(_NUMBER_BYTES, "little") + text.encode()
        size_bytes = self._size_bytes - _CHECKSUM_BYTES
        content = content[:size_bytes].ljust(size_bytes, b"\0")
        checksum = crc32(content).to_bytes(_CHECKSUM_BYTES, "little")
        try:
            os.pwrite(self._file, checksum + content, place * self._size_bytes)
        except OSError as error:  # without the name of the file
            raise OSError(error.errno, error.strerror, str(self._path)) from error

    def read(self, place: int, count: int = 1) -> list[tuple[int, str]]:
        """Return the numbers and texts of consecutive places."""
        size_bytes = self._size_bytes
        data = os.pread(self._file, count * size_bytes, place * size_bytes)
        return [
            _decoded(data[begin : begin + size_bytes])
            for begin in range(0, count * size_bytes, size_bytes)
        ]


def _decoded(record: bytes) -> tuple[int, str]:
    content = record[_CHECKSUM_BYTES:]
    if crc32(content) != int.from_bytes(record[:_CHECKSUM_BYTES], "little"):
        return 0, ""
    text = content[_NUMBER_BYTES:].rstrip(b"\0").decode(errors="replace")
    return int.from_bytes(content[:_NUMBER_BYTES], "little"), text
