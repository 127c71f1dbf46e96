"""The order of nodes that have different numbers of chips.

Which nodes fill which gap is then a puzzle without a fast solution. For a few nodes the
best order is found; for many, a good one.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

from ranktable.layout.change.every_order import MOST, cheapest_order
from ranktable.layout.change.inside import cost_inside, inside
from ranktable.layout.change.steady import steady_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ranktable.layout.change.assign import Chip, Place


def uneven_order(
    chips: Sequence[Chip],
    blocks: Sequence[Sequence[int]],
    places: Sequence[Place],
    known: Sequence[Sequence[int]] | None = None,
) -> list[Sequence[int]]:
    """Return the nodes that carry the ranks, in the order of these.

    Args:
        chips: The chips.
        blocks: The chips of every node.
        places: What every rank is to be.
        known: An order to do better than.
    """
    sizes = [len(block) for block in blocks]
    ranks = [
        sorted(rank for at in block if (rank := chips[at].rank) is not None)
        for block in blocks
    ]
    has_roles = any(place.role is not None for place in places)

    @cache
    def cost(at: int, start: int) -> int:
        if not has_roles:  # only numbers change, and these are soon counted
            own = range(start, start + sizes[at])
            return sum(rank not in own for rank in ranks[at])
        wanted = places[start : start + sizes[at]]
        carriers = inside(chips, blocks[at], wanted, start=start)
        return cost_inside(chips, carriers, wanted, start)

    if len(blocks) <= MOST:
        order = cheapest_order(sizes, cost, len(places))
    else:
        as_it_was = sorted(range(len(blocks)), key=lambda at: ranks[at] or [1 << 62])
        orders = [steady_order(sizes, ranks), as_it_was]
        if known is not None:
            by_chip = {block[0]: at for at, block in enumerate(blocks)}
            orders.append([by_chip[block[0]] for block in known])
        order = min(orders, key=lambda one: _total(one, sizes, cost, len(places)))
    return [blocks[at] for at in order[: _needed(order, sizes, len(places))]]


def _total(
    order: Sequence[int],
    sizes: Sequence[int],
    cost: Callable[[int, int], int],
    end: int,
) -> int:
    starts = accumulate((sizes[at] for at in order), initial=0)
    return sum(
        cost(at, start) for at, start in zip(order, starts, strict=False) if start < end
    )


def _needed(order: Sequence[int], sizes: Sequence[int], end: int) -> int:
    """Return how many of the nodes it takes for all ranks."""
    starts = accumulate((sizes[at] for at in order), initial=0)
    return sum(start < end for _, start in zip(order, starts, strict=False))
