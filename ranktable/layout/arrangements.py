"""Placements that may be better: nodes in another order, or ranks in boxes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, permutations
from operator import ne
from typing import TYPE_CHECKING

from ranktable.layout.boxes import (
    best_chains,
    box_of_block,
    grid_axes,
    ranks_in_boxes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.boxes import Box
    from ranktable.layout.crossings import Owners, Scene

MAX_CHAINS = 8
"""Boxes within boxes that are tried; the first is the best where all sizes divide."""


def node_orders(scene: Scene, owners: Owners) -> Iterator[Owners]:
    """Yield placements in which every node holds consecutive ranks.

    The first has the nodes in the order in which they are; then they are grouped as
    the boundaries group them, and put where boxes of their blocks want them.
    """
    sizes = Counter(owners)
    order = list(dict.fromkeys(owners))
    yield from_order(order, sizes)
    grouped = by_domain(scene, order, sizes)
    yield from_order(grouped, sizes)
    size = sizes[order[0]]
    block = box_of_block(scene.layout, size)
    if set(sizes.values()) != {size} or block is None:
        return
    for chain in _chains(scene, sizes, first=block):
        blocks = [rank // size for rank in ranks_in_boxes(scene.layout, chain)[::size]]
        placed = dict(zip(blocks, grouped, strict=True))
        yield from_order([placed[at] for at in range(len(blocks))], sizes)


def free_orders(scene: Scene, owners: Owners) -> Iterator[Owners]:
    """Yield placements in which a node may hold any ranks: boxes, then every order."""
    sizes = Counter(owners)
    grouped = by_domain(scene, list(dict.fromkeys(owners)), sizes)
    slots = [node for node in grouped for _ in range(sizes[node])]
    for chain in _chains(scene, sizes):
        yield _dealt(ranks_in_boxes(scene.layout, chain), slots)
    axes = grid_axes(scene.layout)
    wide = [place for place, axis in enumerate(axes) if axis.size > 1]
    for order in permutations(wide):
        sides = [1] * len(axes)
        boxes: list[Box] = []
        for place in order:
            sides[place] = axes[place].size
            boxes.append(tuple(sides))
        yield _dealt(ranks_in_boxes(scene.layout, boxes), slots)


def from_order(order: Sequence[int], sizes: Counter[int]) -> Owners:
    """Return the placement of nodes that hold consecutive ranks, in this order."""
    return [node for node in order for _ in range(sizes[node])]


def blocks_of(owners: Owners) -> list[range]:
    """Return the runs of consecutive ranks that lie on one node."""
    changed = map(ne, owners, owners[1:])
    starts = [0, *(at for at, is_new in enumerate(changed, 1) if is_new), len(owners)]
    return [range(start, end) for start, end in pairwise(starts)]


def by_domain(scene: Scene, order: Sequence[int], sizes: Counter[int]) -> list[int]:
    """Return the nodes with those of every domain together, the largest first."""
    keys: list[dict[int, tuple[int, int]]] = []
    for boundary in reversed(scene.boundaries):
        held: Counter[int] = Counter()
        for node in order:
            held[boundary.domains[node]] += sizes[node]
        # dictionaries keep the order in which domains are met
        keys.append({d: (-held[d], at) for at, d in enumerate(held)})
    return sorted(
        order,
        key=lambda node: [
            key[boundary.domains[node]]
            for key, boundary in zip(keys, reversed(scene.boundaries), strict=True)
        ],
    )


def _chains(
    scene: Scene, sizes: Counter[int], first: Box | None = None
) -> list[tuple[Box, ...]]:
    """Return boxes within boxes for the domains of the boundaries.

    A boundary whose domains are uneven counts with its largest ones, and is left out
    where there is no such box.
    """
    found: list[tuple[Box, ...]] = []
    volumes: list[int] = []
    for boundary in scene.boundaries:
        volume = _volume(boundary, sizes)
        if volume % (volumes[-1] if volumes else 1) or volume in volumes:
            continue
        more = best_chains(
            scene.layout,
            scene.flows,
            [*volumes, volume],
            first=first,
            limit=MAX_CHAINS,
        )
        if more:
            found, volumes = more, [*volumes, volume]
        elif first is not None and not volumes:
            return []
    return found


def _volume(boundary: Boundary, sizes: Counter[int]) -> int:
    held: Counter[int] = Counter()
    for node, size in sizes.items():
        held[boundary.domains[node]] += size
    return max(held.values())


def _dealt(ranks: Sequence[int], slots: Sequence[int]) -> Owners:
    """Return the placement of ranks that take the slots in this order."""
    owners = [0] * len(ranks)
    for rank, node in zip(ranks, slots, strict=True):
        owners[rank] = node
    return owners
