"""Tables that change: in Python, and what ``fit`` and ``diff`` say and write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ranktable
from ranktable import dump, dumps, loads
from ranktable.cluster.generate import make_table
from ranktable.layout import LayoutError, ParallelLayout, fit
from ranktable.layout.change import ChangeError, difference
from ranktable.layout.change.facts import CostFacts, crossed
from ranktable.layout.change.sizes import fit_layout
from ranktable.schema.model import Device, Node
from tests.effort import law

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ranktable.schema.model import RankTable
    from tests.conftest import Run


GIB = 1 << 30
SLOWEST_DP = ParallelLayout(tp=4, pp=4, dp=4, order="tp-pp-dp")


def eight(hosts: Sequence[str] | None = None) -> RankTable:
    return make_table([range(8)] * 8, hosts=hosts or [f"n{at}" for at in range(8)])


def saved(folder: Path, table: RankTable, name: str = "t.json") -> str:
    dump(table, folder / name)
    return name


def hosts_and_ranks(table: RankTable) -> dict[str | None, tuple[int, int]]:
    return {
        node.host: (node.devices[0].rank, node.devices[-1].rank) for node in table.nodes
    }


def spare_hosts(table: RankTable) -> list[str | None]:
    return [spare.host for spare in table.spares]


@pytest.mark.parametrize(
    ("order", "nodes", "wanted"),
    [
        ("tp-dp-pp", range(8), 48),
        ("tp-pp-dp", range(8), 112),
        ("dp-tp-pp", range(8), 524),
        ("pp-dp-tp", range(8), 1572),
        ("tp-dp-pp", (0, 4, 1, 5, 2, 6, 3, 7), 48),
    ],
)
def test_bytes_between_nodes_are_those_of_the_worked_example(
    order: str, nodes: Iterable[int], wanted: float
) -> None:
    layout = ParallelLayout(tp=4, dp=4, pp=4, order=order)
    table = make_table([range(8)] * 8, hosts=[f"n{at}" for at in nodes])
    bytes_of = {"tp": 16 * GIB, "dp": round(2.25 * GIB), "pp": GIB // 4}

    (found,) = crossed((table, layout), (table, layout), CostFacts(sizes=bytes_of))

    assert found.before == found.after == wanted * GIB


def test_bytes_of_experts_and_of_rings_are_counted_as_they_are_sent() -> None:
    experts = ParallelLayout(ep=16, dp=16, etp=1)
    table = make_table([range(8)] * 2)
    rings = ParallelLayout(cp=16)

    # Tokens 4096, topk 8, h 4096: 0.25 GiB a rank; 2.0 of 4.0 GiB leave a node of 8.
    (sent,) = crossed(
        (table, experts), (table, rings), CostFacts(sizes={"ep": GIB // 4, "cp": 10})
    )
    assert (sent.before, sent.after) == (2.0 * GIB, 20)


# In Python


def test_lost_replica_is_filled_by_the_last_one_where_dp_counts_slowest() -> None:
    found = fit(eight(), SLOWEST_DP, lost=["n3"])

    assert found.layouts is not None
    assert found.layouts[1].dp == 3
    assert hosts_and_ranks(found.table) == {
        **{f"n{at}": (8 * at, 8 * at + 7) for at in (0, 1, 2, 4, 5)},
        "n7": (24, 31),  # stages 2 and 3 of the last copy, as n3 had of its own
    }
    assert spare_hosts(found.table) == ["n6"]
    assert found.diff.now_spares == ("n6",)
    assert {move.node for move in found.moves} == {"n7"}


def test_shrunk_table_grows_back_from_its_spares_when_asked() -> None:
    less = fit(eight(), SLOWEST_DP, lost=["n7"]).table
    extra = make_table([range(8)], hosts=["x"]).nodes

    same = fit(less, using=extra)
    more = fit(less, using=extra, grow=True)

    assert (less.world_size, same.table.world_size) == (48, 48)
    assert spare_hosts(same.table) == ["n6", "x"]
    assert more.layouts is not None
    assert more.layouts[1] == SLOWEST_DP
    assert hosts_and_ranks(more.table) == {
        **{f"n{at}": (8 * at, 8 * at + 7) for at in range(6)},
        "x": (48, 55),
        "n6": (56, 63),
    }
    assert (more.table.spares, more.moves) == ((), ())


def test_chips_keep_their_order_in_another_node() -> None:
    ring = (2, 6, 7, 3, 1, 5, 4, 0)
    table = make_table([ring, ring], hosts=["a", "b"])
    (same,) = make_table([range(9)], hosts=["c"]).nodes
    (other,) = make_table([range(10, 18)], hosts=["d"]).nodes

    as_before = fit(table, lost=["b"], using=[same]).table
    in_its_own = fit(table, lost=["b"], using=[other]).table

    assert as_before.local_chip_map(1) == list(ring)
    assert [chip.device_id for chip in as_before.spares[0].devices] == [8]
    assert in_its_own.local_chip_map(1) == list(range(10, 18))


def test_values_of_another_host_are_not_made_up() -> None:
    def with_chip(**values: object) -> RankTable:
        device = Device(rank=0, device_id=0, **values)  # type: ignore[arg-type]
        other = Node(devices=(Device(rank=1, device_id=0),), host="z")
        return ranktable.RankTable(nodes=(Node(devices=(device,), host="a"), other))

    for values in ({"address": "10.0.0.1"}, {"extra": {"super_device_id": "7"}}):
        with pytest.raises(ChangeError, match="of a have addresses or ids of their"):
            fit(with_chip(**values), lost=["a"], using=["b"])
    local = fit(with_chip(address="127.0.0.1"), lost=["a"], using=["b"])
    assert local.table.nodes[0].host == "b"


def test_expert_sizes_still_fit_after_shrinking() -> None:
    layout = ParallelLayout(tp=2, dp=8, ep=4, etp=2)
    table = make_table([range(2)] * 8, hosts=[f"n{at}" for at in range(8)])

    found = fit(table, layout, lost=["n7"])

    # ep 4 spreads over dp, so that dp 7 fits no more and dp 4 does.
    assert found.layouts is not None
    assert (found.layouts[1].dp, found.layouts[1].ep) == (4, 4)
    assert found.table.world_size == 8


@pytest.mark.parametrize(
    ("kept", "world_size", "text"),
    [
        (("tp", "pp"), 40, "nearest: tp=2, pp=2, 32 ranks or 48 ranks"),
        (("tp", "pp"), 64, "there are 56 chips for 64 ranks; nearest: 48 ranks"),
        (("tp", "pp"), 10, "there are 56 chips for 10 ranks; nearest: 16 ranks"),
        (("tp", "pp"), 50, "for 50 ranks; nearest: 48 ranks"),
        (("tp", "pp"), 20, "nearest: tp=1, pp=1, 16 ranks or 32 ranks"),
        (("tp", "pp", "dp", "cp"), None, "leave one of the sizes out, such as dp"),
        (("tp", "dd"), None, "there is no size 'dd' to keep; they are tp, cp, dp, pp"),
    ],
)
def test_layout_that_does_not_fit_names_what_would(
    kept: tuple[str, ...], world_size: int | None, text: str
) -> None:
    layout = ParallelLayout(tp=4, pp=4, dp=4)

    with pytest.raises(LayoutError) as caught:
        fit(eight(), layout, lost=["n3"], kept=kept, world_size=world_size)
    assert text in str(caught.value)
    assert "beside ep" not in str(caught.value)


def test_layout_that_does_not_fit_names_the_experts_that_are_kept() -> None:
    layout = ParallelLayout(tp=4, pp=4, dp=4, ep=4)

    with pytest.raises(LayoutError, match="= 16 beside ep 4 x etp 4 is kept"):
        fit(eight(), layout, lost=["n3"], kept=("tp", "pp"), world_size=40)


@given(
    st.fixed_dictionaries(dict.fromkeys(("tp", "pp"), st.sampled_from([1, 2, 3, 4]))),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 40),
    st.integers(1, 40),
)
@law(100)
def test_what_is_named_as_nearest_fits(
    sizes: dict[str, int], ep: int, world_size: int, available: int
) -> None:
    def fitted(wanted: int, **other: int) -> None:
        given_ = {**sizes, **other}
        layout = ParallelLayout(tp=given_["tp"], pp=given_["pp"], dp=4, ep=ep, etp=1)
        fit_layout(layout, available, sizes, world_size=wanted)

    try:
        fitted(world_size)
    except LayoutError as error:
        near = str(error).partition("; nearest: ")[2]
        for choice in near.replace(" or ", ", ").split(", ") if near else ():
            name, _, size = choice.partition("=")
            if size:
                fitted(world_size, **{name: int(size)})
            else:
                fitted(int(choice.split()[0]))


@pytest.mark.parametrize(
    ("before", "after"),
    [({"tp": 4}, {"pp": 4}), ({"tp": 2, "pp": 2}, {"tp": 2, "cp": 2})],
)
def test_same_coordinates_on_other_axes_are_other_roles(
    before: dict[str, int], after: dict[str, int]
) -> None:
    table = make_table([range(2)] * 2, hosts=["a", "b"])
    layouts = (ParallelLayout(**before), ParallelLayout(**after))  # type: ignore[arg-type]
    found = difference(table, table, layouts)

    assert [move.after for move in found.moves if move.is_role] == [0, 1, 2, 3]


def test_more_ranks_than_before_need_to_be_allowed() -> None:
    layout = ParallelLayout(tp=4, pp=4, dp=4)
    more = make_table([range(8)] * 2, hosts=["a", "b"]).nodes

    with pytest.raises(ChangeError, match=r"80 ranks are more than the 64 .* --grow"):
        fit(eight(), layout, using=more, world_size=80)
    with pytest.raises(
        LayoutError, match="for 70 ranks; nearest: 64 ranks or 80 ranks"
    ):
        fit(eight(), layout, using=more, world_size=70, grow=True)
    assert (
        fit(eight(), layout, using=more, world_size=80, grow=True).table.world_size
        == 80
    )


def test_other_sizes_may_shrink_where_they_are_not_kept() -> None:
    layout = ParallelLayout(tp=4, pp=2, cp=2, dp=1)
    table = make_table([range(4)] * 4, hosts=list("abcd"))

    found = fit(table, layout, lost=["a"], kept=("tp", "pp"))

    assert found.layouts is not None
    assert (found.layouts[1].cp, found.layouts[1].dp) == (1, 1)
    assert found.table.world_size == 8


def test_layout_of_another_number_of_ranks_is_refused() -> None:
    with pytest.raises(LayoutError, match="is for 48 ranks, but the table has 64"):
        fit(eight(), ParallelLayout(tp=4, pp=4, dp=3))
    with pytest.raises(LayoutError, match="is for 80 ranks, but the table has 64"):
        fit(eight(), ParallelLayout(tp=4, pp=4, dp=5))


def test_most_nodes_are_not_lost_without_a_number_of_ranks() -> None:
    layout = ParallelLayout(tp=4, pp=2, dp=8)

    with pytest.raises(ChangeError, match=r"5 of 8 nodes would be .* --ranks 24$"):
        fit(eight(), layout, hosts=["n0", "n1", "n2"])
    half = fit(eight(), layout, hosts=["n0", "n1", "n2", "n3"])
    assert half.table.num_nodes == 4
    others = [f"m{at}" for at in range(8)]
    replaced = fit(eight(), lost=[f"n{at}" for at in range(8)], using=others)
    assert replaced.table.hosts == tuple(others)
    meant = fit(eight(), layout, hosts=["n0", "n1", "n2"], world_size=24)
    assert meant.table.hosts == ("n0", "n1", "n2")


def test_hosts_are_known_with_and_without_their_domain() -> None:
    names = ["n1.site", "n2", "10.0.0.3", "a.x", "a.y"]
    table = make_table([range(2)] * 5, hosts=names)

    for same in (["n1", "n2.site", "10.0.0.3", "a.x", "a.y"], names[::-1]):
        assert fit(table, hosts=same).diff.is_same
    with pytest.raises(ChangeError, match=r"'a' may be a\.x or a\.y"):
        fit(table, lost=["a"])
    for other in ("n1.other", "10.0.0.4"):
        with pytest.raises(ChangeError, match=f"there is no node '{other}'"):
            fit(table, lost=[other])


def test_number_is_a_host_or_the_index_of_a_node_without_one() -> None:
    chips = [Device(rank=rank, device_id=0) for rank in range(4)]
    hosts = ["1", None, None, "a"]
    nodes = [Node(devices=(c,), host=h) for c, h in zip(chips, hosts, strict=True)]
    table = ranktable.RankTable(nodes=nodes)

    with pytest.raises(ChangeError, match="1 is a host, and the index of another node"):
        fit(table, ParallelLayout(dp=4), lost=["1"])
    found = fit(table, ParallelLayout(dp=4), lost=["2"]).table
    assert found.hosts == ("1", None, "a")
    assert fit(table, ParallelLayout(dp=4), lost=["a"]).table.hosts == ("1", None, None)


def test_pods_of_one_host_are_lost_together() -> None:
    chips = [Device(rank=rank, device_id=rank) for rank in range(4)]
    hosts = ["a", "a", "b", "c"]
    nodes = [Node(devices=(c,), host=h) for c, h in zip(chips, hosts, strict=True)]
    table = ranktable.RankTable(nodes=nodes)

    assert fit(table, ParallelLayout(dp=4), lost=["a"]).table.hosts == ("b", "c")
    assert fit(table, ParallelLayout(dp=4), lost=["b"]).table.hosts == ("a", "a", "c")


def pods_of(hosts: Sequence[str], size: int) -> list[dict[str, object]]:
    servers = [{"server_id": host} for host in hosts]
    return [
        {"super_pod_id": str(at // size), "server_list": servers[at : at + size]}
        for at in range(0, len(hosts), size)
    ]


def in_super_pods(hosts: Sequence[str], size: int) -> RankTable:
    document = make_document(hosts)
    return ranktable.loads(
        json.dumps({**document, "super_pod_list": pods_of(hosts, size)})
    )


def make_document(hosts: Sequence[str]) -> dict[str, object]:
    chips = [
        {"device_id": str(at % 2), "rank_id": str(at), "device_ip": f"10.0.0.{at}"}
        | {"super_device_id": str(at)}
        for at in range(2 * len(hosts))
    ]
    servers = [
        {"server_id": host, "device": chips[2 * at : 2 * at + 2]}
        for at, host in enumerate(hosts)
    ]
    top = {"version": "1.2", "status": "completed", "server_count": str(len(hosts))}
    return {**top, "server_list": servers}


def listed_pods(table: RankTable) -> object:
    return json.loads(ranktable.dumps(table)).get("super_pod_list")


def test_super_pods_follow_the_nodes_of_a_change() -> None:
    table = in_super_pods(["a", "b", "c"], 2)
    layout = ParallelLayout(tp=2, dp=3)
    new = ranktable.loads(json.dumps(make_document(["x", "z"]).copy())).nodes[1]
    new = Node(
        devices=tuple(
            Device(
                rank=at,
                device_id=at,
                address=f"10.9.0.{at}",
                extra={"super_device_id": f"9{at}"},
            )
            for at in range(2)
        ),
        host="z",
    )

    less = fit(table, layout, lost=["b"])
    other = fit(table, layout, lost=["b"], using=[new])

    # Each of the two groups of dp is in both super pods before and after.
    between = less.diff.crossed[1]
    assert between.name == "super pod"
    assert 0 < between.after == between.before
    assert listed_pods(less.table) == [
        {"super_pod_id": "0", "server_list": [{"server_id": "a"}]},
        {"super_pod_id": "1", "server_list": [{"server_id": "c"}]},
    ]
    assert listed_pods(other.table) == [
        {"super_pod_id": "0", "server_list": [{"server_id": "a"}, {"server_id": "z"}]},
        {"super_pod_id": "1", "server_list": [{"server_id": "c"}]},
    ]
    assert other.notes == (
        "z is taken to be in super pod 0, that of the node replaced",
    )


def test_super_pod_of_a_new_node_is_asked_for_where_it_is_not_clear() -> None:
    table = in_super_pods(["a", "b", "c", "d"], 2)
    new = [
        Node(
            devices=tuple(
                Device(rank=at, device_id=at, address=f"10.{host}.0.{at}")
                for at in range(2)
            ),
            host=f"x{host}",
        )
        for host in (8, 9)
    ]

    with pytest.raises(
        ChangeError, match="the super pod of x8 is not known; give --pod"
    ):
        fit(table, lost=["a", "d"], using=new)
    named = fit(table, lost=["a", "d"], using=new, super_pod="7").table
    assert {node.host: node.super_pod for node in named.nodes} == {
        "x8": "7", "x9": "7", "b": "0", "c": "1",
    }  # fmt: skip
    with pytest.raises(ChangeError, match="--pod: the table has no super pods"):
        fit(eight(), using=["x"], super_pod="7")


def test_spare_joins_its_super_pod_again() -> None:
    hosts = [f"n{node}" for node in range(6)]
    table = in_super_pods(hosts, 2)

    less = fit(table, ParallelLayout(tp=4, dp=3), lost=["n0"]).table
    again = fit(less, lost=[str(less.nodes[1].host)]).table

    assert spare_hosts(less) == ["n5"]
    assert less.spares[0].super_pod == "2"
    assert "n5" in again.hosts
    assert listed_pods(again) == pods_of(hosts, 2)[1:]
    assert all("super_pod_id" not in node.extra for node in again.nodes)


# What differs


def test_diff_says_that_only_the_order_of_spares_differs() -> None:
    nodes = make_table([range(1)] * 4, hosts=["a", "b", "y", "z"]).nodes
    before = ranktable.RankTable(nodes=nodes[:2], spares=nodes[2:])
    after = before.with_changes(spares=nodes[:1:-1])
    other = before.with_changes(spares=nodes[2:3])

    assert difference(before, after).others == ("at the top: the order of spare_list",)
    assert difference(before, other).others == ("at the top: spare_list",)
    assert difference(before, other).spares_out == ("z",)


def test_keys_without_a_meaning_are_counted_by_node_and_chip() -> None:
    before, after = (loads(json.dumps({"version": "1.0", "node_list": [
        {"node_addr": "a", "rack": rack, "device_list": [
            {"device_id": 0, "local_rank": 0, "rank": 0, "serial": serial}]},
        {"node_addr": "b", "rack": "r1", "device_list": [
            {"device_id": 0, "local_rank": 0, "rank": 1, "serial": "s1"}]},
    ]})) for rack, serial in (("r1", "s0"), ("r2", "s9")))  # fmt: skip

    assert difference(before, after).others == (
        "keys without a meaning, of 1 chip",
        "keys without a meaning, of 1 node",
    )


def test_diff_finds_other_roles_of_nodes_that_are_as_they_were() -> None:
    table = make_table([range(2)] * 2, hosts=["a", "b"])

    found = difference(
        table, table, (ParallelLayout(tp=2, dp=2), ParallelLayout(tp=2, pp=2))
    )

    assert [(move.node, move.before, move.role_after) for move in found.moves] == [
        ("a", 0, {"tp": 0, "pp": 0}),
        ("a", 1, {"tp": 1, "pp": 0}),
        ("b", 2, {"tp": 0, "pp": 1}),
        ("b", 3, {"tp": 1, "pp": 1}),
    ]


# On the command line


@pytest.mark.parametrize(
    ("spares", "code"),
    [
        (3, "RT113"),
        ([{"device_list": [{"device_id": "-1"}]}], "RT208"),
        ([{"device_list": [{"device_id": "1"}, {"device_id": 1}]}], "RT217"),
        ([{"host": "n2", "device_list": [{"device_id": "1"}]}], "RT217"),
    ],
)
def test_spares_that_are_no_nodes_are_found_before_they_are_used(
    run: Run, tmp_path: Path, spares: object, code: str
) -> None:
    name = saved(tmp_path, eight())
    document = json.loads((tmp_path / name).read_text())
    (tmp_path / name).write_text(json.dumps({**document, "spare_list": spares}))

    report = ranktable.check(tmp_path / name)
    done = run("ranktable", "fit", name, "--lost", "n1", "-o", "x.json")

    (found,) = (one for one in report.diagnostics if one.severity == "error")
    assert found.code == code
    assert str(found.location.pointer).startswith("/spare_list")
    assert (done.status, done.out) == (1, "")
    assert code in done.err


def test_spare_without_a_host_may_have_an_address() -> None:
    chip = {"device_id": "0", "device_ip": "10.0.0.1"}
    document = json.loads(dumps(make_table([range(2)], hosts=["a"])))
    spares = [{"device_list": [chip]}, {"device_list": [chip]}]

    def found(*spares: object) -> list[str]:
        data = json.dumps({**document, "spare_list": spares}).encode()
        return [
            one.code for one in ranktable.check(data).diagnostics if one.code == "RT216"
        ]

    assert found(*spares[:1]) == []
    assert found(*spares) == ["RT216"]


def test_nodes_are_listed_in_the_order_of_their_ranks() -> None:
    layout = ParallelLayout(tp=4, dp=16, order="tp-dp")
    less = fit(eight(), layout, lost=["n3"]).table
    more = fit(less, using=["n9"], grow=True).table

    for changed in (less, more):
        assert list(changed.first_ranks) == sorted(changed.first_ranks)
