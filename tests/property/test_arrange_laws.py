"""Laws of the priorities of a change: no other arrangement is better."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ranktable.layout import ParallelLayout
from ranktable.layout.arrangements import is_contiguous
from ranktable.layout.boundaries import make_boundary
from ranktable.layout.change.arrange import ArrangementRequest, arrange
from ranktable.layout.change.assign import Chip, Place
from ranktable.layout.change.roles import roles
from ranktable.layout.change.site import Site
from ranktable.layout.crossings import CostModel
from ranktable.schema.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

LADDER = Topology("ladder", 6, frozenset({(0, 1), (1, 2), (2, 3), (0, 3)}))
"""Four chips that form a ring, and two that no link joins to others."""

Cost = tuple[int, float, int, int]


@st.composite
def jobs(draw: st.DrawFn) -> ArrangementRequest:
    """Draw chips that had ranks of one layout, and the places of another."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    while sum(sizes) > 7:
        sizes.pop()
    count = sum(sizes)
    world = draw(st.integers(1, count))
    divisors = [n for n in range(1, world + 1) if world % n == 0]
    tp = draw(st.sampled_from(divisors))
    pp = draw(st.sampled_from([n for n in divisors if (world // tp) % n == 0]))
    order = draw(st.sampled_from(["tp-dp-pp", "tp-pp-dp", "dp-tp-pp"]))
    after = ParallelLayout(tp=tp, pp=pp, dp=-1, world_size=world, order=order)
    before = ParallelLayout(
        tp=tp, pp=pp, dp=after.dp + draw(st.integers(0, 2)), order=order
    )
    held = roles(before)
    ranks = draw(st.permutations(range(max(before.world_size, count))))
    is_tidy = draw(st.booleans())
    chips: list[Chip] = []
    for node, size in enumerate(sizes):
        first = draw(st.sampled_from([0, 0, 2]))
        for device_id in range(first, first + size):
            rank: int | None = len(chips) if is_tidy else ranks[len(chips)]
            if rank is None or rank >= before.world_size:
                rank = None
            role, copy = held[rank] if rank is not None else (None, None)
            chips.append(Chip(rank, role, copy, node, device_id))
    labels = draw(st.lists(st.sampled_from("ab"), min_size=len(sizes), max_size=4))
    boundaries = [make_boundary("node", list(map(str, range(len(sizes)))))]
    if draw(st.booleans()):
        boundaries.append(make_boundary("rack", labels[: len(sizes)]))
    return ArrangementRequest(
        chips=chips,
        places=[Place(role=role, copy=copy) for role, copy in roles(after)],
        costs=CostModel(after, Site().flows(after), boundaries),
        is_free=draw(st.sampled_from([False, False, True])),
        links=draw(st.sampled_from([None, None, LADDER])),
    )


def cost(job: ArrangementRequest, carriers: Sequence[int]) -> Cost:
    """Compute the cost as the documentation says, without optimisation."""
    assert job.costs is not None
    chips = [job.chips[at] for at in carriers]
    sent = 0.0
    for boundary in job.costs.boundaries:
        for flow in job.costs.flows:
            for ranks in job.costs.layout.groups(flow.axes):
                domains = [boundary.domains[chips[rank].node] for rank in ranks]
                sent += flow.crossing(domains).least
    rings = 0
    for node in {chip.node for chip in chips} if job.links else ():
        ids = [chip.device_id for chip in chips if chip.node == node]
        assert job.links is not None
        rings += bool(job.links.broken_links(ids))
    loads = sum(
        chip.rank is None or chip.role != place.role
        for chip, place in zip(chips, job.places, strict=True)
    )
    moves = sum(chip.rank not in (None, rank) for rank, chip in enumerate(chips))
    return rings, round(sent), loads, moves


def is_sound(job: ArrangementRequest, carriers: Sequence[int]) -> bool:
    return job.is_free or is_contiguous([job.chips[at].node for at in carriers])


def alternating_racks() -> ArrangementRequest:
    """Return four nodes of one chip, the neighbours of a group in different racks.

    Only the racks tell which placement is the best, which few of the drawn jobs show.
    """
    layout = ParallelLayout(tp=2, dp=2, order="tp-dp-pp")
    boundaries = [make_boundary("node", "0123"), make_boundary("rack", "abab")]
    held = roles(layout)
    return ArrangementRequest(
        chips=[Chip(rank, *held[rank], rank, 0) for rank in range(4)],
        places=[Place(role=role, copy=copy) for role, copy in held],
        costs=CostModel(layout, Site().flows(layout), boundaries),
        is_free=False,
        links=None,
    )


def ring_on_a_new_node() -> ArrangementRequest:
    """Return two nodes of two chips, of which only the new one has a link.

    Nodes of one size tell the weight of a ring apart from that of a role.
    """
    layout = ParallelLayout(tp=2)
    held = roles(layout)
    old = [Chip(rank, *held[rank], 0, chip) for rank, chip in enumerate((3, 4))]
    return ArrangementRequest(
        chips=[*old, Chip(None, None, None, 1, 0), Chip(None, None, None, 1, 1)],
        places=[Place(role=role, copy=copy) for role, copy in held],
        costs=CostModel(layout, Site().flows(layout), [make_boundary("node", "ab")]),
        is_free=False,
        links=LADDER,
    )


@given(jobs())
@example(alternating_racks())
@example(ring_on_a_new_node())
@settings(max_examples=150, deadline=None)
def test_nothing_that_could_be_done_instead_is_better(job: ArrangementRequest) -> None:
    found = arrange(job)

    every = permutations(range(len(job.chips)), len(job.places))
    best = min(cost(job, one) for one in every if is_sound(job, one))
    assert is_sound(job, found.carriers)
    assert len(set(found.carriers)) == len(job.places)
    mine = cost(job, found.carriers)
    assert mine >= best
    assert found.is_optimal
    assert mine == best
    assert sum(found.bounds) <= best[1] + 1
    assert job.costs is not None
    assert round(sum(found.sent)) == best[1]
