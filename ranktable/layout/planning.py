"""A plan: bytes over every boundary, a lower bound, and a better order of the nodes.

Every node keeps consecutive ranks, so every launcher can start the job. Nodes of one
domain are put together and dealt along the axes of the grid, once for each order of the
axes. The best of these orders is improved by exchanging two nodes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain, combinations, count, islice, permutations
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from ranktable.layout.boundaries import is_contiguous, node_boundary, smallest_first
from ranktable.layout.grid import factors
from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.traffic import CostModel, is_reached

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.layout.traffic import Flow, Owners
    from ranktable.schema.model import RankTable


def reorder_nodes(table: RankTable, order: Sequence[int]) -> RankTable:
    """Return a table with its nodes in another order; each keeps that of its chips.

    Args:
        table: The table.
        order: The places of all nodes in their new order.
    """
    ranks = count()
    nodes = []
    for place in order:
        node = table.nodes[place]
        devices = sorted(node.devices, key=lambda device: device.rank)
        moved = tuple(replace(device, rank=next(ranks)) for device in devices)
        nodes.append(replace(node, devices=moved))
    return table.with_changes(nodes=nodes)


MAX_TRYING = 4_000_000
"""Members of groups to look at while orders are tried, a second or two."""

MIN_TRIED = 4
MAX_TRIED = 120
MAX_PERMUTED = 6
"""Nodes up to which every order of them is tried."""

MAX_EXCHANGED = 1_024
"""Nodes up to which exchanges of two are tried: half a million pairs."""

MAX_EXCHANGING = 1_500_000
"""Members of groups to look at while nodes are exchanged, about a second."""

_GAIN = 1e-9
"""Relative gain; a smaller one may be a rounding error of the sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An order of the nodes that was found, and what it was compared with.

    Attributes:
        costs: Groups, flows and boundaries.
        before: The placement of the table: the node of every rank.
        after: The better placement, or the same one if there is no gain.
        bounds: Lower bound of the bytes over every boundary.
        is_exhaustive: Whether every order of the nodes was tried.
    """

    costs: CostModel
    before: Owners
    after: Owners
    bounds: tuple[float, ...]
    is_exhaustive: bool = False

    @property
    def is_better(self) -> bool:
        """Whether another placement is better."""
        return self.before is not self.after

    @property
    def node_order(self) -> list[int]:
        """The nodes in the order of their ranks in the better placement."""
        return list(dict.fromkeys(self.after))


def make_plan(
    table: RankTable,
    layout: ParallelLayout,
    *,
    flows: Sequence[Flow] = (),
    boundaries: Sequence[Boundary] = (),
    shown: Sequence[str] = (),
) -> Plan:
    """Return the bytes over the boundaries, and a better order of the nodes.

    An order is better if fewer bytes cross one boundary and no more cross the others.

    Args:
        table: The table.
        layout: The layout.
        flows: What is sent along every axis; without any, no order is searched.
        boundaries: Groups of several nodes, the smallest first.
        shown: More groups to show, such as ``dp-cp`` and ``embedding``.

    Raises:
        LayoutError: The layout has another number of ranks.
    """
    if layout.world_size != table.world_size:
        sizes = {name: layout.sizes[name] for name in layout.mesh_shape}
        raise LayoutError(
            f"the layout is {factors(sizes)}, and the table has {table.world_size} "
            "ranks"
        )
    kept = (node_boundary(table), *smallest_first(boundaries))
    costs = CostModel(layout, flows, kept, shown)
    before = list(table.node_ranks)
    held = [len(node.devices) for node in table.nodes]
    bounds = costs.bounds(held)
    is_every_order_equal = len(costs.boundaries) == 1 and len(set(held)) == 1
    if not flows or is_every_order_equal:
        return Plan(costs=costs, before=before, after=before, bounds=bounds)
    search = _OrderSearch(costs, before, sum(bounds))
    after = search.best()
    return Plan(
        costs=costs,
        before=before,
        after=after,
        bounds=bounds,
        is_exhaustive=search.is_exhaustive,
    )


class _Tried(NamedTuple):
    """A placement and its bytes over every boundary."""

    owners: Owners
    totals: Sequence[float]


class _OrderSearch:
    """The choice among orders of the nodes.

    Attributes:
        is_exhaustive: Whether every order was tried.
    """

    def __init__(self, costs: CostModel, before: Owners, bound: float) -> None:
        self.costs = costs
        self.before = before
        self.bound = bound
        self.ceiling = costs.totals(before)
        self.sizes = Counter(before)
        self.is_exhaustive = False

    def best(self) -> Owners:
        """Return the best placement, the one of the table if none is better."""
        best = start = _Tried(self.before, self.ceiling)
        nodes = list(self.sizes)
        work = len(self.before) * len(self.costs.flows) * len(self.costs.boundaries)
        number = min(max(MAX_TRYING // work, MIN_TRIED), MAX_TRIED)
        orders: Iterator[Sequence[int]] = islice(self.orders(nodes), number)
        if len(nodes) <= MAX_PERMUTED:
            orders = chain(orders, permutations(nodes))
        for order in orders:
            if is_reached(self.bound, sum(best.totals)):
                return best.owners
            owners = [node for node in order for _ in range(self.sizes[node])]
            tried = _Tried(owners, self.costs.totals(owners))
            start = min(start, tried, key=lambda one: sum(one.totals))
            best = self.better(best, tried)
        if len(nodes) <= MAX_PERMUTED:
            self.is_exhaustive = True
        elif len(nodes) <= MAX_EXCHANGED and not self.has_contiguous():
            for begin in (best, start):
                owners = _exchanged(self.costs, begin.owners, self.ceiling)
                best = self.better(best, _Tried(owners, self.costs.totals(owners)))
        return best.owners

    def better(self, one: _Tried, other: _Tried) -> _Tried:
        """Return the second placement if it is allowed and better, else the first."""
        is_less = sum(other.totals) < sum(one.totals) * (1 - _GAIN)
        pairs = zip(self.ceiling, other.totals, strict=True)
        is_allowed = is_less and all(is_reached(most, now) for most, now in pairs)
        if not is_allowed or not all(
            is_contiguous([boundary.domains[node] for node in dict.fromkeys(other[0])])
            for boundary in self.costs.boundaries
            if boundary.is_contiguous
        ):
            return one
        return other

    def has_contiguous(self) -> bool:
        """Whether an exchange of two nodes could tear a super pod apart."""
        return any(boundary.is_contiguous for boundary in self.costs.boundaries)

    def orders(self, nodes: Sequence[int]) -> Iterator[list[int]]:
        """Yield orders of nodes: by domain, then dealt along the axes of the grid."""
        grouped = self.by_domain(nodes)
        yield grouped
        size = self.sizes[nodes[0]]
        if set(self.sizes.values()) != {size}:
            return
        layout = self.costs.layout
        sent = {flow.axes: flow.size_bytes for flow in self.costs.flows}
        grid = layout.along("-".join(layout.mesh_shape))
        axes = [axis for axis in grid.inside if axis.size > 1]
        axes.sort(key=lambda axis: -sent.get(axis.name, 0))
        firsts = range(0, len(self.before), size)
        for chosen in permutations(axes):
            # Blocks that differ along the first of the axes only are neighbours.
            keys = {
                first: [first // axis.stride % axis.size for axis in reversed(chosen)]
                for first in firsts
            }
            places = sorted(firsts, key=keys.__getitem__)
            dealt = dict(zip(places, grouped, strict=True))
            yield [dealt[first] for first in firsts]

    def by_domain(self, nodes: Sequence[int]) -> list[int]:
        """Return the nodes with those of every domain together, the largest first."""
        keys: list[dict[int, tuple[int, int]]] = []
        outer = self.costs.boundaries[:0:-1]
        for boundary in outer:
            held = Counter[int]()
            for node in nodes:
                held[boundary.domains[node]] += self.sizes[node]
            keys.append({d: (-held[d], at) for at, d in enumerate(held)})
        pairs = [(key, one.domains) for key, one in zip(keys, outer, strict=True)]
        return sorted(nodes, key=lambda node: [key[of[node]] for key, of in pairs])


def _exchanged(costs: CostModel, owners: Owners, ceiling: Sequence[float]) -> Owners:
    """Return the placement after exchanges of two nodes, while fewer bytes cross."""
    owners, totals, work = list(owners), list(costs.totals(owners)), MAX_EXCHANGING
    ranks: dict[int, list[int]] = {}
    for rank, node in enumerate(owners):
        ranks.setdefault(node, []).append(rank)
    slots = list(ranks.values())
    is_better = True
    while is_better and work > 0:
        is_better = False
        for one, other in combinations(slots, 2):
            if len(one) != len(other):
                continue
            touched = costs.groups_of([*one, *other])
            before, looked_at = costs.crossing(touched, owners)
            _swap(owners, one, other)
            after, _ = costs.crossing(touched, owners)
            changed = [
                total - old + new
                for total, old, new in zip(totals, before, after, strict=True)
            ]
            is_allowed = all(
                total <= max(most, now) * (1 + _GAIN)
                for total, most, now in zip(changed, ceiling, totals, strict=True)
            )
            if is_allowed and sum(changed) < sum(totals) * (1 - _GAIN):
                totals, is_better = changed, True
            else:
                _swap(owners, one, other)
            work -= 2 * looked_at
            if work <= 0:
                break
    return owners


def _swap(owners: Owners, one: Sequence[int], other: Sequence[int]) -> None:
    for rank, partner in zip(one, other, strict=True):
        owners[rank], owners[partner] = owners[partner], owners[rank]
