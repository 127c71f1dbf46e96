"""Tables that change: in Python, and what the commands say and write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ranktable
from ranktable import dump, load
from ranktable.cluster.generate import make_table
from ranktable.layout import LayoutError, ParallelLayout
from ranktable.layout.change import (
    ChangeError,
    difference,
    grow,
    renumber,
    replace_node,
    shrink,
    spares_of,
)
from ranktable.layout.change.facts import CostFacts, crossed
from ranktable.layout.change.operations import fit_layout
from ranktable.schema.model import Device, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from ranktable.schema.model import RankTable
    from tests.conftest import Outcome

GIB = 1 << 30
PROBE = b'{"probe":1,"host":"p1","chips":[{"device_id":0},{"device_id":1}]}\n'


def eight(hosts: Sequence[str] | None = None) -> RankTable:
    return make_table([range(8)] * 8, hosts=hosts or [f"n{at}" for at in range(8)])


def saved(folder: Path, table: RankTable, name: str = "t.json") -> str:
    dump(table, folder / name)
    return name


def hosts_and_ranks(table: RankTable) -> dict[str | None, tuple[int, int]]:
    return {
        node.host: (node.devices[0].rank, node.devices[-1].rank) for node in table.nodes
    }


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


def test_lost_replica_is_filled_by_the_last_one_where_dp_counts_slowest() -> None:
    layout = ParallelLayout(tp=4, pp=4, dp=4, order="tp-pp-dp")

    found = shrink(eight(), layout, [3])

    assert found.layout.dp == 3
    assert hosts_and_ranks(found.table) == {
        **{f"n{at}": (8 * at, 8 * at + 7) for at in (0, 1, 2, 4, 5)},
        "n7": (24, 31),  # stages 2 and 3 of the last copy, as n3 had of its own
    }
    assert [node.host for node in spares_of(found.table)] == ["n6"]


def test_renumbering_closes_gaps_and_keeps_the_order() -> None:
    table = make_table([range(1)] * 8, hosts=[f"n{at}" for at in range(8)])

    found = renumber(table, ranks=[1, 4, 5])

    assert hosts_and_ranks(found) == {
        "n0": (0, 0), "n2": (1, 1), "n3": (2, 2), "n6": (3, 3), "n7": (4, 4),
    }  # fmt: skip


def test_shrunk_table_grows_back_from_its_spares() -> None:
    table = eight()
    layout = ParallelLayout(tp=4, pp=4, dp=4, order="tp-pp-dp")
    less = shrink(table, layout, [7])
    extra = make_table([range(8)], hosts=["x"]).nodes

    more = grow(less.table, less.layout, [*spares_of(less.table), *extra])

    assert less.table.world_size == 48
    assert more.layout == layout
    assert hosts_and_ranks(more.table) == {
        **{f"n{at}": (8 * at, 8 * at + 7) for at in range(7)},
        "x": (56, 63),
    }
    assert spares_of(more.table) == []
    assert difference(less.table, more.table).moves == ()


def test_chips_keep_their_order_in_another_node() -> None:
    ring = (2, 6, 7, 3, 1, 5, 4, 0)
    table = make_table([ring, ring], hosts=["a", "b"])
    (same,) = make_table([range(9)], hosts=["c"]).nodes
    (other,) = make_table([range(10, 18)], hosts=["d"]).nodes

    as_before = replace_node(table, "b", same)
    in_its_own = replace_node(table, "b", other)

    assert as_before.local_chip_map(1) == list(ring)
    assert in_its_own.local_chip_map(1) == list(range(10, 18))


def test_addresses_of_another_host_are_not_made_up() -> None:
    device = Device(rank=0, device_id=0, address="10.0.0.1")
    table = ranktable.RankTable(nodes=(Node(devices=(device,), host="a"),))
    local = ranktable.RankTable(
        nodes=(
            Node(devices=(Device(rank=0, device_id=0, address="127.0.0.1"),), host="a"),
        )
    )

    with pytest.raises(ChangeError, match="the chips of a have addresses, and those"):
        replace_node(table, "a", "b")
    assert replace_node(local, "a", "b").nodes[0].host == "b"


def test_expert_sizes_still_fit_after_shrinking() -> None:
    layout = ParallelLayout(tp=2, dp=8, ep=4, etp=2)
    table = make_table([range(2)] * 8, hosts=[f"n{at}" for at in range(8)])

    found = shrink(table, layout, [7])

    # ep 4 spreads over dp, so that dp 7 fits no more and dp 4 does.
    assert (found.layout.dp, found.layout.ep) == (4, 4)
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
        shrink(eight(), layout, [3], kept=kept, world_size=world_size)
    assert text in str(caught.value)


@given(
    st.fixed_dictionaries(dict.fromkeys(("tp", "pp"), st.sampled_from([1, 2, 3, 4]))),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 40),
    st.integers(1, 40),
)
@settings(max_examples=100, deadline=None)
def test_what_is_named_as_nearest_fits(
    sizes: dict[str, int], ep: int, world_size: int, available: int
) -> None:
    def fit(wanted: int, **other: int) -> None:
        given_ = {**sizes, **other}
        layout = ParallelLayout(tp=given_["tp"], pp=given_["pp"], dp=4, ep=ep, etp=1)
        fit_layout(layout, available, sizes, world_size=wanted)

    try:
        fit(world_size)
    except LayoutError as error:
        near = str(error).partition("; nearest: ")[2]
        for choice in near.replace(" or ", ", ").split(", ") if near else ():
            name, _, size = choice.partition("=")
            if size:
                fit(world_size, **{name: int(size)})
            else:
                fit(int(choice.split()[0]))


def test_growing_to_fewer_ranks_is_refused() -> None:
    layout = ParallelLayout(tp=4, pp=4, dp=4)
    more = make_table([range(8)] * 2, hosts=["a", "b"]).nodes

    with pytest.raises(LayoutError, match="48 ranks are not more than the 64"):
        grow(eight(), layout, more, world_size=48)
    with pytest.raises(LayoutError, match="for 70 ranks; nearest: 80 ranks"):
        grow(eight(), layout, more, world_size=70)


def test_other_sizes_may_shrink_where_they_are_not_kept() -> None:
    layout = ParallelLayout(tp=4, pp=2, cp=2, dp=1)
    table = make_table([range(4)] * 4, hosts=list("abcd"))

    found = shrink(table, layout, [0], kept=("tp", "pp"))

    assert (found.layout.cp, found.layout.dp) == (1, 1)
    assert found.table.world_size == 8


def test_diff_says_what_moved(run: Callable[..., Outcome], tmp_path: Path) -> None:
    saved(tmp_path, eight())
    saved(tmp_path, replace_node(eight(), "n3", "n9"), "r.json")

    same = run("ranktable", "diff", "t.json", "t.json")
    shown = run("ranktable", "diff", "t.json", "r.json", "--tp", "4", "--pp", "4",
                "--bytes", "tp=16GiB,dp=2.25GiB,pp=256MiB")  # fmt: skip

    assert (same.status, same.out) == (
        0,
        "t.json and t.json say the same: 8 nodes, 64 ranks\n",
    )
    assert shown.status == 1
    assert (
        shown.out
        == """\
t.json: 8 nodes, 64 ranks
r.json: 8 nodes, 64 ranks

nodes out: -n3
nodes in: +n9
ranks: 56 as before, 8 on new chips
  ranks 24-31: n9 chips 0-7, before on n3
roles: none moved
bytes between nodes, GiB a step: 48.00 -> 48.00, optimal
"""
    )


def test_diff_tells_roles_from_ranks(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    saved(tmp_path, make_table([range(2)] * 2, hosts=["a", "b"]))
    saved(tmp_path, make_table([range(2)] * 2, hosts=["b", "a"]), "other.json")

    dp = run("ranktable", "diff", "t.json", "other.json", "--tp", "2")
    pp = run("ranktable", "diff", "t.json", "other.json", "--pp", "2")

    assert "ranks: 0 as before, 4 moved\n  b: ranks 2,3 -> 0,1\n" in dp.out
    assert "roles: none moved\n" in dp.out
    assert "the order of the nodes" not in dp.out  # where their ranks are now
    assert "roles: 4 moved\n  b chip 0: rank 2 -> 0, pp 1 -> 0\n" in pp.out


def test_diff_json_is_documented(run: Callable[..., Outcome], tmp_path: Path) -> None:
    saved(tmp_path, make_table([range(2)] * 2, hosts=["a", "b"]))
    saved(tmp_path, make_table([range(2)] * 2, hosts=["b", "c"]), "other.json")

    shown = run("ranktable", "diff", "t.json", "other.json", "--pp=2", "--format=json")
    found = json.loads(shown.out)

    assert shown.status == 1
    assert found["moves"] == [
        {
            "node": "b",
            "device_id": chip,
            "rank": {"before": 2 + chip, "after": chip},
            "role": {"before": {"pp": 1}, "after": {"pp": 0}},
        }
        for chip in (0, 1)
    ]
    assert found["chips_out"][0] == {"rank": 0, "node": "a", "device_id": 0}
    assert found["chips_in"][0] == {"rank": 2, "node": "c", "device_id": 0}
    assert found["totals"] == {
        "kept": 0, "rank_moves": 2, "role_moves": 2, "chips_out": 2, "chips_in": 2,
        "nodes_out": 1, "nodes_in": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["t.json", "none.json"], "none.json: RT001 the file does not exist"),
        (["-", "-"], "standard input can be read once"),
        (["t.json", "bad.json"], "the table is not sound"),
        (["t.json", "t.json", "--bytes", "tp=1x"], "'1x' is not a number of bytes"),
        (["t.json", "t.json", "--bytes", "tp=1B,tp=2B"], "--bytes: tp is given twice"),
        (["t.json", "t.json", "--tp", "3"], "t.json: tp 3 x cp 1 x pp 1 = 3 does not"),
    ],
)
def test_diff_that_cannot_judge_says_why(
    run: Callable[..., Outcome], tmp_path: Path, arguments: list[str], text: str
) -> None:
    saved(tmp_path, eight())
    (tmp_path / "bad.json").write_text('{"version":"1.0","node_list":[]}')

    given = (tmp_path / "t.json").read_bytes() if "-" in arguments else b""
    shown = run("ranktable", "diff", *arguments, given=given)

    assert (shown.status, shown.out) == (2, "")
    assert text in shown.err


def test_node_is_replaced_in_place_and_only_once(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    name = saved(tmp_path, eight())

    first = run("ranktable", "replace-node", name, "n3", "n9", "--new", "-i")
    after = (tmp_path / name).read_bytes()
    second = run("ranktable", "replace-node", name, "n3", "n9", "--new", "-i")

    assert (first.status, first.out) == (0, "")
    assert first.err == (
        "wrote t.json: 8 nodes, 64 ranks\nnodes out: -n3\nnodes in: +n9\n"
        "ranks: 56 as before, 8 on new chips\n"
        "  ranks 24-31: n9 chips 0-7, before on n3\n"
    )
    assert second.status == 0
    assert second.err == (
        "unchanged t.json: 8 nodes, 64 ranks\nnote: there is no node 'n3', and n9 is "
        "in the table already, so nothing was changed\n"
    )
    assert (tmp_path / name).read_bytes() == after
    assert hosts_and_ranks(load(tmp_path / name))["n9"] == (24, 31)


def test_new_node_comes_from_a_table_a_part_or_a_probe(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    name = saved(tmp_path, make_table([range(2)] * 2, hosts=["a", "b"]))
    saved(tmp_path, make_table([range(4, 8)], hosts=["c"]), "c.json")
    saved(tmp_path, make_table([range(2)] * 2, hosts=["x", "d"]), "xd.json")
    run("ranktable", "split", "xd.json", "-o", "parts")
    (tmp_path / "p.jsonl").write_bytes(PROBE)

    table = run("ranktable", "replace-node", name, "b", "c.json", "-o", "1.json")
    part = run("ranktable", "replace-node", name, "b", "parts/d.json", "-o", "2.json")
    probe = run("ranktable", "replace-node", name, "b", "p.jsonl", "-o", "3.json")

    assert [done.status for done in (table, part, probe)] == [0, 0, 0], probe.err
    found = [load(tmp_path / f"{number}.json") for number in (1, 2, 3)]
    assert [one.nodes[1].host for one in found] == ["c", "d", "p1"]
    assert found[0].local_chip_map(1) == [4, 5]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["n33", "n9"], "there is no node 'n33'; the nodes are n0, n1"),
        (["n03", "n9"], "there is no node 'n03'; did you mean n3?"),
        (["n3", "n4"], "n4 is in the table already, as node 4"),
        (["n3", "small.json"], "s has 4 chips, and n3 carries 8 ranks"),
        (["n3", "t.json"], "t.json holds 8 nodes, of which the table lacks 0"),
        (["n3", "n[8-9]"], "'n[8-9]' names 2 hosts; give one"),
        (["n3", ""], "'' does not name a node"),
        (["n3", "a b"], "a b"),
        (["n3", "none.json"], "none.json: RT001 the file does not exist"),
        (["n3", "n9", "-i", "-o", "x.json"], "--in-place and --output do not go"),
        (
            ["n3", "n9", "--format", "json"],
            "--format json needs --in-place or --output",
        ),
        (
            ["n3", "n9", "--new", "-o", "small.json"],
            "small.json holds a different table",
        ),
    ],
)
def test_node_that_cannot_be_replaced_changes_nothing(
    run: Callable[..., Outcome], tmp_path: Path, arguments: list[str], text: str
) -> None:
    name = saved(tmp_path, eight())
    saved(tmp_path, make_table([range(4)], hosts=["s"]), "small.json")
    before = (tmp_path / name).read_bytes()

    shown = run("ranktable", "replace-node", name, *arguments)

    assert (shown.status, shown.out) == (2, "")
    assert text in shown.err
    assert (tmp_path / name).read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["small.json", name]


def test_shrink_and_grow_say_what_became_of_the_layout(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    name = saved(tmp_path, eight())
    sizes = ("--tp", "4", "--pp", "4", "--order", "tp-pp-dp")

    less = run("ranktable", "shrink", name, "--drop", "n3", *sizes, "-o", "s.json")
    listed = run("ranktable", "spares", "s.json")
    more = run(
        "ranktable", "grow", "s.json", "--spares", "--add", "n8", "--new", *sizes, "-i"
    )

    assert less.err == (
        "wrote s.json: 6 nodes, 48 ranks\nnodes out: -n3\nnow spares: n6\n"
        "ranks: 40 as before, 8 moved\n  n7: ranks 56-63 -> 24-31\n"
        "roles: none moved\n"
        "typical bytes between nodes, GiB a step: 112.00 -> 75.00, 178% above the "
        "bound of 27.00\n"
        "also differs: at the top: layout, spare_list\nlayout: dp 4 -> 3\n"
        "note: 8 chips on other nodes would keep dp 4: ranktable replace-node t.json "
        "n3 NEW\n"
    )
    assert listed.out == "s.json: 1 spare\nn6: chips 0-7\n"
    assert (less.status, listed.status, more.status) == (0, 0, 0)
    assert more.err.endswith("layout: dp 3 -> 4\n")
    assert run("ranktable", "validate", "s.json").status == 0
    assert load(tmp_path / "s.json").world_size == 64


def test_again_skips_nodes_that_are_already_done(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    name = saved(tmp_path, eight())
    shrunk = ("ranktable", "shrink", name, "--drop", "n3", "--dp", "-1", "-i")
    grown = ("ranktable", "grow", name, "--add", "n9", "--new", "-i")
    spared = ("ranktable", "spares", name, "--add", "s1", "--new", "-i")

    for command, text in (
        (shrunk, "there is no node 'n3'"),
        (grown, "n9 is in the table already"),
        (spared, "s1 is a spare already"),
    ):
        assert run(*command).status == 0
        after = (tmp_path / name).read_bytes()
        refused = run(*command)
        again = run(*command, "--again")

        assert (refused.status, again.status) == (2, 0)
        assert text in refused.err
        assert "unchanged t.json" in again.err
        assert (tmp_path / name).read_bytes() == after


def test_spares_have_no_rank_and_no_warning(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    name = saved(tmp_path, eight())
    run("ranktable", "spares", name, "--add", "s[1-2]", "--new", "-i")

    shown = run("ranktable", "spares", name, "--format", "json")
    taken = run("ranktable", "replace-node", name, "n3", "s2", "-o", "r.json")
    removed = run("ranktable", "spares", name, "--remove", "s1,s2", "-o", "n.json")
    unknown = run("ranktable", "spares", name, "--remove", "s3")

    assert json.loads(shown.out) == {
        "file": name,
        "spares": [{"host": f"s{at}", "device_ids": list(range(8))} for at in (1, 2)],
        "totals": {"spares": 2, "chips": 16},
    }
    assert "RT117" not in run("ranktable", "validate", name).out
    assert taken.status == removed.status == 0
    assert [n.host for n in spares_of(load(tmp_path / "r.json"))] == ["s1"]
    assert load(tmp_path / "n.json").digest() == eight().digest()
    assert unknown.err == (
        "ranktable: there is no spare 's3'; the spares are: s1, s2\n"
    )


def test_spares_that_are_known_are_named_as_such(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    name = saved(tmp_path, eight())
    run("ranktable", "spares", name, "--add", "s1", "--new", "-i")
    before = (tmp_path / name).read_bytes()

    twice = run("ranktable", "spares", name, "--add", "s1")
    again = run("ranktable", "spares", name, "--add", "s1", "--again", "-i")
    present = run("ranktable", "spares", name, "--add", "n2")

    assert twice.err == "ranktable: s1 is a spare already\n"
    assert (again.status, (tmp_path / name).read_bytes()) == (0, before), again.err
    assert present.err.startswith("ranktable: n2 is in the table already, as node ")


@pytest.mark.parametrize(
    "spares",
    [
        ["a"],
        [{}],
        [{"device_list": []}],
        [{"device_list": [1]}],
        [{"device_list": [{"device_id": "x"}]}],
        [{"device_list": [{"device_id": "-1"}]}],
        [{"device_list": [{"device_id": "1"}, {"device_id": 1}]}],
        [{"host": 3, "device_list": [{"device_id": "1"}]}],
        [{"host": "a", "device_list": [{"device_id": "1", "device_ip": 3}]}],
    ],
)
def test_spares_that_are_no_nodes_are_refused(
    run: Callable[..., Outcome], tmp_path: Path, spares: object
) -> None:
    name = saved(tmp_path, eight())
    document = json.loads((tmp_path / name).read_text())
    (tmp_path / name).write_text(json.dumps({**document, "spare_list": spares}))

    shown = run("ranktable", "spares", name)

    assert (shown.status, shown.out) == (2, "")
    assert shown.err.startswith("ranktable: spare_list")


def test_renumber_reads_a_table_with_gaps(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    name = saved(tmp_path, eight())
    document = json.loads((tmp_path / name).read_text())
    del document["node_list"][2]
    (tmp_path / name).write_text(json.dumps(document))

    filled = run("ranktable", "renumber", name, "-o", "f.json")
    again = run("ranktable", "renumber", "f.json", "-i")
    misfit = run("ranktable", "renumber", name, "--tp", "16", "-i")

    assert (filled.status, again.status) == (0, 0), filled.err
    assert "ranks: 16 as before, 40 moved" in filled.err
    assert hosts_and_ranks(load(tmp_path / "f.json"))["n7"] == (48, 55)
    assert again.err == "unchanged f.json: 7 nodes, 56 ranks\n"
    assert misfit.status == 2
    assert "tp 16 x cp 1 x pp 1 = 16 does not divide world_size 56" in misfit.err
    assert json.loads((tmp_path / name).read_text()) == document


def test_chips_may_be_missing_from_the_file_of_a_node(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    run("ranktable", "gen", "--device-id", "[[0..3],[0..3]]", "-o", "t.json")
    document = json.loads((tmp_path / "t.json").read_text())
    del document["node_list"][0]["device_list"][1:3]
    (tmp_path / "t.json").write_text(json.dumps(document))

    shown = run("ranktable", "renumber", "t.json", "-o", "s.json")

    assert shown.err == (
        "wrote s.json: 2 nodes, 6 ranks\nranks: 1 as before, 5 moved\n"
        "  0: rank 3 -> 1\n  1: ranks 4-7 -> 2-5\n"
    )
    assert load(tmp_path / "s.json").chip_map == [0, 3, 0, 1, 2, 3]
    assert ranktable.check(tmp_path / "s.json").ok


def test_local_ranks_out_of_order_are_no_chips_that_are_missing(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    run("ranktable", "gen", "--device-id", "[[0..3]]", "-o", "t.json")
    document = json.loads((tmp_path / "t.json").read_text())
    devices = document["node_list"][0]["device_list"]
    devices[0]["local_rank"], devices[1]["local_rank"] = "1", "0"
    data = json.dumps(document).encode()

    shown = run("ranktable", "renumber", "-", "-o", "s.json", given=data)

    assert shown.status == 1
    assert "RT206 local_rank is 1, but this is device 0 of node 0" in shown.err
    assert not (tmp_path / "s.json").exists()


def test_nodes_are_listed_in_the_order_of_their_ranks(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    name = saved(tmp_path, eight())
    sizes = ("--tp", "4", "--order", "tp-dp")
    run("ranktable", "shrink", name, "--drop", "n3", *sizes, "-o", "s.json")
    run("ranktable", "grow", "s.json", "--add", "n9", "--new", *sizes, "-o", "g.json")

    for changed in ("s.json", "g.json"):
        first_ranks = ranktable.load(tmp_path / changed).first_ranks
        assert list(first_ranks) == sorted(first_ranks)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--drop-ranks", "1,x"], "--drop-ranks: 'x' is not a rank; write 1,4-5"),
        (["--drop-ranks", "5-4"], "--drop-ranks: '5-4' is not a rank"),
        (["--drop-ranks", "1,0-2"], "--drop-ranks names 1 twice"),
        (["--drop-ranks", "64"], "there is no rank 64 in the table"),
        (["--drop", "n[0-7]"], "no node would be left"),
        (["--drop", "n["], "n["),
        (["--drop", ","], "',' does not name a node"),
        (["--drop", "n1", "--drop", "n1"], "the node 'n1' is given twice"),
    ],
)
def test_what_cannot_be_renumbered_is_said(
    run: Callable[..., Outcome], tmp_path: Path, options: list[str], text: str
) -> None:
    name = saved(tmp_path, eight())

    shown = run("ranktable", "renumber", name, *options)

    assert (shown.status, shown.out) == (2, "")
    assert text in shown.err


def test_nodes_without_a_host_are_told_apart_by_their_index(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    name = saved(tmp_path, make_table([range(2)] * 4))

    shown = run(
        "ranktable", "shrink", name, "--drop", "1", "--dp", "-1", "-o", "s.json"
    )
    unknown = run("ranktable", "shrink", name, "--drop", "4")

    assert shown.err.splitlines()[:4] == [
        "wrote s.json: 3 nodes, 6 ranks",
        "nodes out: -1",
        "ranks: 4 as before, 2 moved",
        "  3: ranks 6,7 -> 2,3",
    ]
    assert all(node.host is None for node in load(tmp_path / "s.json").nodes)
    assert unknown.err == (
        "ranktable: there is no node '4'; the nodes are 0, 1, 2, 3\n"
    )


def test_node_name_that_occurs_twice_is_refused() -> None:
    nodes = [
        Node(devices=(Device(rank=rank, device_id=0),), host="a") for rank in (0, 1)
    ]
    table = ranktable.RankTable(nodes=tuple(nodes))

    with pytest.raises(ChangeError, match="the nodes 0 and 1 are both named 'a'"):
        replace_node(table, "a", "b")


def test_super_pods_follow_the_nodes_of_a_change() -> None:
    nodes = make_table([range(2)] * 3, hosts=["a", "b", "c"]).nodes
    servers = [{"server_id": host} for host in "abc"]
    pods = [
        {"super_pod_id": "0", "server_list": servers[:2]},
        {"super_pod_id": "1", "server_list": servers[2:]},
    ]
    extra = {"super_pod_list": pods}
    table = ranktable.RankTable(nodes=nodes, extra=extra)

    layout = ParallelLayout(tp=2, dp=3)
    found = shrink(table, layout, [1])
    less = found.table
    other = replace_node(table, "b", "z")

    # Each of the two groups of dp is in both super pods before and after.
    between = crossed((table, layout), (less, found.layout), CostFacts())[1]
    assert between.name == "super pod"
    assert 0 < between.after == between.before
    assert less.extra["super_pod_list"] == [
        {"super_pod_id": "0", "server_list": [{"server_id": "a"}]},
        pods[1],
    ]
    assert other.extra["super_pod_list"] == [
        {"super_pod_id": "0", "server_list": [{"server_id": "a"}, {"server_id": "z"}]},
        pods[1],
    ]


def test_spare_joins_its_super_pod_again() -> None:
    hosts = [f"n{node}" for node in range(6)]
    servers = [{"server_id": host} for host in hosts]
    pods = [
        {"super_pod_id": str(pod), "server_list": servers[2 * pod : 2 * pod + 2]}
        for pod in range(3)
    ]
    nodes = make_table([range(2)] * 6, hosts=hosts).nodes
    table = ranktable.RankTable(nodes=nodes, extra={"super_pod_list": pods})

    less = shrink(table, ParallelLayout(tp=4, dp=3), [0])
    again = shrink(less.table, less.layout, [1])

    assert [spare.host for spare in spares_of(less.table)] == ["n5"]
    assert {node.host for node in again.table.nodes} == {"n5", "n2", "n3", "n4"}
    assert again.table.extra["super_pod_list"] == pods[1:]
    assert all("super_pod_id" not in node.extra for node in again.table.nodes)


def test_diff_says_that_only_the_order_of_spares_differs() -> None:
    chips = [{"device_id": "0"}]
    spares = [{"server_id": host, "device_list": chips} for host in "yz"]
    nodes = make_table([range(1)] * 2, hosts=["a", "b"]).nodes
    before = ranktable.RankTable(nodes=nodes, extra={"spare_list": spares})
    after = ranktable.RankTable(nodes=nodes, extra={"spare_list": spares[::-1]})
    other = ranktable.RankTable(nodes=nodes, extra={"spare_list": spares[:1] * 2})

    assert difference(before, after).others == ("at the top: the order of spare_list",)
    assert difference(before, other).others == ("at the top: spare_list",)


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


def test_spec_of_the_whole_cluster_gives_the_nodes_that_a_table_lacks(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    (tmp_path / "c.yaml").write_text(
        "nodes: n[1-4]\nchips: 2\naddresses: 10.0.{node}.{chip+1}\nspares: n4\n"
    )
    run("ranktable", "gen", "--spec", "c.yaml", "-o", "t.json")
    run("ranktable", "spares", "t.json", "--remove", "n4", "-o", "without.json")

    spared = run("ranktable", "spares", "t.json", "--add", "c.yaml", "-o", "x.json")
    replaced = run(
        "ranktable", "replace-node", "t.json", "n2", "c.yaml", "-o", "r.json"
    )
    grown = [
        run("ranktable", "grow", name, "--add", "c.yaml", "--dp", "-1", "-i")
        for name in ("t.json", "without.json")
    ]
    full = run("ranktable", "grow", "t.json", "--add", "c.yaml", "--dp", "-1", "-i")
    (tmp_path / "d.yaml").write_text("nodes: n[1-6]\nchips: 2\nspares: n[5-6]\n")
    run("ranktable", "gen", "--spec", "d.yaml", "-o", "d.json")
    unclear = run("ranktable", "replace-node", "d.json", "n2", "d.yaml")

    assert "the table lacks 2; give one" in unclear.err
    assert unclear.err.endswith("or name one of the spares\n")
    assert spared.err == (
        "ranktable: c.yaml: all of its 4 nodes are in the table or among its spares\n"
    )
    assert [done.status for done in (spared, replaced, full)] == [2, 0, 2]
    assert [done.status for done in grown] == [0, 0], grown[1].err
    assert "nodes in: +n4" in replaced.err
    assert load(tmp_path / "t.json").world_size == 8
    assert load(tmp_path / "without.json").nodes == load(tmp_path / "t.json").nodes


@pytest.mark.parametrize(
    ("spares", "text"),
    [
        ([("n2", 0, "10.0.9.1")], "spare_list[0] has chip 0 of n2, which is in the"),
        (
            [("s", 0, "10.0.9.1"), ("s", 0, "10.0.9.2")],
            "spare_list[1] has chip 0 of s, which is in the table already",
        ),
    ],
)
def test_spares_that_clash_with_the_table_change_nothing(
    run: Callable[..., Outcome],
    tmp_path: Path,
    spares: list[tuple[str, int, str]],
    text: str,
) -> None:
    addresses = "['10.0.1.1','10.0.2.1','10.0.3.1']"
    given = ("--hosts", "n[1-3]", "--device-ip", addresses, "--dp", "-1")
    run("ranktable", "gen", "--device-id", "[[0],[0],[0]]", *given, "-o", "t.json")
    document = json.loads((tmp_path / "t.json").read_text())
    document["spare_list"] = [
        {"host": host, "device_list": [{"device_id": str(chip), "device_ip": address}]}
        for host, chip, address in spares
    ]
    (tmp_path / "t.json").write_text(json.dumps(document))

    shrunk = run("ranktable", "shrink", "t.json", "--drop", "n1", "-o", "-")
    grown = run("ranktable", "grow", "t.json", "--spares", "-o", "-")

    assert [(done.status, done.out) for done in (shrunk, grown)] == [(2, "")] * 2
    assert text in shrunk.err
    assert text in grown.err
