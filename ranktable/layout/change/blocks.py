"""Ranks for whole nodes: those of a node are consecutive, as every reader wants them.

Where moving single chips would tear the ranks of a node apart, whole nodes move. What a
node holds is then the roles of all its chips, in whatever order: its chips may change
places among themselves.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ranktable.layout.change.assign import Chip, Place, assign
from ranktable.layout.change.cheapest import cheapest
from ranktable.layout.change.inside import ELSEWHERE, ROLE_WEIGHT, inside
from ranktable.layout.change.uneven import uneven_order

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


def assign_consecutive(
    chips: Sequence[Chip],
    nodes: Sequence[int],
    places: Sequence[Place],
    *,
    is_free: bool,
) -> list[int]:
    """Return the index of the chip of every rank; the ranks of a node are consecutive.

    Args:
        chips: The chips, node by node; those that are new come last.
        nodes: The node of every chip.
        places: What every rank is to be.
        is_free: Whether the ranks of a node may be anywhere all the same.
    """
    carriers = assign(chips, places)
    if is_free or are_consecutive(carriers, nodes):
        return carriers
    members: dict[int, list[int]] = {}
    for index, node in enumerate(nodes):
        members.setdefault(node, []).append(index)
    blocks = list(members.values())
    order = None
    if len({len(block) for block in blocks}) == 1:
        order = _even(chips, blocks, places)
    if order is None or not _are_aligned(chips, blocks):
        order = uneven_order(chips, blocks, places, order)
    found: list[int] = []
    for block in order:
        wanted = places[len(found) : len(found) + len(block)]
        found += inside(chips, block, wanted, start=len(found))
    return found


def are_consecutive(carriers: Sequence[int], nodes: Sequence[int]) -> bool:
    """Whether no node is left and come back to."""
    seen = set()
    last = None
    for index in carriers:
        node = nodes[index]
        if node != last:
            if node in seen:
                return False
            seen.add(node)
            last = node
    return True


def _are_aligned(chips: Sequence[Chip], blocks: Sequence[Sequence[int]]) -> bool:
    """Whether each node holds every so many ranks: no loss has brought it to its size.

    A node that comes whole may begin anywhere too, after one of another size.
    """
    size = len(blocks[0])
    held = (
        [rank // size for at in block if (rank := chips[at].rank) is not None]
        for block in blocks
    )
    return all(len(set(one)) == 1 for one in held if one)


def _even(
    chips: Sequence[Chip], blocks: Sequence[Sequence[int]], places: Sequence[Place]
) -> list[Sequence[int]]:
    """Return the nodes in their new order; all have as many chips."""
    size = len(blocks[0])
    starts = range(0, len(places), size)
    wanted = [places[start : start + size] for start in starts]
    held = [_held(chips, block) for block in blocks]
    units = [
        Chip(
            rank=_number(chips, block, size),
            role=None if held[at] is None else _key(held[at]),
            copy=chips[block[0]].copy,
        )
        for at, block in enumerate(blocks)
    ]
    needed = [Counter(place.role for place in block) for block in wanted]
    spots = [
        Place(role=_key(roles), copy=block[0].copy)
        for roles, block in zip(needed, wanted, strict=True)
    ]
    order = assign(units, spots)
    odd = [
        spot for spot, unit in enumerate(order) if units[unit].role != spots[spot].role
    ]
    free = sorted({*range(len(units))} - set(order) | {order[spot] for spot in odd})
    costs = [
        [
            _cost(needed[spot], held[unit], is_same=units[unit].rank == spot)
            for unit in free
        ]
        for spot in odd
    ]
    for spot, column in zip(odd, cheapest(costs) if odd else (), strict=True):
        order[spot] = free[column]
    return [blocks[unit] for unit in order]


def _held(chips: Sequence[Chip], block: Sequence[int]) -> Counter[Hashable] | None:
    """Return the roles of a node, None for one that is new."""
    if chips[block[0]].rank is None:
        return None
    return Counter(chips[index].role for index in block)


def _key(roles: Counter[Hashable] | None) -> Hashable:
    return None if roles is None else frozenset(roles.items())


def _number(chips: Sequence[Chip], block: Sequence[int], size: int) -> int | None:
    """Return which block of ranks a node had; a number of no block if it had none."""
    ranks = [chips[index].rank for index in block]
    if ranks[0] is None:
        return None
    first = min(rank for rank in ranks if rank is not None)
    return ELSEWHERE + first if first % size else first // size


def _cost(
    needed: Counter[Hashable], held: Counter[Hashable] | None, *, is_same: bool
) -> int:
    """Return what it costs that a node takes a block: weights to load, then numbers."""
    size = needed.total()
    if held is None:
        return size * ROLE_WEIGHT
    loads = size - (needed & held).total()
    return loads * ROLE_WEIGHT + (0 if is_same else size)
