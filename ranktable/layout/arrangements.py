"""Candidate placements: other node orders, boxes of ranks, exchanges of two.

A box is a block of the grid of ranks: a few neighbours along every axis. If the ranks
of a domain are a box, and its sides divide the sizes of the axes, every group along an
axis touches size/side domains. So the sides alone decide how many bytes cross. There
are few boxes: one for each way to write the number of ranks as a product.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import compress, pairwise, permutations, starmap
from math import prod
from operator import ne
from typing import TYPE_CHECKING

from ranktable.layout.sizes import divisors
from ranktable.layout.traffic import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.crossings import CostModel, Owners
    from ranktable.layout.grid import Axis
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.layout.traffic import Flow

Box = tuple[int, ...]
"""Number of ranks along every axis of a grid."""

Blocks = list[tuple[int, int]]
"""A placement in the order of the ranks: a node, and how many ranks it takes next."""

MAX_BOXES = 2_000
"""Most boxes of one size that are compared; 2^17 ranks have a few hundred."""


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
    """Nested boxes, the smallest first, and the bytes that cross all of them."""

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
    """Return chains of nested boxes, those with the fewest crossing bytes first.

    Args:
        layout: The layout; the boxes are those of the grid of its ``mesh_shape``.
        flows: What is sent; flows along axes outside that grid are ignored.
        volumes: Ranks of a domain, the smallest first; each divides the next.
        first: The smallest box, if it is given.
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
    """Return the axes of the grid of all ranks, the fastest first."""
    every = layout.along("-".join(reversed(layout.mesh_shape)))
    return every.inside


def _places(
    flow: Flow, layout: ParallelLayout, axes: Sequence[Axis]
) -> list[int] | None:
    """Return the positions of a flow's axes, None if they are in another grid."""
    groups = layout.along(flow.axes)
    names = [axis.name for axis in axes]
    if {axis.name for axis in (*groups.inside, *groups.outside)} != {*names}:
        return None
    return [names.index(axis.name) for axis in groups.inside]


def _cost(
    box: Box, flows: Sequence[Flow], layout: ParallelLayout, axes: Sequence[Axis]
) -> float:
    """Return the bytes that cross the boundary of domains of this box shape."""
    total = 0.0
    for flow in flows:
        places = _places(flow, layout, axes) or []
        size = prod(axes[place].size for place in places)
        held = prod(box[place] for place in places)
        total += _box_crossing(flow, size, held) * (layout.world_size // size)
    return total


def _box_crossing(flow: Flow, size: int, held: int) -> float:
    """Return the bytes of one group that has ``held`` members in each domain."""
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
    """Return the box that consecutive ranks form, None if they do not form one."""
    sides = []
    left = volume
    for axis in grid_axes(layout):
        side = min(axis.size, left)
        if axis.size % side or left % side:
            return None
        sides.append(side)
        left //= side
    return tuple(sides)


MAX_CHAINS = 8
"""Chains that are tried; the first is the best if all sizes divide."""


def node_orders(
    costs: CostModel, order: Sequence[int], sizes: Mapping[int, int]
) -> Iterator[list[int]]:
    """Yield orders of nodes that hold consecutive ranks, given the ranks of each.

    The first keeps the nodes in their order. In the next, nodes of one domain follow
    each other. Then the boxes of their blocks decide which node comes where.
    """
    yield list(order)
    grouped = by_domain(costs, order, sizes)
    yield grouped
    size = sizes[order[0]]
    block = box_of_block(costs.layout, size)
    if set(sizes.values()) != {size} or block is None:
        return
    for chain in _chains(costs, sizes, first=block):
        blocks = [rank // size for rank in ranks_in_boxes(costs.layout, chain)[::size]]
        placed = dict(zip(blocks, grouped, strict=True))
        yield [placed[at] for at in range(len(blocks))]


def free_orders(
    costs: CostModel, order: Sequence[int], sizes: Mapping[int, int]
) -> Iterator[Owners]:
    """Yield placements in which a node may hold any ranks: by boxes, then others."""
    slots = from_order(by_domain(costs, order, sizes), sizes)
    for chain in _chains(costs, sizes):
        yield _dealt(ranks_in_boxes(costs.layout, chain), slots)
    axes = grid_axes(costs.layout)
    wide = [place for place, axis in enumerate(axes) if axis.size > 1]
    for places in permutations(wide):
        sides = [1] * len(axes)
        boxes: list[Box] = []
        for place in places:
            sides[place] = axes[place].size
            boxes.append(tuple(sides))
        yield _dealt(ranks_in_boxes(costs.layout, boxes), slots)


def from_order(order: Sequence[int], sizes: Mapping[int, int]) -> Owners:
    """Return the placement of nodes that hold consecutive ranks, in this order."""
    return [node for node in order for _ in range(sizes[node])]


def blocks_of(owners: Owners) -> list[range]:
    """Return the runs of consecutive ranks that lie on one node."""
    changed = map(ne, owners, owners[1:])
    starts = [0, *compress(range(1, len(owners)), changed), len(owners)]
    return list(starmap(range, pairwise(starts)))


def held_blocks(owners: Owners) -> Blocks:
    """Return the blocks of a placement, given the node of every rank."""
    return [(owners[run.start], len(run)) for run in blocks_of(owners)]


def is_contiguous(domains: Sequence[int]) -> bool:
    """Whether the nodes of every domain follow each other."""
    runs = sum(map(int.__ne__, domains, domains[1:])) + 1
    return runs == len(set(domains))


def by_domain(
    costs: CostModel, order: Sequence[int], sizes: Mapping[int, int]
) -> list[int]:
    """Return the nodes with those of every domain together, the largest first."""
    keys: list[dict[int, tuple[int, int]]] = []
    for boundary in reversed(costs.boundaries):
        held: Counter[int] = Counter()
        for node in order:
            held[boundary.domains[node]] += sizes[node]
        # dictionaries keep the order in which the domains occur
        keys.append({d: (-held[d], at) for at, d in enumerate(held)})
    return sorted(
        order,
        key=lambda node: [
            key[boundary.domains[node]]
            for key, boundary in zip(keys, reversed(costs.boundaries), strict=True)
        ],
    )


def _chains(
    costs: CostModel, sizes: Mapping[int, int], first: Box | None = None
) -> list[tuple[Box, ...]]:
    """Return boxes within boxes for the domains of the boundaries.

    If the domains of a boundary differ in size, the largest size counts. A boundary is
    left out if there is no such box.
    """
    found: list[tuple[Box, ...]] = []
    volumes: list[int] = []
    for boundary in costs.boundaries:
        volume = _volume(boundary, sizes)
        if volume % (volumes[-1] if volumes else 1) or volume in volumes:
            continue
        more = best_chains(
            costs.layout,
            costs.flows,
            [*volumes, volume],
            first=first,
            limit=MAX_CHAINS,
        )
        if more:
            found, volumes = more, [*volumes, volume]
        elif first is not None and not volumes:
            return []
    return found


def _volume(boundary: Boundary, sizes: Mapping[int, int]) -> int:
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


MAX_WORK = 1_500_000
"""Members of groups to look at before the search stops, about a second."""

_GAIN = 1e-9
"""Relative gain; a smaller one may be a rounding error of the sum."""


def exchange(
    costs: CostModel,
    owners: Owners,
    units: Sequence[Sequence[int]],
    ceiling: Sequence[float],
    *,
    work: int = MAX_WORK,
) -> Owners:
    """Return a placement that no exchange of two units improves.

    Args:
        costs: Groups, flows and boundaries.
        owners: The placement to begin with.
        units: Ranks that stay together on one node: its block, or one rank. Two units
            of one size may change places.
        ceiling: Most bytes that may cross every boundary; if a boundary had more at the
            beginning, as many as then.
        work: Members of groups to look at before giving up.
    """
    search = _SwapSearch(costs, owners, ceiling, work)
    while search.goes_round(units):
        pass
    return search.owners


class _SwapSearch:
    """A placement that is being improved."""

    def __init__(
        self, costs: CostModel, owners: Owners, ceiling: Sequence[float], work: int
    ) -> None:
        self.costs = costs
        self.owners = list(owners)
        self.ceiling = ceiling
        self.totals = list(costs.totals(owners))
        self.work = work
        self.along = [costs.layout.along(flow.axes) for flow in costs.flows]
        # Nodes that are in the same domains at all larger boundaries are alike.
        self.domains = [one.domains for one in costs.boundaries]

    def goes_round(self, units: Sequence[Sequence[int]]) -> bool:
        """Try every exchange once; return whether to try again."""
        is_better = False
        for at, one in enumerate(units):
            for other in units[:at]:
                self.work -= 1
                if self.work <= 0:
                    return False
                if (
                    len(one) == len(other)
                    and self.owners[one[0]] != self.owners[other[0]]
                ):
                    is_better |= self.improves(one, other)
        return is_better

    def improves(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Exchange two units if that is better."""
        touched = {
            (at, groups.index_of(rank))
            for at, groups in enumerate(self.along)
            for rank in (*one, *other)
        }
        before = self.crossing(touched)
        self.swap(one, other)
        after = self.crossing(touched)
        totals = [
            total - old + new
            for total, old, new in zip(self.totals, before, after, strict=True)
        ]
        is_allowed = all(
            total <= max(most, now) * (1 + _GAIN)
            for total, most, now in zip(totals, self.ceiling, self.totals, strict=True)
        )
        if is_allowed and sum(totals) < sum(self.totals) * (1 - _GAIN):
            self.totals = totals
            return True
        self.swap(one, other)
        return False

    def swap(self, one: Sequence[int], other: Sequence[int]) -> None:
        owners = self.owners
        for rank, partner in zip(one, other, strict=True):
            owners[rank], owners[partner] = owners[partner], owners[rank]

    def crossing(self, touched: set[tuple[int, int]]) -> list[float]:
        """Return the bytes of some groups that cross every boundary."""
        found = [0.0] * len(self.domains)
        for at, index in touched:
            ranks = self.costs.groups[at][index]
            self.work -= len(ranks)
            held = [self.owners[rank] for rank in ranks]
            flow = self.costs.flows[at]
            for which, domain_of in enumerate(self.domains):
                found[which] += flow.crossing([domain_of[node] for node in held]).least
        return found
