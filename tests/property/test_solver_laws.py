"""Placements after a change, against every placement of a few ranks."""

from __future__ import annotations

from itertools import combinations, pairwise, permutations
from typing import TYPE_CHECKING

from hypothesis import assume, given
from hypothesis import strategies as st

from ranktable.layout import ParallelLayout, make_boundary
from ranktable.layout.change.placement import tight_groups
from ranktable.layout.parallel import roles
from ranktable.layout.solver import (
    Chip,
    Cost,
    Held,
    PlacementRequest,
    best_order,
    solve,
)
from ranktable.layout.traffic import CostModel, given_flows
from ranktable.schema.topology import SOPHGO_8
from tests.effort import law

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_RANKS = 8
MOST_NODES = 5


def every_order(
    members: dict[int, list[int]], size: int
) -> Iterator[list[tuple[int, int]]]:
    """Yield every way to give consecutive ranks to nodes, each at most once."""
    for number in range(1, len(members) + 1):
        for nodes in permutations(members, number):
            for cuts in combinations(range(1, size), number - 1):
                counts = [b - a for a, b in pairwise((0, *cuts, size))]
                blocks = list(zip(nodes, counts, strict=True))
                if all(count <= len(members[node]) for node, count in blocks):
                    yield blocks


def cost_of(request: PlacementRequest, carriers: Sequence[int]) -> Cost:
    """Return the cost of a placement, worked out chip by chip."""
    chips = [request.chips[at] for at in carriers]
    nodes = [chip.node for chip in chips]
    open_rings = 0
    for node in set(nodes) if request.links else ():
        ids = [chip.device_id for chip in chips if chip.node == node]
        assert request.links is not None
        open_rings += bool(request.links.broken_links(ids))
    groups = request.tight or ()
    pairs = list(zip(chips, request.roles, strict=True))
    totals = request.costs.totals(nodes) if request.costs else (0,)
    return Cost(
        open_rings=open_rings,
        split_groups=sum(len({nodes[rank] for rank in ranks}) > 1 for ranks in groups),
        loads=sum(chip.rank is None or chip.role != role for chip, role in pairs),
        moves=sum(chip.rank not in (None, at) for at, chip in enumerate(chips)),
        over_racks=round(sum(totals[1:])),
        over_nodes=round(totals[0]),
    )


def least(request: PlacementRequest) -> Cost:
    """Return the lowest cost of all placements, without the bytes."""
    members: dict[int, list[int]] = {}
    for at, chip in enumerate(request.chips):
        members.setdefault(chip.node, []).append(at)
    plain = PlacementRequest(
        chips=request.chips,
        roles=request.roles,
        tight=request.tight,
        links=request.links,
    )
    known: dict[tuple[int, int, int], tuple[int, ...]] = {}
    best: Cost | None = None
    for blocks in every_order(members, len(request.roles)):
        carriers: list[int] = []
        for node, count in blocks:
            key = node, len(carriers), count
            if key not in known:  # it costs the same wherever the other nodes are
                orders = permutations(members[node], count)
                known[key] = min(orders, key=lambda one: _inside(plain, one, key[1]))
            carriers += known[key]
        cost = cost_of(plain, carriers)
        best = cost if best is None else min(best, cost)
    assert best is not None
    return best


def _inside(
    request: PlacementRequest, order: Sequence[int], first: int
) -> tuple[int, int, int]:
    chips = [request.chips[at] for at in order]
    is_open = request.links is not None and bool(
        request.links.broken_links([chip.device_id for chip in chips])
    )
    pairs = zip(chips, request.roles[first:], strict=False)
    loads = sum(chip.rank is None or chip.role != role for chip, role in pairs)
    moves = sum(chip.rank not in (None, first + at) for at, chip in enumerate(chips))
    return is_open, loads, moves


@st.composite
def jobs(draw: st.DrawFn) -> PlacementRequest:
    """Draw a job that lost some of its chips, and perhaps has new ones."""
    tp, pp = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2]))
    copy = tp * pp
    dp = draw(st.integers(1, MOST_RANKS // copy))
    order = draw(st.sampled_from(["tp-dp-pp", "tp-pp-dp", "dp-tp-pp", "pp-tp-dp"]))
    before = ParallelLayout(tp=tp, pp=pp, dp=dp, order=order)
    sizes, left = [], before.world_size
    while left:
        sizes.append(min(left, draw(st.integers(1, 4))))
        left -= sizes[-1]
    held = roles(before)
    ring = (0, 1, 3, 2) if draw(st.booleans()) else range(4)
    chips, rank = [], 0
    for node, size in enumerate(sizes):
        for chip in range(size):
            chips.append(Chip(node, ring[chip], rank, held[rank]))
            rank += 1
    assume(len(sizes) <= MOST_NODES)
    lost = draw(st.sets(st.integers(0, rank - 1), max_size=rank - 1))
    chips = [chip for chip in chips if chip.rank not in lost]
    for node in range(len(sizes), len(sizes) + draw(st.integers(0, 2))):
        chips += [Chip(node, chip) for chip in range(draw(st.integers(1, 3)))]
    dp = min(len(chips), before.world_size) // copy
    if not dp:
        chips += [Chip(9, chip) for chip in range(copy)]
        dp = 1
    after = ParallelLayout(tp=tp, pp=pp, dp=dp, order=order)
    number = 1 + max(chip.node for chip in chips)
    racks = [make_boundary("rack", [str(node % 2) for node in range(number)])]
    nodes = make_boundary("node", [str(node) for node in range(number)])
    sizes_of = dict.fromkeys(after.kinds, 100.0)
    costs = CostModel(after, given_flows(sizes_of, after), [nodes, *racks])
    return PlacementRequest(
        chips=chips,
        roles=roles(after),
        costs=costs,
        tight=tight_groups(after),
        links=SOPHGO_8 if draw(st.booleans()) else None,
    )


@given(jobs())
@law(150)
def test_no_placement_of_a_few_ranks_costs_less(request: PlacementRequest) -> None:
    carriers, cost = solve(request)

    assert len(set(carriers)) == len(request.roles)
    assert cost == cost_of(request, carriers)
    assert cost[:4] == least(request)[:4]


def test_a_chip_keeps_its_rank_if_another_has_the_role_too() -> None:
    held = [Held(None, "a", 0), Held(None, "b", -1)]
    order, cost = best_order(held, ["b", "b"], None)

    assert (order, cost.loads, cost.moves) == ((0, 1), 1, 1)
