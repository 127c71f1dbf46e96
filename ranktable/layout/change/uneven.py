"""The order of nodes that have different numbers of chips.

Which nodes fill which gap is then a puzzle without a fast solution. Few nodes are tried
in every order; of many, the last fill the gaps that have their size, and the rest keep
their order.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from ranktable.layout.change.inside import cost_inside, inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.layout.change.assign import Chip, Place

MOST_TRIED = 6
"""Nodes up to which every order is tried: 720 of them."""


def uneven_order(
    chips: Sequence[Chip], blocks: Sequence[Sequence[int]], places: Sequence[Place]
) -> list[Sequence[int]]:
    """Return the nodes that carry the ranks, in the order of these.

    Args:
        chips: The chips.
        blocks: The chips of every node.
        places: What every rank is to be.
    """
    orders: Iterable[Sequence[Sequence[int]]] = [_filled(chips, blocks)]
    if len(blocks) <= MOST_TRIED:
        orders = (*orders, *permutations(blocks))
    known: dict[tuple[int, int], int] = {}

    def cost(order: Sequence[Sequence[int]]) -> int:
        total = start = 0
        for block in order[: _needed(order, len(places))]:
            key = (block[0], start)
            if key not in known:
                wanted = places[start : start + len(block)]
                carriers = inside(chips, block, wanted, start=start)
                known[key] = cost_inside(chips, carriers, wanted, start)
            total += known[key]
            start += len(block)
        return total

    best = min(orders, key=cost)
    return list(best[: _needed(best, len(places))])


def _filled(
    chips: Sequence[Chip], blocks: Sequence[Sequence[int]]
) -> list[Sequence[int]]:
    """Return the nodes with the last ones in the gaps that they fill exactly.

    Other gaps are closed.
    """
    known = [block for block in blocks if chips[block[0]].rank is not None]
    known.sort(key=lambda block: min(chips[index].rank or 0 for index in block))
    new = [block for block in blocks if chips[block[0]].rank is None]
    order: list[Sequence[int]] = []
    end = 0
    while known:
        first = min(chips[index].rank or 0 for index in known[0])
        gap = first - end
        candidate = new[0] if new and len(new[0]) == gap else known[-1]
        if gap > 0 and len(candidate) == gap:
            (new if candidate in new else known).remove(candidate)
            order.append(candidate)
        else:
            candidate = known.pop(0)
            order.append(candidate)
            end = max(end, first)
        end += len(candidate)
    order += new
    return order


def _needed(order: Sequence[Sequence[int]], world_size: int) -> int:
    """Return how many of the nodes it takes for all ranks."""
    total = 0
    for count, block in enumerate(order):
        if total >= world_size:
            return count
        total += len(block)
    return len(order)
