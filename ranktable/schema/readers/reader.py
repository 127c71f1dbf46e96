"""The interface of a reader of rank tables, and its result for one file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_TEXT_LENGTH = 400
"""Most characters of one outcome; a node of 64 chips fits."""


class Reader(Protocol):
    """Returns the result of a library for any bytes; never raises."""

    @property
    def name(self) -> str:
        """Name of the reader, for programs."""

    @property
    def title(self) -> str:
        """A name for people."""

    def outcomes(self, data: bytes, ranks: Sequence[int]) -> list[str]:
        """Return what the process of each rank gets, in one pass over the file.

        Args:
            data: Bytes of the file.
            ranks: Global ranks of the processes.

        Returns:
            One text for each rank, in the same order: a result or the exception.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderResult:
    """The result of one reader for one file.

    Attributes:
        reader: Name of the reader.
        title: A name for people.
        outcomes: Pairs of a rank and the result of its process, in the given order.
    """

    reader: str
    title: str
    outcomes: tuple[tuple[int, str], ...]


def indexed(chip_map: list[int], rank: int) -> str:
    """Return a chip_map and what a script gets from ``chip_map[rank]``.

    The manual's script uses the global rank as index, whether the list has the chips
    of the job or of one node.

    >>> indexed([4, 5], 1)
    '[4, 5]; chip_map[1] is 5'
    """
    try:
        chip = shortened(str(chip_map[rank]))
    except IndexError as error:
        return f"{listed(chip_map)}; chip_map[{rank}] raises {raised(error)}"
    return f"{listed(chip_map)}; chip_map[{rank}] is {chip}"


def listed(chips: list[int]) -> str:
    """Return a list of chips as Python prints it, the first part of a long one."""
    # A chip takes at least one character, so more chips than this would be cut anyway.
    return shortened(str(chips[: MAX_TEXT_LENGTH + 1]))


def shortened(text: str) -> str:
    """Return text, cut to about ``MAX_TEXT_LENGTH`` characters."""
    return text if len(text) <= MAX_TEXT_LENGTH else text[:MAX_TEXT_LENGTH] + "..."


def raised(error: Exception) -> str:
    """Return the last line of the traceback of an exception.

    >>> raised(KeyError("world_rank")), raised(AssertionError())
    ("KeyError: 'world_rank'", 'AssertionError')
    """
    text, name = str(error), type(error).__name__
    return shortened(f"{name}: {text}" if text else name)
