"""The assignment problem: one column for every row, at the lowest total cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_EXACT = 48
"""Rows up to which the result is exact; the time grows with their cube."""

_FAR = 1 << 62
"""More than any cost."""


def cheapest(costs: Sequence[Sequence[int]]) -> list[int]:
    """Return the column of every row; there are at least as many columns as rows.

    Up to ``MOST_EXACT`` rows the total is the lowest possible. Beyond that, each row
    takes the cheapest column that is left; the rows with the most to lose choose first.
    """
    if len(costs) > MOST_EXACT:
        return _greedy(costs)
    return _Exact(costs).found() if costs else []


def _greedy(costs: Sequence[Sequence[int]]) -> list[int]:
    found = [-1] * len(costs)
    left = dict.fromkeys(range(len(costs[0])))
    for row in sorted(range(len(costs)), key=lambda row: min(costs[row])):
        column = min(left, key=costs[row].__getitem__)
        found[row] = column
        del left[column]
    return found


class _Exact:
    """The Hungarian method, with one shortest path for each row.

    Source: H. W. Kuhn, The Hungarian method for the assignment problem, 1955, in the
    form of R. Jonker and A. Volgenant, 1987. Rows and columns are counted from 1, and 0
    stands for no column.
    """

    def __init__(self, costs: Sequence[Sequence[int]]) -> None:
        self.costs = costs
        self.width = len(costs[0]) + 1
        self.row_prices = [0] * (len(costs) + 1)
        self.prices = [0] * self.width
        self.owner = [0] * self.width

    def found(self) -> list[int]:
        for row in self._not_at_their_cheapest():
            self._add(row)
        columns = {owner: column for column, owner in enumerate(self.owner) if owner}
        return [columns[row] - 1 for row in range(1, len(self.costs) + 1)]

    def _not_at_their_cheapest(self) -> list[int]:
        """Give rows their cheapest columns, if one is left; return the other rows.

        Those with the fewest choices come first, so that most get one.
        """
        choices = {}
        for row, costs in enumerate(self.costs, 1):
            self.row_prices[row] = least = min(costs)
            choices[row] = [at for at, cost in enumerate(costs, 1) if cost == least]
        left = []
        for row in sorted(choices, key=lambda row: len(choices[row])):
            column = next((at for at in choices[row] if not self.owner[at]), None)
            if column is None:
                left.append(row)
            else:
                self.owner[column] = row
        return left

    def _add(self, row: int) -> None:
        """Give a row a column; rows before it may change theirs."""
        owner = self.owner
        owner[0] = row
        before = [0] * self.width
        slack = [_FAR] * self.width
        open_ = set(range(1, self.width))
        seen = [0]
        while owner[seen[-1]]:
            self._look(seen[-1], open_, slack, before)
            following = min(open_, key=slack.__getitem__)
            self._pay(slack[following], seen, open_, slack)
            open_.remove(following)
            seen.append(following)
        at = seen[-1]
        while at:
            owner[at] = owner[before[at]]
            at = before[at]

    def _look(
        self, at: int, open_: set[int], slack: list[int], before: list[int]
    ) -> None:
        row = self.owner[at]
        costs, price = self.costs[row - 1], self.row_prices[row]
        for column in open_:
            cost = costs[column - 1] - price - self.prices[column]
            if cost < slack[column]:
                slack[column], before[column] = cost, at

    def _pay(
        self, step: int, seen: list[int], open_: set[int], slack: list[int]
    ) -> None:
        for column in seen:
            self.row_prices[self.owner[column]] += step
            self.prices[column] -= step
        for column in open_:
            slack[column] -= step
