"""What two ranks send and receive, compared before any of it is sent.

Gloo ends the process that receives more than it has room for, and says so to nobody.
Here each side writes down what it is about to do in a file of its own, and looks at
that of the other; whoever comes second sees both. A file has a fixed number of places,
which are used again; a place says which transfer it is about.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_RECORD_BYTES = 64
_NUMBER_BYTES = 8
_PLACES = 1024
"""More than are on their way at a time: nobody sends so many without waiting."""


class Transfers:
    """What a member of a group sends to others, and receives from them."""

    def __init__(self, folder: Path, group_rank: int) -> None:
        """Begin with nothing sent.

        Args:
            folder: The folder of the group.
            group_rank: Which of its members this process is.
        """
        self._folder = folder
        self._group_rank = group_rank
        self._files: dict[str, int] = {}
        self._counts: dict[str, int] = {}

    def sends(self, peer: int, tag: int, what: str) -> Callable[[], str | None]:
        """Note what is about to be sent.

        Args:
            peer: The member that it is for.
            tag: Tells it from others that are on their way.
            what: What it is, in words.

        Returns:
            Returns what the peer is about to receive, None if it has not come yet.
        """
        way = f"{self._group_rank}-{peer}-{tag}"
        return self._note(f"send-{way}", f"receive-{way}", what)

    def receives(self, peer: int, tag: int, what: str) -> Callable[[], str | None]:
        """Note what is about to be received, as ``sends`` does the other way."""
        way = f"{peer}-{self._group_rank}-{tag}"
        return self._note(f"receive-{way}", f"send-{way}", what)

    def _note(self, own: str, other: str, what: str) -> Callable[[], str | None]:
        number = self._counts[own] = self._counts.get(own, 0) + 1
        place = number % _PLACES * _RECORD_BYTES
        record = number.to_bytes(_NUMBER_BYTES, "little") + what.encode()
        os.pwrite(self._file(own), record[:_RECORD_BYTES].ljust(_RECORD_BYTES), place)

        def look() -> str | None:
            seen = os.pread(self._file(other), _RECORD_BYTES, place)
            found = int.from_bytes(seen[:_NUMBER_BYTES], "little")
            if found > number:
                return what  # the other is so far ahead that it has taken this place
            return seen[_NUMBER_BYTES:].decode().rstrip() if found == number else None

        return look

    def _file(self, name: str) -> int:
        if name not in self._files:
            path = self._folder / name
            self._files[name] = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        return self._files[name]

    def close(self) -> None:
        """Close the files."""
        while self._files:
            os.close(self._files.popitem()[1])
