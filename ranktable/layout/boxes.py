"""Boxes: domains that hold a few neighbours along every axis, the best of all shapes.

Where the ranks of a domain are a box with sides that divide the sizes of the axes,
every group along an axis touches size/side domains, so that what crosses follows from
the sides alone. The shapes are few: the ways to write the number of ranks as a product.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from ranktable.layout.flow import Pattern
from ranktable.layout.sizes import divisors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.layout.flow import Flow
    from ranktable.layout.grid import Axis
    from ranktable.layout.parallel import ParallelLayout

Box = tuple[int, ...]
"""The side along every axis of a grid."""

MAX_BOXES = 2_000
"""Boxes of one size that are looked at; 2^17 ranks have a few hundred."""


def boxes(sizes: Sequence[int], volume: int) -> Iterator[Box]:
    """Yield the boxes of a volume whose sides divide the sizes."""
    if not sizes:
        if volume == 1:
            yield ()
        return
    for side in divisors(sizes[0]):
        if volume % side == 0:
            for rest in boxes(sizes[1:], volume // side):
                yield (side, *rest)


@dataclass(frozen=True, slots=True)
class _Chain:
    """Boxes within boxes, the smallest first, and the bytes that cross them all."""

    boxes: tuple[Box, ...]
    cost: float


def best_chains(
    layout: ParallelLayout,
    flows: Sequence[Flow],
    volumes: Sequence[int],
    *,
    first: Box | None = None,
    limit: int,
) -> list[tuple[Box, ...]]:
    """Return boxes within boxes, those first that the fewest bytes cross.

    Args:
        layout: The layout; the boxes are those of the grid of its ``mesh_shape``.
        flows: What is sent; what belongs to no axis of that grid is passed over.
        volumes: Ranks of a domain, the smallest first; each divides the next.
        first: The smallest box, where it is given.
        limit: Number of results.
    """
    axes = grid_axes(layout)
    sizes = [axis.size for axis in axes]
    known = [flow for flow in flows if _places(flow, layout, axes) is not None]
    chains = [_Chain((), 0.0)]
    for at, volume in enumerate(volumes):
        shapes = [first] if first is not None and at == 0 else []
        if not shapes:
            found = boxes(sizes, volume)
            shapes = [box for box, _ in zip(found, range(MAX_BOXES), strict=False)]
        chains = [
            chain
            for box in shapes
            if (chain := _extended(chains, box, _cost(box, known, layout, axes)))
        ]
    chains.sort(key=lambda chain: chain.cost)
    return [chain.boxes for chain in chains[:limit]]


def _extended(chains: Sequence[_Chain], box: Box, cost: float) -> _Chain | None:
    """Return the best chain that ends in a box, None if nothing fits into it."""
    inner = [
        chain
        for chain in chains
        if not chain.boxes
        or all(
            side % part == 0 for side, part in zip(box, chain.boxes[-1], strict=True)
        )
    ]
    if not inner:
        return None
    best = min(inner, key=lambda chain: chain.cost)
    return _Chain((*best.boxes, box), best.cost + cost)


def grid_axes(layout: ParallelLayout) -> tuple[Axis, ...]:
    """Return the axes of the grid that every rank is a point of, the fastest first."""
    every = layout.along("-".join(reversed(layout.mesh_shape)))
    return every.inside


def _places(
    flow: Flow, layout: ParallelLayout, axes: Sequence[Axis]
) -> list[int] | None:
    """Return the places of a flow's axes in the grid, None if it is in another."""
    groups = layout.along(flow.axes)
    names = [axis.name for axis in axes]
    if {axis.name for axis in (*groups.inside, *groups.outside)} != {*names}:
        return None
    return [names.index(axis.name) for axis in groups.inside]


def _cost(
    box: Box, flows: Sequence[Flow], layout: ParallelLayout, axes: Sequence[Axis]
) -> float:
    """Return the bytes that cross the boundary of domains that are such boxes."""
    total = 0.0
    for flow in flows:
        places = _places(flow, layout, axes) or []
        size = prod(axes[place].size for place in places)
        held = prod(box[place] for place in places)
        total += _crossing(flow, size, held) * (layout.world_size // size)
    return total


def _crossing(flow: Flow, size: int, held: int) -> float:
    """Return the bytes of one group that each domain holds so many members of."""
    domains = size // held
    if domains == 1:
        return 0.0
    if flow.pattern is Pattern.ALL_TO_ALL:
        return flow.size_bytes / size * (size**2 - domains * held**2)
    if flow.pattern is Pattern.RING:
        return flow.size_bytes * domains
    wrapped = flow.wrap_bytes if flow.pattern is Pattern.CHAIN else 0.0
    return flow.per_domain * (domains - 1) + wrapped


def ranks_in_boxes(layout: ParallelLayout, chain: Sequence[Box]) -> list[int]:
    """Return all ranks, box by box: those of the first smallest box, and so on."""
    axes = grid_axes(layout)
    done = [1] * len(axes)
    ranks = [0]
    for box in (*chain, tuple(axis.size for axis in axes)):
        for place, axis in enumerate(axes):
            times = box[place] // done[place]
            step = axis.stride * done[place]
            ranks = [at * step + rank for at in range(times) for rank in ranks]
            done[place] = box[place]
    return ranks


def box_of_block(layout: ParallelLayout, volume: int) -> Box | None:
    """Return the box that consecutive ranks are, None where they are none."""
    sides = []
    left = volume
    for axis in grid_axes(layout):
        side = min(axis.size, left)
        if axis.size % side or left % side:
            return None
        sides.append(side)
        left //= side
    return tuple(sides)
