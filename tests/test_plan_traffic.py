"""The worked example, digit by digit; formulae of traffic; what one group sends."""

from __future__ import annotations

import random

import pytest

from ranktable.cluster.generate import make_table
from ranktable.layout import LayoutError, ParallelLayout
from ranktable.layout.boundaries import make_boundary
from ranktable.layout.planning import _exchanged, make_plan
from ranktable.layout.traffic import (
    GIB,
    CostModel,
    Crossing,
    Flow,
    Model,
    Pattern,
    given_flows,
    is_reached,
    model_flows,
    parse_size,
)

MIB = 1 << 20
MODEL = Model(layers=32, hidden=4096, sequence=4096, microbatches=16)
TABLE = make_table([range(8)] * 8)
RACKS = make_boundary("rack", [f"r{node // 4}" for node in range(8)])
IN_ORDER = [rank // 8 for rank in range(64)]
CYCLIC = [rank % 8 for rank in range(64)]
SHUFFLED = IN_ORDER.copy()
random.Random(0).shuffle(SHUFFLED)  # noqa: S311 - the shuffle of the example
INTERLEAVED = [(0, 4, 1, 5, 2, 6, 3, 7)[rank // 8] for rank in range(64)]


def test_nodes_are_exchanged_until_no_group_crosses_racks() -> None:
    layout = ParallelLayout(tp=2, dp=4, order="tp-dp")
    flows = [Flow(axes="tp", pattern=Pattern.SHARD, size_bytes=8)]
    costs = CostModel(layout, flows, [RACKS])
    owners = [0, 4, 1, 5, 2, 6, 3, 7]
    exchanged = _exchanged(costs, owners, costs.totals(owners))

    assert sorted(exchanged) == list(range(8))
    assert sum(costs.totals(exchanged)) == 0


def test_exchanges_are_tried_again_after_one_that_helped() -> None:
    layout = ParallelLayout(tp=2, pp=2, dp=2)
    flows = [
        Flow(axes=axes, pattern=Pattern.SHARD, size_bytes=size)
        for axes, size in (("tp", 8), ("pp", 3), ("dp", 5))
    ]
    pairs = make_boundary("rack", [f"r{node // 2}" for node in range(8)])
    costs = CostModel(layout, flows, [pairs])
    owners = [5, 2, 3, 1, 7, 4, 6, 0]
    exchanged = _exchanged(costs, owners, costs.totals(owners))

    assert sum(costs.totals(exchanged)) == 32  # one look at all pairs comes to 38


@pytest.mark.parametrize(
    ("order", "owners", "node", "flat", "rack", "spread"),
    [
        ("tp-dp-pp", IN_ORDER, (0, 36, 12), 66, 4, (1, 2, 4)),
        ("tp-pp-dp", IN_ORDER, (0, 108, 4), 112, 36, (1, 4, 2)),
        ("dp-tp-pp", IN_ORDER, (512, 0, 12), 780, 4, (2, 1, 4)),
        ("pp-dp-tp", IN_ORDER, (1536, 36, 0), 1590, 512, (4, 2, 1)),
        ("tp-dp-pp", CYCLIC, (1536, 36, 0), 1644, 36, (4, 2, 1)),
        ("tp-dp-pp", INTERLEAVED, (0, 36, 12), 66, 36, (1, 2, 4)),
        ("tp-dp-pp", SHUFFLED, (1216, 74.25, 11), 1478.5625, 546.75, (4, 4, 4)),
    ],
)
def test_worked_example_has_these_digits(
    order: str,
    owners: list[int],
    node: tuple[float, ...],
    flat: float,
    rack: float,
    spread: tuple[int, ...],
) -> None:
    layout = ParallelLayout(tp=4, dp=4, pp=4, order=order)
    flows = model_flows(MODEL, layout)

    plan = make_plan(TABLE, layout, flows=flows, boundaries=[RACKS])
    rows = {row.axes: row for row in plan.costs.summary(owners).rows}
    found = [rows[axes].at[0] for axes in ("tp", "dp", "pp")]
    sent = [one.crossing or Crossing(-1, -1) for one in found]

    assert [one.least / GIB for one in sent] == list(node)
    assert sum(one.flat for one in sent) / GIB == flat
    assert [one.spread for one in found] == list(spread)
    assert [total / GIB for total in plan.costs.totals(owners)] == [sum(node), rack]
    for bound, least in zip(plan.bounds, (48, 4), strict=True):
        assert bound / GIB == pytest.approx(least, rel=1e-9)
        assert bound <= least * GIB
        assert is_reached(bound, least * GIB)


def test_sizes_of_the_example_follow_from_the_model() -> None:
    layout = ParallelLayout(tp=4, dp=4, pp=4)

    flows = {flow.axes: flow for flow in model_flows(MODEL, layout)}

    assert {axes: flow.size_bytes for axes, flow in flows.items()} == {
        "tp": 16 * GIB,
        "dp": 2.25 * GIB,
        "pp": 256 * MIB,
    }
    assert flows["pp"].wrap_bytes == 0


def test_counts_and_rails_of_the_example() -> None:
    layout = ParallelLayout(tp=4, dp=4, pp=4)
    plan = make_plan(TABLE, layout, boundaries=[RACKS])
    rows = plan.costs.summary(plan.before).rows

    assert [
        (row.axes, row.num_groups, row.group_size, *(one.inside for one in row.at))
        for row in rows
    ] == [("tp", 16, 4, 16, 16), ("dp", 16, 4, 0, 16), ("pp", 16, 4, 0, 0)]
    assert [row.is_rail_aligned for row in rows] == [None, True, True]
    assert all(one.crossing is None for row in rows for one in row.at)


def test_groups_that_join_different_local_ranks_are_off_the_rails() -> None:
    layout = ParallelLayout(tp=4, dp=2)
    plan = make_plan(make_table([range(3), range(5)]), layout)

    assert [row.is_rail_aligned for row in plan.costs.summary(plan.before).rows] == [
        False,
        False,
    ]


def test_all_to_all_of_the_example_crosses_this() -> None:
    """Tokens 4096, topk 8, hidden 4096: 0.25 GiB a rank and dispatch."""
    model = Model(layers=1, hidden=4096, sequence=4096, microbatches=1, topk=8)
    layout = ParallelLayout(dp=16, ep=16)
    flow = next(flow for flow in model_flows(model, layout) if flow.axes == "ep")
    one = Flow(axes="ep", pattern=flow.pattern, size_bytes=flow.size_bytes / 4)

    def crossing(nodes: int) -> float:
        return one.crossing([rank * nodes // 16 for rank in range(16)]).least / GIB

    assert one.size_bytes == 0.25 * GIB
    assert [crossing(nodes) for nodes in (1, 2, 4, 16)] == [0, 2.0, 3.0, 3.75]


@pytest.mark.parametrize(
    ("pattern", "domains", "least", "flat"),
    [
        (Pattern.ALL_REDUCE, [0, 0, 0], 0, 0),
        (Pattern.ALL_REDUCE, [0, 0, 1, 1], 24, 36),
        (Pattern.ALL_REDUCE, [0, 1, 0, 1], 24, 72),
        (Pattern.SHARD, [0, 1, 2, 2], 24, 27),
        (Pattern.CHAIN, [0, 0, 1, 2], 24, 24),
        (Pattern.RING, [0, 0, 1, 2], 36, 36),
        (Pattern.RING, [0, 1], 24, 24),
        (Pattern.ALL_TO_ALL, [0, 0, 1, 1], 24, 24),
    ],
)
def test_one_group_sends_this(
    pattern: Pattern, domains: list[int], least: float, flat: float
) -> None:
    flow = Flow(axes="tp", pattern=pattern, size_bytes=12)

    assert flow.crossing(domains) == (least, flat)
    assert sum(flow.sent_by(domains).values()) == pytest.approx(least)


def test_interleaved_stages_wrap_around() -> None:
    model = Model(layers=32, hidden=4096, sequence=4096, microbatches=16, interleave=2)
    layout = ParallelLayout(tp=4, dp=4, pp=4)
    (flow,) = (flow for flow in model_flows(model, layout) if flow.axes == "pp")

    # v pp - 1 hops: seven, of which one wraps.
    assert flow.crossing([0, 1, 2, 3]).least / (256 * MIB) == 7
    assert sum(flow.sent_by([0, 1, 2, 3]).values()) / (256 * MIB) == 7


def test_context_parallel_joins_the_gradients_and_goes_around_a_ring() -> None:
    layout = ParallelLayout(tp=2, cp=4, dp=2)
    flows = {flow.axes: flow for flow in model_flows(MODEL, layout)}
    kv = 2 * (2 * 4096 // 4) * 4096 / 2

    assert flows["dp-cp"].pattern is Pattern.SHARD
    assert flows["cp"].size_bytes == 3 * 3 * kv * 32 * 16
    assert flows["tp"].size_bytes == 4 * (2 * 4096 // 4 * 4096) * 32 * 16


def test_copies_of_a_sharded_model_all_reduce_their_shards() -> None:
    layout = ParallelLayout(dp=8, dp_replicate=2)
    flows = {flow.axes: flow for flow in model_flows(MODEL, layout)}
    parameters = 12 * 32 * 4096**2

    assert flows["dp_shard"].size_bytes == 6 * parameters
    assert flows["dp_replicate"].size_bytes == 4 * parameters / 4
    assert flows["dp_replicate"].pattern is Pattern.ALL_REDUCE


def test_experts_need_to_know_how_many_a_token_goes_to() -> None:
    with pytest.raises(LayoutError, match="ep is 4, and the number of experts"):
        model_flows(MODEL, ParallelLayout(dp=8, ep=4))


def test_bytes_are_given_by_axes() -> None:
    layout = ParallelLayout(tp=4, cp=2, pp=4)
    flows = given_flows({"tp": 5.0, "dp-cp": 6.0, "pp": 7.0}, layout)

    assert [(flow.axes, flow.pattern, flow.size_bytes) for flow in flows] == [
        ("tp", Pattern.ALL_REDUCE, 5),
        ("dp-cp", Pattern.SHARD, 6),
        ("pp", Pattern.CHAIN, 7),
    ]
    with pytest.raises(LayoutError, match="dp is 1, so nothing is sent along it"):
        given_flows({"dp": 1}, layout)
    with pytest.raises(LayoutError, match="there is no axis 'xx'"):
        given_flows({"xx": 1}, layout)


def test_sizes_are_numbers_with_a_unit() -> None:
    texts = ("16GiB", "2.25GiB", "256MiB", "1.5kB", "7B", "2TB")

    assert [parse_size(text) for text in texts] == [
        *(16 * GIB, 2.25 * GIB, 256 * MIB, 1500, 7, 2 * 10**12)
    ]
    for text in ("", "16", "GiB", "-1GiB", "1 GiB", "1gib", "nanGiB", "1e3B", "1KB"):
        with pytest.raises(LayoutError, match="not a number of bytes"):
            parse_size(text)


def test_a_layout_of_another_size_is_refused() -> None:
    with pytest.raises(LayoutError, match="the table has 64 ranks"):
        make_plan(TABLE, ParallelLayout(tp=4))


def test_parameters_of_experts_are_sent_along_edp_alone() -> None:
    """Of 300 billion all but attention are the experts', each of which one rank has."""
    model = Model(
        layers=32,
        hidden=4096,
        sequence=4096,
        microbatches=16,
        topk=2,
        parameters=300 * 10**9,
    )
    attention = 4 * 32 * 4096**2

    alone = {f.axes: f for f in model_flows(model, ParallelLayout(dp=64, ep=64))}
    two = {f.axes: f for f in model_flows(model, ParallelLayout(dp=128, ep=64))}

    assert alone.keys() == {"dp", "ep"}
    assert alone["dp"].size_bytes == 6 * attention
    assert two["edp"].size_bytes == 6 * (300 * 10**9 - attention) / 64


@pytest.mark.parametrize(
    ("more", "experts"),
    [
        ({}, 8 * 8 * 4 * 64),  # one expert for each of 8 ranks
        ({"experts": 16}, 16 * 8 * 4 * 64),
        ({"expert_parameters": 1000}, 1000),
        ({"parameters": 5024, "expert_parameters": 1000}, 1000),
        ({"parameters": 5024}, 4000),
    ],
)
def test_experts_are_counted_as_they_are_described(
    more: dict[str, int], experts: int
) -> None:
    model = Model(layers=4, hidden=8, sequence=8, microbatches=1, topk=2, **more)

    flows = {f.axes: f for f in model_flows(model, ParallelLayout(dp=16, ep=8))}

    assert flows["edp"].size_bytes == 6 * experts / 8
    rest = model.parameters - experts if model.parameters else 4 * 4 * 64
    assert flows["dp"].size_bytes == 6 * rest


def test_copies_all_reduce_the_shards_of_experts_too() -> None:
    model = Model(
        layers=4,
        hidden=8,
        sequence=8,
        microbatches=1,
        topk=2,
        parameters=3000,
        expert_parameters=1000,
    )
    layout = ParallelLayout.preset("torchtitan", dp=16, dp_replicate=2, ep=4)

    flows = {f.axes: f.size_bytes for f in model_flows(model, layout)}

    assert flows["dp_shard"] == 6 * 2000
    assert flows["edp"] == 6 * 1000 / 4
    assert flows["dp_replicate"] == 4 * (2000 / 8 + 1000 / 8)


def test_more_experts_than_parameters_are_refused() -> None:
    model = Model(
        layers=4, hidden=8, sequence=8, microbatches=1, topk=2, parameters=1000
    )

    with pytest.raises(LayoutError, match="1000 parameters do not hold those of the"):
        model_flows(model, ParallelLayout(dp=16, ep=8))
