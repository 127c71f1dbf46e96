"""The cheapest order of a few things, where the place of each follows from the others.

What comes before a thing decides where it starts, in whatever order it comes. So the
best way to go on is looked for once for every set of things, not for every order.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST = 10
"""Things up to which every set is looked at: 1,024 of them."""


def cheapest_order(
    sizes: Sequence[int], cost: Callable[[int, int], int], end: int
) -> list[int]:
    """Return the order in which things cost the least.

    Args:
        sizes: The size of each.
        cost: What a thing costs at a start.
        end: Where it ends to matter what comes.
    """
    count = len(sizes)

    @cache
    def best(used: int, start: int) -> tuple[int, int]:
        """Return the least cost of what follows, and what comes next."""
        if start >= end:
            return 0, -1
        return min(
            (
                (cost(at, start) + best(used | 1 << at, start + sizes[at])[0], at)
                for at in range(count)
                if not used >> at & 1
            ),
            default=(0, -1),
        )

    order: list[int] = []
    used = start = 0
    while (following := best(used, start)[1]) >= 0:
        order.append(following)
        used |= 1 << following
        start += sizes[following]
    return order
