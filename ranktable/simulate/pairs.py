"""What two ranks send and receive, compared before any of it is sent.

Gloo ends the process that receives more than it has room for, and says so to nobody.
Here each side writes down what it is about to do in a file of its own, and looks at
that of the other; whoever comes second sees both.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_RECORD_BYTES = 64


class Pairs:
    """What a member of a group sends to others, and receives from them."""

    def __init__(self, folder: Path, member: int) -> None:
        """Begin with nothing sent.

        Args:
            folder: The folder of the group.
            member: Which of its members this process is.
        """
        self._folder = folder
        self._member = member
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
        way = f"{self._member}-{peer}-{tag}"
        return self._note(f"send-{way}", f"receive-{way}", what)

    def receives(self, peer: int, tag: int, what: str) -> Callable[[], str | None]:
        """Note what is about to be received, as ``sends`` does the other way."""
        way = f"{peer}-{self._member}-{tag}"
        return self._note(f"receive-{way}", f"send-{way}", what)

    def _note(self, own: str, other: str, what: str) -> Callable[[], str | None]:
        place = self._counts.get(own, 0) * _RECORD_BYTES
        self._counts[own] = self._counts.get(own, 0) + 1
        record = what.encode()[:_RECORD_BYTES].ljust(_RECORD_BYTES)
        os.pwrite(self._file(own), record, place)

        def look() -> str | None:
            seen = os.pread(self._file(other), _RECORD_BYTES, place)
            return seen.decode().rstrip() or None

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
