"""A plan: bytes over every boundary, a lower bound, and a better placement."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from itertools import chain, islice, permutations
from math import factorial
from typing import TYPE_CHECKING, Literal, NamedTuple

from ranktable.layout.arrangements import (
    MAX_WORK,
    blocks_of,
    exchange,
    free_orders,
    from_order,
    is_contiguous,
    node_orders,
)
from ranktable.layout.boundaries import node_boundary, smallest_first
from ranktable.layout.crossings import CostModel, is_reached, lower_bound
from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.sizes import factors
from ranktable.layout.spreading import make_spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.crossings import Owners
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.layout.spreading import Shared, Spread
    from ranktable.layout.traffic import Flow
    from ranktable.schema.model import RankTable

MAX_UNITS = 1_024
"""Blocks or ranks up to which exchanges of two are tried: half a million pairs."""

MAX_TRYING = 4_000_000
"""Members of groups to look at while placements are tried, a second or two."""

MAX_RESTARTED = 256
"""Ranks up to which exchanges start from several placements, some of them random."""

MAX_STARTS = 24
MIN_TRIED = 4
MAX_TRIED = 200

MAX_PERMUTED = 6
"""Nodes up to which every order of them is tried."""

_SAME = 1e-9
"""Relative difference of two sums that may be a rounding error."""


class Mode(str, Enum):
    """How ranks may be placed.

    With ``NODE_ORDER`` every node holds consecutive ranks, so every launcher can start
    the job. With ``FREE`` a rank may be on any node, and RANK has to come from the
    table.
    """

    NODE_ORDER = "node-order"
    FREE = "free"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A placement that was found, and what it was compared with.

    Attributes:
        costs: Groups, flows and boundaries.
        mode: How ranks may be placed, None if only the table was examined.
        before: The placement of the table.
        after: The better placement, or the same one if there is no gain.
        bounds: Lower bound of the bytes over every boundary.
        spread: The failure domains that were requested.
        is_exhaustive: Whether every order of the nodes was tried.
    """

    costs: CostModel
    mode: Mode | None
    before: Owners
    after: Owners
    bounds: tuple[float, ...]
    spread: Spread | None = None
    is_exhaustive: bool = False

    @property
    def is_better(self) -> bool:
        """Whether another placement is better."""
        return self.before is not self.after

    @property
    def is_free(self) -> bool:
        """Whether RANK has to come from the table in the better placement."""
        return len(blocks_of(self.after)) > len(set(self.after))

    @property
    def node_order(self) -> list[int]:
        """The nodes in the order of their first ranks in the better placement."""
        return list(dict.fromkeys(self.after))


def make_plan(
    table: RankTable,
    layout: ParallelLayout,
    *,
    flows: Sequence[Flow] = (),
    boundaries: Sequence[Boundary] = (),
    mode: Mode | Literal["node-order", "free"] | None = None,
    shown: Sequence[str] = (),
    spread: str | None = None,
) -> Plan:
    """Return the bytes over the boundaries, and a better placement if there is one.

    A placement is better if fewer bytes cross one boundary and no more cross the
    others.

    Args:
        table: The table.
        layout: The layout.
        flows: What is sent along every axis.
        boundaries: Groups of several nodes, the smallest first.
        mode: How ranks may be placed; None to keep the placement.
        shown: More groups to show, such as ``dp-cp`` and ``embedding``.
        spread: Axes whose replicas must be in different domains: ``dp:rack``.

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
    held = Counter(before)
    sizes_ = [held[node] for node in range(table.num_nodes)]
    bounds = tuple(
        lower_bound(layout, flows, one.num_ranks(sizes_)) for one in costs.boundaries
    )
    chosen = None if mode is None else Mode(mode)
    apart = None if spread is None else make_spread(spread, layout, costs.boundaries)
    after, is_exhaustive = before, False
    if chosen is not None and (flows or apart):
        choice = _Choice(costs, before, bounds, chosen, apart)
        after, is_exhaustive = choice.best(), choice.is_exhaustive
    return Plan(
        costs=costs,
        mode=chosen,
        before=before,
        after=after,
        bounds=bounds,
        spread=apart,
        is_exhaustive=is_exhaustive,
    )


def is_spread(plan: Plan) -> bool:
    """Whether the groups that must be spread are in different domains."""
    return plan.spread is None or not plan.spread.shared(plan.after).groups


class _Tried(NamedTuple):
    """A placement, its bytes over every boundary, and what is not spread."""

    owners: Owners
    totals: Sequence[float]
    shared: Shared | None

    @property
    def total(self) -> float:
        return sum(self.totals)


class _Choice:
    """The choice among placements."""

    def __init__(
        self,
        costs: CostModel,
        before: Owners,
        bounds: Sequence[float],
        mode: Mode,
        spread: Spread | None,
    ) -> None:
        self.costs = costs
        self.spread = spread
        self.is_exhaustive = False
        self.before = before
        self.bounds = bounds
        self.mode = mode
        self.ceiling = costs.totals(before)

    def best(self) -> Owners:
        """Return the best placement, the one of the table if none is better."""
        chosen = self.tried(self.before)
        tried = [chosen]
        if self.is_optimal(chosen):
            return self.before
        for owners in self.candidates():
            tried.append(self.tried(owners))
            chosen = self.better(chosen, tried[-1])
            if self.is_optimal(chosen):
                return chosen.owners
        blocks = len(blocks_of(self.before))
        is_small = blocks == len(set(self.before)) <= MAX_PERMUTED
        if is_small and self.mode is Mode.NODE_ORDER:
            self.is_exhaustive = True
            return chosen.owners
        starts = [chosen.owners]
        if len(self.before) <= MAX_RESTARTED:
            tried.sort(key=lambda one: one.total)
            starts = _different(chain((one.owners for one in tried), self.shuffled()))
        for begin in starts:
            owners = self.exchanged(begin, MAX_WORK // len(starts))
            if owners is chosen.owners:
                continue  # it was tried already
            chosen = self.better(chosen, self.tried(owners))
            if self.is_optimal(chosen):
                break
        return chosen.owners

    def tried(self, owners: Owners) -> _Tried:
        """Return a placement with its traffic."""
        shared = None if self.spread is None else self.spread.shared(owners)
        is_known = owners is self.before
        totals = self.ceiling if is_known else self.costs.totals(owners)
        return _Tried(owners, totals, shared)

    def better(self, one: _Tried, other: _Tried) -> _Tried:
        """Return the second placement if it is allowed and better, else the first."""
        is_less = other.total < one.total * (1 - _SAME)
        if one.shared and other.shared and one.shared != other.shared:
            is_less = other.shared < one.shared
        return other if is_less and self.is_allowed(other) else one

    def shuffled(self) -> Iterator[Owners]:
        """Yield placements without any pattern, the same ones in every run."""
        if self.mode is Mode.FREE:
            shuffle = random.Random(0).shuffle  # noqa: S311 - where a search begins
            for _ in range(MAX_STARTS):
                owners = list(self.before)
                shuffle(owners)
                yield owners

    def is_optimal(self, tried: _Tried) -> bool:
        """Whether no placement can be better."""
        is_spread = tried.shared is None or not any(tried.shared)
        return is_spread and is_reached(sum(self.bounds), tried.total)

    def candidates(self) -> Iterator[Owners]:
        """Yield as many placements as can be tried."""
        costs, before = self.costs, self.before
        work = len(before) * max(len(costs.flows), 1) * len(costs.boundaries)
        number = min(max(MAX_TRYING // work, MIN_TRIED), MAX_TRIED)
        sizes = Counter(before)
        nodes = list(dict.fromkeys(before))
        orders = node_orders(costs, nodes, sizes)
        found: Iterable[Owners] = (from_order(order, sizes) for order in orders)
        if self.spread is not None:
            free = costs.layout if self.mode is Mode.FREE else None
            found = chain(self.spread.orders(before, layout=free), found)
        if self.mode is Mode.NODE_ORDER and len(nodes) <= MAX_PERMUTED:
            every = permutations(nodes)
            found = chain(found, (from_order(order, sizes) for order in every))
            number = max(number, factorial(MAX_PERMUTED) + MAX_TRIED)
        if self.mode is Mode.FREE:
            found = chain(found, free_orders(costs, nodes, sizes))
        yield from islice(found, number)

    def is_allowed(self, tried: _Tried) -> bool:
        """Whether no boundary has more bytes, and ranks are contiguous where needed."""
        pairs = zip(tried.totals, self.ceiling, strict=True)
        is_worse = any(not is_reached(most, total) for total, most in pairs)
        if self.spread is not None:
            is_worse = False  # a spread placement may send more
        return not is_worse and all(
            is_contiguous([boundary.domains[node] for node in tried.owners])
            for boundary in self.costs.boundaries
            if boundary.is_contiguous
        )

    def exchanged(self, owners: Owners, work: int) -> Owners:
        """Return the placement after useful exchanges of blocks or ranks."""
        if any(boundary.is_contiguous for boundary in self.costs.boundaries):
            return owners
        units: list[range] = blocks_of(owners)
        if self.mode is Mode.FREE:
            units = [range(rank, rank + 1) for rank in range(len(owners))]
        elif len(units) > len(Counter(owners)):
            return owners  # the nodes of the table are not in blocks
        if len(units) > MAX_UNITS:
            return owners
        return exchange(self.costs, owners, units, self.ceiling, work=work)


def _different(placements: Iterable[Owners]) -> list[Owners]:
    """Return the first few of the placements, each once."""
    found: dict[tuple[int, ...], Owners] = {}
    for owners in placements:
        found.setdefault(tuple(owners), owners)
        if len(found) == MAX_STARTS:
            break
    return list(found.values())
