"""What matters when a table changes, tried as an operator would try it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.layout import ParallelLayout, fit
from ranktable.layout.change import ChangeError
from ranktable.layout.change.facts import CostFacts
from ranktable.layout.parallel import remembered, remembering
from ranktable.schema.model import Device, Node
from ranktable.schema.topology import SOPHGO_8
from ranktable.schema.writing import dumps

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_shrink_keeps_groups_inside_uneven_nodes() -> None:
    table = make_table(
        [range(n) for n in (8, 8, 4, 4, 8)], hosts=["b0", "b1", "b2", "b3", "b4"]
    )
    layout = ParallelLayout(tp=8, dp=4)

    found = fit(table, layout, lost=["b1"])

    whole = [len(node.devices) for node in found.table.nodes]
    assert whole == [8, 8, 4, 4]
    (sent,) = found.diff.crossed
    assert sent.after == pytest.approx(sent.bound)


@pytest.mark.parametrize(
    ("tp", "pp", "lost", "role_moves", "rank_moves"),
    [
        # The last node fills the gap, and the node that lost a chip follows at the end.
        (1, 1, [100], 0, 15),
        # The last nodes fill the gaps of twelve that lost a chip.
        (8, 8, range(7, 2048, 180), 30, 130),
    ],
)
def test_lost_chips_do_not_shift_the_ranks_of_other_nodes(
    tp: int, pp: int, lost: Sequence[int], role_moves: int, rank_moves: int
) -> None:
    table = make_table([range(8)] * 256, hosts=[f"n{at}" for at in range(256)])
    layout = ParallelLayout(tp=tp, pp=pp, dp=2048 // (tp * pp), order="tp-pp-dp")

    found = fit(table, layout, lost_chips={f"n{at // 8}": [at % 8] for at in lost})

    assert len(found.diff.role_moves) <= role_moves
    assert len(found.diff.rank_moves) <= rank_moves


def test_node_that_could_stay_moves_if_fewer_chips_load_other_weights() -> None:
    sizes = [8] * 7 + [1] + [8] * 9 + [7]
    table = make_table(
        [range(size) for size in sizes], hosts=[f"n{at}" for at in range(18)]
    )

    found = fit(table, ParallelLayout(pp=4, dp=34), lost_chips={"n11": [5]})

    # The node of one chip could stay behind two others; it goes before them.
    assert [node.host for node in found.table.nodes[4:8]] == ["n4", "n7", "n5", "n6"]
    assert (len(found.diff.role_moves), len(found.diff.rank_moves)) == (3, 21)


def test_shrink_keeps_roles_inside_super_pods() -> None:
    nodes = make_table([range(8)] * 512, hosts=[f"n{at}" for at in range(512)]).nodes
    table = ranktable.RankTable(
        nodes=[
            Node(devices=node.devices, host=node.host, super_pod=str(at // 16))
            for at, node in enumerate(nodes)
        ]
    )
    layout = ParallelLayout(tp=8, dp=128, pp=4, order="tp-cp-dp-pp")

    found = fit(table, layout, lost=["n3"])

    assert found.layouts is not None
    assert found.layouts[1].dp == 127
    assert found.diff.role_moves == ()


def test_shrink_is_minimal_in_roles_where_bytes_are_equal() -> None:
    table = make_table([range(2)] * 3, hosts=["a", "b", "c"])

    found = fit(table, ParallelLayout(tp=3, dp=2), lost=["a"])

    # Chips 2 and 0 of the groups are left on b, and 1 and 2 on c: all three roles.
    assert found.table.world_size == 3
    assert found.diff.role_moves == ()


@pytest.mark.parametrize("sizes", [(4, 1, 5, 1, 3), (2, 2, 2, 2)])
@pytest.mark.parametrize("more", [1, 3])
def test_larger_new_node_leaves_the_others_alone(
    sizes: Sequence[int], more: int
) -> None:
    # The new one takes only the ranks that are free, also within its super pod.
    hosts = [f"n{at}" for at in range(len(sizes))]
    nodes = make_table([range(size) for size in sizes], hosts=hosts).nodes
    table = ranktable.RankTable(
        nodes=[
            Node(devices=node.devices, host=node.host, super_pod=str(at // 2))
            for at, node in enumerate(nodes)
        ]
    )
    (new,) = make_table([range(sizes[0] + more)], hosts=["x"]).nodes

    found = fit(table, lost=["n0"], using=[new])

    assert found.table.hosts == ("x", *hosts[1:])
    assert found.moves == ()
    assert [len(spare.devices) for spare in found.table.spares] == [more]


def test_new_node_that_fits_takes_the_place_of_the_lost_one() -> None:
    table = make_table([range(2)] * 2, hosts=["n0", "n1"])
    new = make_table([range(4), range(2)], hosts=["large", "fits"]).nodes

    found = fit(table, lost=["n1"], using=new)

    assert found.table.hosts == ("n0", "fits")


@pytest.mark.parametrize(
    "layout",
    [
        ParallelLayout(tp=2, ep=4, etp=1, dp=4),
        ParallelLayout(tp=2, ep=2, etp=2, dp=4, pp=2),
        ParallelLayout(tp=2, cp=2, dp=4, dp_replicate=2, order="tp-cp-dp-pp"),
        ParallelLayout(tp=2, ep=2, dp=2, ep_style="scaletorch", order="tp-ep-dp-pp"),
        ParallelLayout(tp=2, dp=4, ep_style="vllm", order="tp-cp-pp-dp"),
        ParallelLayout(tp=2, ep=4, dp=4, ep_style="torchtitan", order="tp-cp-dp-pp"),
        ParallelLayout(tp=2, ep=2, dp=4, ep_style="deepspeed"),
    ],
)
def test_layout_is_remembered_as_it_is(layout: ParallelLayout) -> None:
    table = make_table([range(layout.world_size)])

    known = remembered(remembering(table, layout))

    assert known == layout
    assert ranktable.check(dumps(remembering(table, layout))).totals.keys() <= {
        "RT502",
        "RT208",
    }


def test_healthy_nodes_are_left_alone() -> None:
    spare = make_table([range(5)], hosts=["s"]).nodes
    table = make_table([range(1)] * 5, hosts=list("abcde")).with_changes(spares=spare)

    found = fit(table, ParallelLayout(tp=5), lost=["c"])

    assert found.table.hosts == ("a", "b", "s", "d", "e")


def test_spare_with_more_chips_gives_those_that_are_a_ring() -> None:
    spare = make_table([(2, 7, 3, 4, 5, 6, 1)], hosts=["s"]).nodes
    table = make_table([(0, 1, 3, 2)] * 2, hosts=["a", "b"]).with_changes(spares=spare)

    found = fit(table, lost=["a"], facts=CostFacts(links=SOPHGO_8)).table

    chips = found.local_chip_map(0)
    assert not SOPHGO_8.broken_links(chips)
    (rest,) = found.spares
    assert {*chips, *(one.device_id for one in rest.devices)} == {1, 2, 3, 4, 5, 6, 7}


def test_chips_that_are_left_are_numbered_around_a_ring() -> None:
    table = make_table([(0, 2, 6, 7, 3, 1, 5, 4)] * 2, hosts=["a", "b"])

    found = fit(table, ParallelLayout(dp=16), lost_chips={"a": [6, 7]}).table

    assert all(not SOPHGO_8.broken_links(found.local_chip_map(at)) for at in (0, 1))


def test_clashing_addresses_of_new_nodes_are_refused() -> None:
    devices = [Device(rank=0, device_id=0, address=f"10.0.0.{at}") for at in (1, 2)]
    nodes = [
        Node(devices=(device,), host=host)
        for device, host in zip(devices, "ab", strict=True)
    ]
    table = ranktable.RankTable(nodes=nodes[:1])
    clash = Node(devices=(devices[0],), host="c")

    assert fit(table, spare=nodes[1:]).table.spares[0].host == "b"
    for spare, using in (([clash], []), ([], [clash])):
        with pytest.raises(ChangeError, match="c has the address 10"):
            fit(table, spare=spare, using=using)
    assert fit(table, lost=["a"], using=[clash], world_size=1).table.hosts == ("c",)
