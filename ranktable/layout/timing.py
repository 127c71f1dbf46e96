"""Bytes as a time: what the busiest domain sends in a step, divided by bandwidth."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.traffic import Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.layout.crossings import CostModel, Owners
    from ranktable.layout.planning import Plan
    from ranktable.layout.traffic import Flow

INSIDE = "intra"
"""The boundary name for bytes between ranks of one node."""


class StepTime(NamedTuple):
    """How long a step sends over one boundary.

    Attributes:
        boundary: Its name, or ``intra`` for bytes that stay inside nodes.
        busiest: The domain, or the rank, that sends most.
        size_bytes: Bytes that it sends in a step.
        bandwidth: Bytes per second that it can send.
    """

    boundary: str
    busiest: str
    size_bytes: float
    bandwidth: float

    @property
    def seconds(self) -> float:
        """Time in seconds."""
        return self.size_bytes / self.bandwidth


class PlanTimes(NamedTuple):
    """The times of a plan: with the placement of the table, and the better one."""

    before: list[StepTime]
    after: list[StepTime]


def plan_times(plan: Plan, bandwidths: Mapping[str, float]) -> PlanTimes:
    """Return the times of a step with the placement of the table and the better one.

    Raises:
        LayoutError: There is no such boundary.
    """
    before = step_times(plan.costs, plan.before, bandwidths)
    if not plan.is_better:
        return PlanTimes(before, before)
    return PlanTimes(before, step_times(plan.costs, plan.after, bandwidths))


def step_times(
    costs: CostModel, owners: Owners, bandwidths: Mapping[str, float]
) -> list[StepTime]:
    """Return the time of a step at every boundary whose bandwidth is known.

    Args:
        costs: Groups, flows and boundaries.
        owners: The node of every rank.
        bandwidths: Bytes per second in one direction, by the name of the boundary: of
            one rank for ``intra``, of the links out of one node for ``node``, and so
            on.

    Raises:
        LayoutError: There is no such boundary, or it is not known what is sent.
    """
    names = (INSIDE, *(one.name for one in costs.boundaries))
    for name in bandwidths:
        if name not in names:
            raise LayoutError(
                f"there is no boundary {name!r}; there are {', '.join(names)}"
            )
    found = []
    if INSIDE in bandwidths:
        rank, size = _busiest_rank(costs, owners)
        found.append(StepTime(INSIDE, f"rank {rank}", size, bandwidths[INSIDE]))
    pairs = zip(costs.boundaries, costs.look(owners).busiest, strict=True)
    for boundary, (domain, size) in pairs:
        if boundary.name in bandwidths:
            label = boundary.labels[domain]
            found.append(
                StepTime(boundary.name, label, size, bandwidths[boundary.name])
            )
    return found


def _busiest_rank(costs: CostModel, owners: Owners) -> tuple[int, float]:
    """Return the rank that sends most within its node, and its bytes."""
    sent: defaultdict[int, float] = defaultdict(float)
    for flow, groups in zip(costs.flows, costs.groups, strict=True):
        for ranks in groups:
            _add_inside(flow, ranks, owners, sent)
    most = max(sent.values(), default=0.0)
    return min((rank for rank in sent if sent[rank] == most), default=0), most


def _add_inside(
    flow: Flow, ranks: Sequence[int], owners: Owners, sent: defaultdict[int, float]
) -> None:
    """Add the bytes that every rank of a group sends to members on its node."""
    if flow.pattern in (Pattern.CHAIN, Pattern.RING):
        _add_edges_inside(flow, ranks, owners, sent)
        return
    nodes: defaultdict[int, list[int]] = defaultdict(list)
    for rank in ranks:
        nodes[owners[rank]].append(rank)
    for held in nodes.values():
        if len(held) == 1:
            continue
        if flow.pattern is Pattern.ALL_TO_ALL:
            each = flow.size_bytes / len(ranks) * (len(held) - 1)
        else:
            each = flow.per_domain * (len(held) - 1) / len(held)
        for rank in held:
            sent[rank] += each


def _add_edges_inside(
    flow: Flow, ranks: Sequence[int], owners: Owners, sent: defaultdict[int, float]
) -> None:
    """Add the bytes over the edges of a chain or a ring that stay on a node."""
    is_ring = flow.pattern is Pattern.RING
    for place, rank in enumerate(ranks):
        is_wrap = place == len(ranks) - 1
        other = ranks[0] if is_wrap else ranks[place + 1]
        if owners[rank] == owners[other]:
            size = flow.wrap_bytes if is_wrap and not is_ring else flow.size_bytes
            sent[rank] += size if is_ring else size / 2
            sent[other] += 0 if is_ring else size / 2
