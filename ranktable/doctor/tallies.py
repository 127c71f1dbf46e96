"""How many lines stand below another one, by who says them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Numbers = Mapping[int | None, Sequence[int]]
    """The numbers of lines of one log in order, by the ranks that say them."""


class Tally:
    """The steps that each rank tells in one log, and those below a line.

    Attributes:
        speakers: The ranks that tell any, None for those that are not known.
    """

    def __init__(self, *said: tuple[Numbers, int]) -> None:
        """Count the lines, each kind as so many steps."""
        self._said = said
        self.speakers = {rank for numbers, _ in said for rank in numbers}
        lines = sorted(
            (line, rank, steps)
            for numbers, steps in said
            for rank, own in numbers.items() if rank is not None for line in own
        )  # fmt: skip
        self._lines = [line for line, _, _ in lines]
        told = dict.fromkeys(self.speakers - {None}, 0)
        ranks_with = Counter(told.values())
        bounds = [(0, 0)]
        for _, rank, steps in reversed(lines):
            least, most = bounds[-1]
            ranks_with[told[rank]] -= 1
            told[rank] += steps
            ranks_with[told[rank]] += 1
            while not ranks_with[least]:
                least += 1
            bounds.append((least, max(most, told[rank])))
        self._bounds = bounds[::-1]

    def below(self, line: int) -> tuple[int, int]:
        """Return the fewest and the most steps of a known rank below a line."""
        return self._bounds[bisect_right(self._lines, line)]

    def of(self, rank: int | None, line: int) -> int:
        """Return how many steps a rank tells below a line."""
        return sum(steps * number_below(numbers.get(rank, ()), line)
                   for numbers, steps in self._said)  # fmt: skip


def number_below(lines: Sequence[int], line: int) -> int:
    """Return how many of some lines stand below one."""
    return len(lines) - bisect_right(lines, line)
