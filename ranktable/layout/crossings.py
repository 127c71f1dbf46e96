"""Which groups cross which boundary, how far they spread, and what they send."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from operator import and_, ne
from typing import TYPE_CHECKING, NamedTuple

from ranktable.layout.flow import Crossing, Pattern
from ranktable.layout.megatron import groups_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.flow import Flow
    from ranktable.layout.parallel import ParallelLayout

Owners = list[int]
"""A placement: the node of every rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisCrossing:
    """The groups along some axes at one boundary.

    Attributes:
        inside: Number of groups that lie in one domain.
        spread: The largest number of domains of one group.
        crossing: Bytes that cross, None if nothing is known to be sent.
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
        group_size: Ranks of each.
        at: What is known at every boundary, in their order.
        is_rail_aligned: Whether each group joins the same local ranks of every node
            that it touches; None if none leaves its node.
    """

    axes: str
    num_groups: int
    group_size: int
    at: tuple[AxisCrossing, ...]
    is_rail_aligned: bool | None


class Look(NamedTuple):
    """What crosses with one placement.

    Attributes:
        rows: A row for every axis, and for all axes along which is sent.
        busiest: For every boundary the domain that sends most over it, and how much.
    """

    rows: list[AxisRow]
    busiest: list[tuple[int, float]]


class Members(NamedTuple):
    """The groups of a flow, looked up by rank.

    Attributes:
        size: Ranks of a group.
        num_groups: Number of groups.
        group: The group of every rank.
        first: The first rank of its group.
        place: Its place there.
        previous: The rank before it in the group, for the first rank the last one.
    """

    size: int
    num_groups: int
    group: list[int]
    first: list[int]
    place: list[int]
    previous: list[int]


def look_up(groups: Sequence[Sequence[int]]) -> Members:
    """Return the groups of a flow, looked up by rank."""
    size, count = len(groups[0]), len(groups)
    flat = list(chain.from_iterable(groups))
    before = list(chain.from_iterable((ranks[-1], *ranks[:-1]) for ranks in groups))
    index = sorted(range(size * count), key=flat.__getitem__)
    group = [at // size for at in index]
    return Members(
        size=size,
        num_groups=count,
        group=group,
        first=[groups[at][0] for at in group],
        place=[at % size for at in index],
        previous=list(map(before.__getitem__, index)),
    )


@lru_cache(maxsize=8)  # a change asks for the groups of one layout several times
def _members(layout: ParallelLayout, axes: str) -> Members:
    return look_up(layout.groups(axes))


class Scene:
    """What does not change with the placement: groups, flows and boundaries.

    Attributes:
        layout: The layout.
        flows: What is sent; may be nothing.
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
        """Keep what is given."""
        self.shown = tuple(shown)
        self.layout = layout
        self.flows = tuple(flows)
        self.boundaries = tuple(boundaries)

    @cached_property
    def groups(self) -> tuple[list[list[int]], ...]:
        """The groups of every flow."""
        return tuple(self.layout.groups(flow.axes) for flow in self.flows)

    @cached_property
    def members(self) -> tuple[Members, ...]:
        """The groups of every flow, looked up by rank."""
        return tuple(_members(self.layout, flow.axes) for flow in self.flows)

    @cached_property
    def row_names(self) -> tuple[str, ...]:
        """The axes of every row: all of more than one rank, and all of the flows."""
        order = {name: at for at, name in enumerate(self.layout.axes)}
        names = dict.fromkeys((*(flow.axes for flow in self.flows), *self.layout.kinds))
        sent = sorted(names, key=lambda one: order.get(one.split("-")[0], len(order)))
        return tuple(dict.fromkeys((*sent, *self.shown)))

    def domains(self, owners: Owners) -> list[list[int]]:
        """Return the domain of every rank, for every boundary."""
        return [[one.domains[node] for node in owners] for one in self.boundaries]

    def totals(self, owners: Owners) -> tuple[float, ...]:
        """Return the bytes that cross every boundary in a step."""
        return tuple(
            sum(
                _crossing(flow, members, domain_of)
                for flow, members in zip(self.flows, self.members, strict=True)
            )
            for domain_of in self.domains(owners)
        )

    @cached_property
    def _row_groups(self) -> tuple[Sequence[Sequence[int]], ...]:
        return tuple(groups_named(self.layout, axes) for axes in self.row_names)

    def look(self, owners: Owners) -> Look:
        """Return what crosses with a placement."""
        senders = {flow.axes: flow for flow in self.flows}
        domains = self.domains(owners)
        local = local_ranks(owners)
        sent = [[0.0] * len(one.labels) for one in self.boundaries]
        rows = []
        for axes, groups in zip(self.row_names, self._row_groups, strict=True):
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


def _axis_crossing(
    flow: Flow | None,
    groups: Sequence[Sequence[int]],
    domain_of: list[int],
    sent: list[float],
) -> AxisCrossing:
    """Return what crosses one boundary; add what every domain sends.

    Many groups are in the same domains: those of all chips of a node, for example.
    """
    held = Counter(tuple(map(domain_of.__getitem__, ranks)) for ranks in groups)
    inside, spread, least, flat = 0, 1, 0.0, 0.0
    for domains, number in held.items():
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


def _crossing(flow: Flow, members: Members, domain_of: list[int]) -> float:
    """Return what all groups of a flow send over a boundary; see ``Flow.crossing``."""
    if flow.pattern in (Pattern.CHAIN, Pattern.RING):
        before = map(domain_of.__getitem__, members.previous)
        crossed = list(map(ne, domain_of, before))
        edges = sum(crossed)
        wraps = edges - sum(map(and_, crossed, map(bool, members.place)))
        wrap = flow.size_bytes if flow.pattern is Pattern.RING else flow.wrap_bytes
        return float((edges - wraps) * flow.size_bytes + wraps * wrap)
    parts = zip(members.group, domain_of, strict=True)
    if flow.pattern is Pattern.ALL_TO_ALL:
        held = sum(number * number for number in Counter(parts).values())
        whole = members.size**2 * members.num_groups
        return flow.size_bytes / members.size * (whole - held)
    return (len(set(parts)) - members.num_groups) * flow.per_domain


def local_ranks(owners: Owners) -> list[int]:
    """Return the place of every rank within its node."""
    seen: Counter[int] = Counter()
    local = []
    for node in owners:
        local.append(seen[node])
        seen[node] += 1
    return local


def _is_aligned(ranks: Sequence[int], owners: Owners, local: list[int]) -> bool | None:
    """Whether a group joins the same local ranks of its nodes; None inside a node."""
    nodes = [owners[rank] for rank in ranks]
    if nodes.count(nodes[0]) == len(nodes):
        return None
    if len(set(nodes)) == len(nodes):
        return len({local[rank] for rank in ranks}) == 1
    places: dict[int, list[int]] = {}
    for rank in ranks:
        places.setdefault(owners[rank], []).append(local[rank])
    first, *others = (sorted(held) for held in places.values())
    return all(held == first for held in others)
