"""Which chip of a node carries which of the ranks that the node takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.layout.change.assign import Chip, Place, assign

if TYPE_CHECKING:
    from collections.abc import Sequence

ELSEWHERE = 1 << 40
"""Added to a rank outside of a block, so that it is none of the block's."""

ROLE_WEIGHT = 1 << 20
"""What a chip that loads other weights weighs against one with another number."""


def inside(
    chips: Sequence[Chip], block: Sequence[int], places: Sequence[Place], *, start: int
) -> list[int]:
    """Return the chips of a node in the order of the ranks that it takes."""
    size = len(places)
    own = []
    for index in block:
        rank = chips[index].rank
        if rank is not None:
            is_here = start <= rank < start + size
            rank = rank - start if is_here else ELSEWHERE + rank
        own.append(Chip(rank=rank, role=chips[index].role))
    kinds = [Place(role=place.role) for place in places]
    return [block[at] for at in assign(own, kinds)]


def cost_inside(
    chips: Sequence[Chip], carriers: Sequence[int], places: Sequence[Place], start: int
) -> int:
    """Return what it costs: weights to load, then numbers that change."""
    cost = 0
    for rank, (index, place) in enumerate(zip(carriers, places, strict=True), start):
        chip = chips[index]
        loads = chip.rank is None or chip.role != place.role
        moves = chip.rank is not None and chip.rank != rank
        cost += loads * ROLE_WEIGHT + moves
    return cost
