"""Laws of plans: the bound is below everything, and a plan is never worse."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations, pairwise, permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranktable import dumps, loads
from ranktable.cluster.generate import make_table
from ranktable.layout import ParallelLayout, planning
from ranktable.layout.boundaries import Boundary, make_boundary, node_boundary
from ranktable.layout.planning import make_plan, reorder_nodes
from ranktable.layout.rack_files import read_rack_file
from ranktable.layout.traffic import (
    CostModel,
    Flow,
    Pattern,
    given_flows,
    is_reached,
    lower_bound,
)
from tests.effort import law
from tests.property.test_layout_laws import layouts

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("tp", "cp", "dp", "pp")
# The grids of which every partition into equal domains is looked at.
GRIDS = [
    ((2, 2, 2), 4),
    ((2, 4), 4),
    ((3, 4), 4),
    ((2, 2, 3), 4),
    ((2, 2, 2, 2), 8),
    ((4, 4), 8),
    ((2, 2, 3), 6),
    ((3, 4), 6),
    ((2, 2, 3), 3),
]

weights = st.lists(st.integers(0, 1000), min_size=4, max_size=4)
patterns = st.sampled_from(list(Pattern))


def make_layout(sizes: tuple[int, ...]) -> ParallelLayout:
    tp, cp, dp, pp = (*sizes, 1, 1, 1)[:4]
    return ParallelLayout(tp=tp, cp=cp, dp=dp, pp=pp, order="tp-cp-dp-pp")


def partitions(ranks: tuple[int, ...], sizes: tuple[int, ...]) -> Iterator[list[int]]:
    """Yield the domain of every rank, for all ways to fill domains of these sizes."""
    domains = [0] * len(ranks)

    def fill(left: tuple[int, ...], which: int) -> Iterator[list[int]]:
        if which == len(sizes):
            yield domains
            return
        alike = which + 1 < len(sizes) and sizes[which] == sizes[which + 1]
        for rest in combinations(left[1:] if alike else left, sizes[which] - alike):
            chosen = {left[0], *rest} if alike else {*rest}
            for rank in chosen:
                domains[rank] = which
            yield from fill(tuple(r for r in left if r not in chosen), which + 1)

    yield from fill(ranks, 0)


@cache
def touched(sizes: tuple[int, ...], volume: int) -> frozenset[tuple[int, ...]]:
    """Return the sums of k - 1 over the groups of each axis, for all partitions."""
    layout = make_layout(sizes)
    groups = [layout.groups(name) for name in NAMES]
    count = layout.world_size // volume
    ranks = tuple(range(layout.world_size))
    return frozenset(
        tuple(
            sum(len({domains[rank] for rank in group}) - 1 for group in own)
            for own in groups
        )
        for domains in partitions(ranks, (volume,) * count)
    )


def plain(number: int) -> Boundary:
    return make_boundary("node", [str(node) for node in range(number)])


@pytest.mark.parametrize(("sizes", "volume"), GRIDS)
@law(25)
@given(costs=weights)
def test_bound_is_never_above_the_best_of_all_placements(
    sizes: tuple[int, ...], volume: int, costs: list[int]
) -> None:
    layout = make_layout(sizes)
    flows = [
        Flow(axes=name, pattern=Pattern.SHARD, size_bytes=cost)
        for name, cost in zip(NAMES, costs, strict=True)
        if layout.sizes[name] > 1
    ]
    number = layout.world_size // volume

    bound = lower_bound(layout, flows, [volume] * number)
    best = min(
        sum(cost * count for cost, count in zip(costs, counts, strict=True))
        for counts in touched(sizes, volume)
    )

    assert bound <= best


@law(60)
@given(
    sizes=st.sampled_from([(2, 2, 2), (2, 4), (2, 3), (3, 3), (4, 2)]),
    domains=st.sampled_from([(4, 4), (2, 2, 2, 2), (5, 3), (6, 2), (4, 3, 1), (3, 3)]),
    choices=st.lists(st.tuples(patterns, st.integers(1, 99)), min_size=5, max_size=5),
)
def test_bound_holds_for_every_pattern_and_for_uneven_domains(
    sizes: tuple[int, ...],
    domains: tuple[int, ...],
    choices: list[tuple[Pattern, int]],
) -> None:
    layout = make_layout(sizes)
    world_size = layout.world_size
    held = tuple(sorted(domains, reverse=True))
    if sum(held) != world_size:
        held = (world_size - 2, 2)
    flows = [
        Flow(axes=axes, pattern=pattern, size_bytes=size)
        for axes, (pattern, size) in zip(
            ("tp", "cp", "dp", "dp-cp", "tp-dp"), choices, strict=True
        )
        if layout.along(axes).group_size > 1
    ]
    costs = CostModel(layout, flows, [plain(len(held))])

    bound = lower_bound(layout, flows, held)
    best = min(
        costs.totals(owners)[0] for owners in partitions(tuple(range(world_size)), held)
    )

    assert bound <= best * (1 + 1e-12)


@st.composite
def problems(
    draw: st.DrawFn,
) -> tuple[ParallelLayout, list[int], list[Flow], list[Boundary]]:
    """Draw a layout, nodes of any size, traffic along any axes, and racks."""
    layout = draw(layouts().filter(lambda one: 1 < one.world_size <= 96))
    left, sizes = layout.world_size, []
    size = draw(st.integers(1, left))
    is_even = draw(st.booleans())
    while left:
        size = min(left, size if is_even else draw(st.integers(1, left)))
        sizes.append(size)
        left -= size
    known = [*layout.kinds, *(["dp-cp"] if "dp_shard" not in layout.sizes else [])]
    flows = [
        Flow(axes=axes, pattern=draw(patterns), size_bytes=draw(st.integers(1, 10**9)))
        for axes in draw(st.lists(st.sampled_from(known), unique=True, min_size=1))
    ]
    racks = [str(draw(st.integers(0, 2))) for _ in sizes]
    is_contiguous = draw(st.booleans())
    rack = make_boundary("rack", racks, is_contiguous=is_contiguous)
    return layout, sizes, flows, [rack]


@law(60)
@given(data=st.data(), sizes=st.tuples(*[st.integers(1, 4)] * 4), pattern=patterns)
def test_bytes_are_those_of_every_group_also_where_nodes_take_blocks(
    data: st.DataObject, sizes: tuple[int, ...], pattern: Pattern
) -> None:
    layout = make_layout(sizes)
    widths = [n for n in range(1, layout.world_size + 1) if layout.world_size % n == 0]
    width = data.draw(st.sampled_from(widths))
    blocks = layout.world_size // width
    nodes = data.draw(st.lists(st.integers(0, 2), min_size=blocks, max_size=blocks))
    axes = data.draw(st.sampled_from([*NAMES, "dp-cp", "tp-cp", "tp-pp"]))
    flow = Flow(axes=axes, pattern=pattern, size_bytes=12, wrap_bytes=5)
    owners = [node for node in nodes for _ in range(width)]

    (found,) = CostModel(layout, [flow], [plain(3)]).totals(owners)

    groups = layout.groups(axes)
    crossed = (flow.crossing([owners[rank] for rank in ranks]) for ranks in groups)
    assert found == pytest.approx(sum(one.least for one in crossed))


@given(problem=problems())
def test_plan_is_a_permutation_and_never_worse(
    problem: tuple[ParallelLayout, list[int], list[Flow], list[Boundary]],
) -> None:
    layout, sizes, flows, racks = problem
    table = make_table([range(size) for size in sizes])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            planning, "MAX_EXCHANGING", 50_000
        )  # the law holds wherever it ends
        plan = make_plan(table, layout, flows=flows, boundaries=racks)
    before, after = plan.costs.totals(plan.before), plan.costs.totals(plan.after)

    assert Counter(plan.after) == Counter(plan.before)
    assert plan.is_better == (sum(after) < sum(before))
    for old, new, bound in zip(before, after, plan.bounds, strict=True):
        assert is_reached(old, new)
        assert bound <= new * (1 + 1e-12)
    for boundary in plan.costs.boundaries:
        if boundary.is_contiguous and plan.is_better:
            held = [boundary.domains[node] for node in plan.after]
            runs = 1 + sum(a != b for a, b in pairwise(held))
            assert runs == len(boundary.labels)


@law(40)
@given(problem=problems())
def test_placed_table_is_sound_and_has_the_ranks_where_they_were_put(
    problem: tuple[ParallelLayout, list[int], list[Flow], list[Boundary]],
) -> None:
    layout, sizes, flows, racks = problem
    hosts = [f"n{node}" for node in range(len(sizes))]
    table = make_table([range(size) for size in sizes], hosts=hosts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            planning, "MAX_EXCHANGING", 50_000
        )  # the law holds wherever it ends
        plan = make_plan(table, layout, flows=flows, boundaries=racks)
    placed = loads(dumps(reorder_nodes(table, plan.node_order)))
    found = [placed.node_of(rank) for rank in range(layout.world_size)]

    assert [node.host for node in found] == [hosts[node] for node in plan.after]
    for node in placed.nodes:
        ranks = [device.rank for device in node.devices]
        assert [device.device_id for device in node.devices] == [*range(len(ranks))]
        assert ranks == [*range(ranks[0], ranks[0] + len(ranks))]


def test_super_pods_keep_their_ranks_together() -> None:
    layout = ParallelLayout(tp=2, dp=4, pp=2)
    table = make_table([range(2)] * 8)
    pods = make_boundary("super pod", list("abababab"), is_contiguous=True)
    flows = [Flow(axes="dp", pattern=Pattern.SHARD, size_bytes=100)]

    plan = make_plan(table, layout, flows=flows, boundaries=[pods])

    assert plan.is_better
    assert plan.after == [node for node in (0, 2, 4, 6, 1, 3, 5, 7) for _ in "12"]
    assert node_boundary(table).domains == tuple(range(8))


pieces = st.sampled_from(
    [
        *("SwitchName=", "Nodes=", "Switches=", "Level=0", "s1", "s2", "host rack\n"),
        *("n1", "n[1-3]", "n[1-99999999]", "n1 r1\n", "=", ",", " ", "\n", "\\\n"),
        *("#", "\t", "[", "]", "\0", "\ufeff"),
    ]
)


@settings(deadline=None)
@given(parts=st.lists(pieces | st.text(max_size=3), max_size=25))
def test_any_text_is_a_file_of_racks_or_has_a_diagnostic(parts: list[str]) -> None:
    data = "".join(parts).encode(errors="surrogatepass")

    report, hierarchy = read_rack_file(data, file="t")

    assert (hierarchy is None) == (not report.ok)
    for level in hierarchy.levels if hierarchy else ():
        assert level.groups


@given(
    st.sampled_from([(2, 1, 4), (1, 2, 4), (2, 2, 2), (4, 1, 2), (1, 4, 2)]),
    st.permutations(range(4)),
    st.lists(st.integers(1, 9), min_size=3, max_size=3),
)
@law(40)
def test_no_order_of_a_few_nodes_is_better(
    sizes: tuple[int, int, int], racks: list[int], weights: list[int]
) -> None:
    tp, pp, dp = sizes
    layout = ParallelLayout(tp=tp, pp=pp, dp=dp)
    table = make_table([range(2)] * 4)
    given_ = zip(("tp", "pp", "dp"), (tp, pp, dp), weights, strict=True)
    flows = given_flows({axes: w for axes, n, w in given_ if n > 1}, layout)
    rack = make_boundary("rack", [str(one // 2) for one in racks])

    plan = make_plan(table, layout, flows=flows, boundaries=[rack])

    before = plan.costs.totals(plan.before)
    best = min(
        sum(totals)
        for order in permutations(range(4))
        for totals in [plan.costs.totals([n for n in order for _ in range(2)])]
        if all(a <= b + 1e-6 for a, b in zip(totals, before, strict=True))
    )
    assert sum(plan.costs.totals(plan.after)) == pytest.approx(best)
