"""Which groups cross which boundary, what they send, and a lower bound.

The bound is proved as follows. A domain holds G ranks of a grid whose axes have the
sizes n_i. Each domain of a group of axis i, after the first, costs at least w_i bytes.
A domain touches |proj_i| groups of axis i. By the discrete inequality of Loomis and
Whitney, the product of all |proj_i| is at least G^(d-1). Write |proj_i| = G/a_i: then
each a_i is at least 1 and at most min(n_i, G), and the product of all a_i is at most G.
The bytes that cross are the sum of w_i G/a_i over the domains, minus w_i for every
group. The lowest value over all real a_i is the bound. A placement reaches it if every
domain is a box with sides a_i that divide n_i.

The lowest value is computed from the dual problem. There, every multiplier gives a
valid bound, so a search that is not exact makes the bound lower, but never wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

from ranktable.layout.grid import Groups
from ranktable.layout.megatron import groups_named
from ranktable.layout.traffic import Crossing, Pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.layout.traffic import Flow

Owners = list[int]
"""A placement: the node of every rank."""

LOST = -1
"""The node of a rank that a table with gaps lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisCrossing:
    """The groups along some axes at one boundary.

    Attributes:
        inside: Number of groups that lie inside one domain.
        spread: The largest number of domains of one group.
        crossing: Bytes that cross, None if it is not known what is sent.
    """

    inside: int
    spread: int
    crossing: Crossing | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisRow:
    """The groups along some axes at all boundaries.

    Attributes:
        axes: The axes.
        num_groups: Number of groups.
        group_size: Number of ranks of each.
        at: The crossings at every boundary, in their order.
        is_rail_aligned: Whether each group joins the same local ranks of all its
            nodes; None if no group leaves its node.
    """

    axes: str
    num_groups: int
    group_size: int
    at: tuple[AxisCrossing, ...]
    is_rail_aligned: bool | None


class Look(NamedTuple):
    """The bytes that cross with one placement.

    Attributes:
        rows: One row for every axis, and for all axes along which data is sent.
        busiest: For every boundary, the domain that sends most and its bytes.
    """

    rows: list[AxisRow]
    busiest: list[tuple[int, float]]


class CostModel:
    """The facts that are the same for all placements: groups, flows, boundaries.

    Attributes:
        layout: The layout.
        flows: What is sent; may be empty.
        boundaries: The boundaries, the one between nodes first.
        shown: Groups to show besides those of the axes and of the flows.
    """

    def __init__(
        self,
        layout: ParallelLayout,
        flows: Sequence[Flow],
        boundaries: Sequence[Boundary],
        shown: Sequence[str] = (),
    ) -> None:
        """Store the arguments."""
        self.shown = tuple(shown)
        self.layout = layout
        self.flows = tuple(flows)
        self.boundaries = tuple(boundaries)
        self.groups = [layout.along(flow.axes) for flow in flows]

    @cached_property
    def row_names(self) -> tuple[str, ...]:
        """The axes of every row: all of more than one rank, and those of the flows."""
        order = {name: at for at, name in enumerate(self.layout.axes)}
        names = dict.fromkeys((*(flow.axes for flow in self.flows), *self.layout.kinds))
        sent = sorted(names, key=lambda one: order.get(one.split("-")[0], len(order)))
        return tuple(dict.fromkeys((*sent, *self.shown)))

    def totals(self, owners: Owners) -> tuple[float, ...]:
        """Return the bytes that cross every boundary in a step.

        Args:
            owners: The node of every rank. What ranks that are ``LOST`` would send is
                not counted.
        """
        return tuple(self.total(owners, one) for one in self.boundaries)

    def total(self, owners: Owners, boundary: Boundary) -> float:
        """Return the bytes that cross one boundary in a step."""
        domain_of = _domains_of(owners, boundary)
        return sum(
            times * sum(flow.sent_by(domains).values())
            for flow, groups in zip(self.flows, self.groups, strict=True)
            for domains, times in _distinct(groups, domain_of)
        )

    def groups_of(self, ranks: Iterable[int]) -> set[tuple[int, int]]:
        """Return the groups of some ranks: the place of the flow, and the index."""
        return {
            (at, groups.index_of(rank))
            for at, groups in enumerate(self.groups)
            for rank in ranks
        }

    def crossing(
        self, touched: Iterable[tuple[int, int]], owners: Owners
    ) -> tuple[list[float], int]:
        """Return the bytes of some groups over every boundary, and their members."""
        found, members = [0.0] * len(self.boundaries), 0
        for at, index in touched:
            held = [owners[rank] for rank in self.groups[at][index]]
            members += len(held)
            for which, boundary in enumerate(self.boundaries):
                domains = [boundary.domains[node] for node in held]
                found[which] += sum(self.flows[at].sent_by(domains).values())
        return found, members

    def look(self, owners: Owners) -> Look:
        """Return rows and busiest domains of a placement."""
        senders = {flow.axes: flow for flow in self.flows}
        domains = [_domains_of(owners, one) for one in self.boundaries]
        local = local_ranks(owners)
        sent = [[0.0] * len(one.labels) for one in self.boundaries]
        rows = []
        for axes in self.row_names:
            groups = groups_named(self.layout, axes)
            flow = senders.get(axes)
            at = [
                _axis_crossing(flow, groups, domain_of, sums)
                for domain_of, sums in zip(domains, sent, strict=True)
            ]
            aligned = [_is_aligned(ranks, owners, local) for ranks in groups]
            known = [one for one in aligned if one is not None]
            row = AxisRow(
                axes=axes,
                num_groups=len(groups),
                group_size=len(groups[0]),
                at=tuple(at),
                is_rail_aligned=all(known) if known else None,
            )
            rows.append(row)
        return Look(rows, [(sums.index(max(sums)), max(sums)) for sums in sent])


def _domains_of(owners: Owners, boundary: Boundary) -> list[int]:
    domains = (*boundary.domains, LOST)  # the last one has the index LOST
    return list(map(domains.__getitem__, owners))


def _distinct(
    groups: Sequence[Sequence[int]], domain_of: Sequence[int]
) -> Iterable[tuple[Sequence[int], int]]:
    """Return the domains of every group, and how many groups have the same ones.

    Groups in the same domains are counted once, such as those of all chips of a node.
    """
    if isinstance(groups, Groups):
        found = Counter(map(tuple, groups.parts_of(domain_of)))
    else:
        found = Counter(tuple([domain_of[rank] for rank in ranks]) for ranks in groups)
    if LOST not in domain_of:
        return found.items()
    left = (
        ([domain for domain in domains if domain != LOST], times)
        for domains, times in found.items()
    )
    return [(domains, times) for domains, times in left if domains]


def _axis_crossing(
    flow: Flow | None,
    groups: Sequence[Sequence[int]],
    domain_of: list[int],
    sent: list[float],
) -> AxisCrossing:
    """Return what crosses one boundary; add what every domain sends to ``sent``."""
    inside, spread, least, flat = 0, 1, 0.0, 0.0
    for domains, number in _distinct(groups, domain_of):
        width = len(set(domains))
        spread = max(spread, width)
        if width == 1:
            inside += number
        elif flow is not None:
            crossed = flow.crossing(domains)
            least, flat = least + number * crossed.least, flat + number * crossed.flat
            for domain, size in flow.sent_by(domains).items():
                sent[domain] += number * size
    crossing = None if flow is None else Crossing(least, flat)
    return AxisCrossing(inside=inside, spread=spread, crossing=crossing)


def local_ranks(owners: Owners) -> list[int]:
    """Return the index of every rank within its node."""
    seen: Counter[int] = Counter()
    local = []
    for node in owners:
        local.append(seen[node])
        seen[node] += 1
    return local


def _is_aligned(ranks: Sequence[int], owners: Owners, local: list[int]) -> bool | None:
    """Whether a group joins the same local ranks of its nodes; None on one node."""
    places: dict[int, list[int]] = {}
    for rank in ranks:
        places.setdefault(owners[rank], []).append(local[rank])
    if len(places) == 1:
        return None
    first, *others = (sorted(held) for held in places.values())
    return all(held == first for held in others)


_HALVINGS = 200
_ROUNDING = 1e-14
"""Largest relative error of the sums of floats here."""

_SAME = 1e-9
_LESS_THAN_A_BYTE = 1e-3


class _Term(NamedTuple):
    """One flow in the form that the bound needs.

    Attributes:
        axes: Names and sizes of its axes in their grid.
        size: Number of ranks of a group.
        weight: Bytes of each domain of a group after the first.
    """

    axes: tuple[tuple[str, int], ...]
    size: int
    weight: float


def is_reached(bound: float, total: float) -> bool:
    """Whether some bytes equal a bound, apart from rounding."""
    return total - bound <= _SAME * total + _LESS_THAN_A_BYTE


def lower_bound(
    layout: ParallelLayout,
    flows: Sequence[Flow],
    sizes: Iterable[int],
) -> float:
    """Return a lower bound of the bytes that cross a boundary in a step.

    Args:
        layout: The layout.
        flows: What is sent.
        sizes: Most ranks that every domain can hold; their sum may exceed the world
            size.
    """
    held: dict[int, float] = {}
    left = layout.world_size
    # A larger domain costs less for each rank, so the largest are filled first.
    for size, count in sorted(Counter(sizes).items(), reverse=True):
        filled = min(left, size * count)
        left -= filled
        held[size] = filled / size
    alone = 0.0
    grids: defaultdict[frozenset[str], list[_Term]] = defaultdict(list)
    for flow in flows:
        groups = layout.along(flow.axes)
        if flow.pattern is Pattern.ALL_TO_ALL:
            alone += _all_to_all(flow, groups, max(held))
        else:
            axes = tuple((axis.name, axis.size) for axis in groups.inside)
            every = frozenset(axis.name for axis in (*groups.inside, *groups.outside))
            weight = _weight(flow, groups.group_size)
            grids[every].append(_Term(axes, groups.group_size, weight))
    return alone + sum(
        _of_grid(terms, held, layout.world_size) for terms in grids.values()
    )


def _weight(flow: Flow, size: int) -> float:
    """Return the least bytes of every domain of a group after the first.

    A ring of neighbours in k domains crosses k times if k is 2 or more: k / (k - 1)
    times for every domain after the first. The factor is smallest for the largest k,
    and k is at most the size of the group.
    """
    if flow.pattern is Pattern.RING and size > 1:
        return flow.size_bytes * size / (size - 1)
    return flow.per_domain


def _all_to_all(flow: Flow, groups: Groups, largest: int) -> float:
    """Return T(n - min(n, G)) for each group: sums of m_j^2 are <= n min(n, G)."""
    size = groups.group_size
    return flow.size_bytes * (size - min(size, largest)) * len(groups)


def _of_grid(
    terms: Sequence[_Term], held: Mapping[int, float], world_size: int
) -> float:
    """Return the best bound for flows of one grid.

    The inequality needs different axes. Flows can share axes, as dp-cp and cp do. Each
    of them is counted with all of its axes, with only one of them, or separately: a
    group of dp-cp touches at least as many domains as any group of dp inside it.
    """
    best = 0.0
    for choice in product(*(_ways(term) for term in terms)):
        taken = [term for term in choice if term is not None]
        names = [name for term in taken for name, _ in term.axes]
        if len(names) == len(set(names)):
            pairs = zip(terms, choice, strict=True)
            apart = (term for term, way in pairs if way is None)
            largest = max(held)
            single = sum(_by_itself(term, largest, world_size) for term in apart)
            together = max(
                _together(taken, held, world_size),
                sum(_by_itself(term, largest, world_size) for term in taken),
            )
            best = max(best, single + together)
    return best


def _ways(term: _Term) -> Iterator[_Term | None]:
    """Yield a flow with all of its axes, with each one alone, and None."""
    yield term
    if len(term.axes) > 1:
        for name, size in term.axes:
            if size > 1:
                yield _Term(((name, size),), size, term.weight * size / term.size)
    yield None


def _by_itself(term: _Term, largest: int, world_size: int) -> float:
    """Return the bytes of groups that touch as few domains as can hold them."""
    domains = -(-term.size // largest)
    return term.weight * (domains - 1) * (world_size // term.size)


def _together(
    terms: Sequence[_Term], held: Mapping[int, float], world_size: int
) -> float:
    touched = sum(_least_touched(terms, size) * times for size, times in held.items())
    every = sum(term.weight * (world_size // term.size) for term in terms)
    return max(0.0, touched - every - _ROUNDING * every)


def _least_touched(terms: Iterable[_Term], size: int) -> float:
    """Return the least sum of w_i G/a_i of a domain of G ranks."""
    costs = [
        (term.weight * size, log(min(term.size, size))) for term in terms if term.weight
    ]
    room = log(size)
    free = sum(cost * exp(-most) for cost, most in costs)
    if sum(most for _, most in costs) <= room:
        return free  # a domain has room for whole groups of every axis

    def dual(multiplier: float) -> tuple[float, float]:
        """Return the value of the dual, and how much capacity is unused."""
        value, left = -multiplier * room, room
        for cost, most in costs:
            side = min(max(log(cost / multiplier), 0.0), most)
            value += cost * exp(-side) + multiplier * side
            left -= side
        return value, left

    low, high = 0.0, max(cost for cost, _ in costs)
    best = free
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        value, left = dual(middle)
        best = max(best, value)
        if left < 0:
            low = middle
        else:
            high = middle
    return best
