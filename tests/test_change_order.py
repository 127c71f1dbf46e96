"""What matters when a table changes, tried as an operator would try it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

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
    from pathlib import Path

    from tests.conftest import Run


RACKS = "host rack\nn0 a\nn1 a\nn2 b\nn3 b\ns1 b\ns0 a\n"


@pytest.fixture
def rings(run: Run, tmp_path: Path) -> str:
    """Four boxes whose chips are in ring order, and their racks beside them."""
    command = ("ranktable", "gen", "--device-id", str([list(range(8))] * 4))
    run(*command, "--hosts", "n[0-3]", "--ring", "sophgo-8", "-o", "j.json")
    (tmp_path / "racks").write_text(RACKS)
    return "j.json"


def table_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def with_keys(path: Path, **keys: object) -> None:
    path.write_text(json.dumps({**table_json(path), **keys}))


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


def test_rings_stay_legal(run: Run, rings: str) -> None:
    done = run(
        *("ranktable", "fit", rings, "--lost", "n1", "--tp", "2", "--pp", "8"),
        *("-o", "k.json"),
    )

    judged = run("ranktable", "validate", "k.json", "--topology", "sophgo-8")
    assert (done.status, judged.status) == (0, 0), done.err
    assert "RT501" not in judged.out


def test_new_nodes_have_closed_rings_of_tensor_parallel_groups(run: Run) -> None:
    gen = ("ranktable", "gen", "--device-id")
    sizes = ("--tp", "4", "--pp", "2", "--ring", "sophgo-8")
    run(*gen, str([list(range(8))] * 3), "--hosts", "n[0-2]", *sizes, "-o", "j.json")
    run(*gen, str([list(range(8))]), "--hosts", "m", "-o", "m.json")
    run("ranktable", "fit", "j.json", "--spare", "n9", "-o", "s.json")

    for change in (
        ("s.json", "--lost", "n1"),
        ("j.json", "--with", "n7", "--grow"),
        ("j.json", "--with", "./m.json", "--grow"),
    ):
        done = run("ranktable", "fit", *change, "-o", "k.json", "--force")
        judged = run("ranktable", "validate", "k.json")

        assert (done.status, judged.status) == (0, 0), done.err
        assert "RT507" not in judged.out


@pytest.mark.parametrize("is_known", [True, False])
def test_spare_of_the_same_rack_comes_first(
    run: Run, rings: str, *, is_known: bool
) -> None:
    run("ranktable", "fit", rings, "--spare", "s1,s0", "-i")
    sizes = ("--tp", "8", "--pp", "2") if is_known else ()

    done = run("ranktable", "fit", rings, "--lost", "n0", *sizes, "--racks", "racks")

    assert "nodes in: +s0\n" in done.err
    # Two healthy nodes would be idle if the spare were not used.
    assert "layout:" not in done.err
    kept = "typical bytes between racks, GiB a step: 4.00 -> 4.00"
    assert (kept in done.err) == is_known


def test_diff_shows_what_crosses_racks(run: Run, rings: str, tmp_path: Path) -> None:
    table = ranktable.load(tmp_path / rings)
    first, second, third, fourth = table.nodes
    chips = [
        [device.device_id for device in node.devices]
        for node in (first, third, second, fourth)
    ]
    mixed = make_table(chips, hosts=["n0", "n2", "n1", "n3"])
    ranktable.dump(mixed, tmp_path / "m.json")

    shown = run(
        *("ranktable", "diff", rings, "m.json", "--tp", "8", "--pp", "2"),
        *("--racks", "racks", "--bytes", "dp=2GiB,pp=1GiB"),
    )

    # At first 16 lanes of the pipeline leave their rack, then 16 groups of dp.
    assert "bytes between racks, GiB a step: 16.00 -> 32.00" in shown.out


def test_table_remembers_its_layout(run: Run, rings: str, tmp_path: Path) -> None:
    first = run("ranktable", "fit", rings, "--lost", "n1", "--tp", "4", "-o", "k.json")
    again = run("ranktable", "fit", "k.json", "--lost", "n2", "-o", "l.json")
    wrong = run("ranktable", "mesh", "k.json", "--tp", "8")

    assert (first.status, again.status) == (0, 0), again.err
    found = ranktable.load(tmp_path / "l.json")
    assert found.extra["layout"] == "tp=4 dp=4 order=tp-cp-ep-dp-pp ep_style=megatron"
    assert wrong.status == 2
    assert "--tp 8 contradicts the table, which remembers tp=4 dp=6" in wrong.err
    assert "RT117" not in run("ranktable", "validate", "l.json").out


@pytest.mark.parametrize("layout", ["tp=4 dp=2", "tp=8 dp=8"])
@pytest.mark.parametrize("command", ["mesh", "plan", "fit"])
def test_layout_of_another_size_is_said(
    run: Run, rings: str, tmp_path: Path, command: str, layout: str
) -> None:
    with_keys(tmp_path / rings, layout=layout)

    shown = run("ranktable", command, rings)

    size = 8 if layout == "tp=4 dp=2" else 64
    if (command, size) == ("fit", 64):  # the last nodes may have been taken out
        assert "layout: dp 8 -> 4\n" in shown.err
        return
    assert (shown.status, shown.out) == (2, "")
    assert shown.err == (
        f"ranktable: the layout that the table remembers is one of {size} ranks, and "
        'the table has 32; change or remove "layout" in the table\n'
    )


@pytest.mark.parametrize("command", ["fit j.json", "fit j.json --lost n2 --with x"])
def test_gaps_beyond_the_layout_are_refused_where_the_number_of_ranks_is_its(
    run: Run, rings: str, tmp_path: Path, command: str
) -> None:
    document = json.loads((tmp_path / rings).read_text())
    del document["node_list"][1]
    (tmp_path / rings).write_text(json.dumps({**document, "layout": "tp=8 dp=3"}))

    shown = run("ranktable", *command.split())

    assert (shown.status, shown.out) == (2, "")
    assert shown.err == (
        "ranktable: the layout that the table remembers is one of 24 ranks, and the "
        'table has rank 31; change or remove "layout" in the table\n'
    )


def test_diff_names_the_table_whose_layout_is_out_of_date(
    run: Run, rings: str, tmp_path: Path
) -> None:
    document = json.loads((tmp_path / rings).read_text())
    stale = {**document, "layout": "tp=4 dp=2"}
    (tmp_path / rings).write_text(json.dumps({**document, "layout": "tp=4 dp=8"}))
    (tmp_path / "stale.json").write_text(json.dumps(stale))

    shown = run("ranktable", "diff", rings, "stale.json")

    assert shown.status == 2
    assert "stale.json: the layout that the table remembers is one of 8" in shown.err


def test_role_of_an_axis_that_is_gone_is_named(run: Run) -> None:
    chips = str([[0, 1]] * 3)
    run("ranktable", "gen", "--device-id", chips, "--hosts", "a,b,c", "-o", "t.json")
    command = ("ranktable", "fit", "t.json", "--lost", "a", "--tp", "3")

    done = run(*command, "--keep", "pp", "-o", "w.json")

    assert "layout: tp 3 -> 1, dp 2 -> 4" in done.err
    assert "c chip 0: rank 4 -> 0, tp 1 -> none\n" in done.err


@pytest.mark.parametrize("text", ["tp=0", "tp=4 tp=4", "x=1", "", "tp=x", "tp"])
def test_layout_that_is_not_one_is_said(
    run: Run, rings: str, tmp_path: Path, text: str
) -> None:
    document = json.loads((tmp_path / rings).read_text())
    (tmp_path / rings).write_text(json.dumps({**document, "layout": text or "-"}))

    shown = run("ranktable", "mesh", rings)

    assert shown.status == 2
    assert '"layout" of the table' in shown.err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tp=4 dp=8 order=foo", 'the order has "foo", which is not one of tp, cp, ep'),
        ("tp=4 dp=8 order=tp-dp-tp", "the order names tp twice"),
        ("tp=4 pp=8 order=tp-dp", "pp has a size and is not in the order"),
        ("tp=32 ep_style=nonsense", 'ep_style "nonsense" is not one of megatron'),
        ("tp=4 dp=8 dp_replicate=3", "dp_replicate 3 does not divide dp 8"),
    ],
)
def test_remembered_layout_that_mesh_refuses_is_warned_of(
    run: Run, rings: str, tmp_path: Path, text: str, reason: str
) -> None:
    document = json.loads((tmp_path / rings).read_text())
    (tmp_path / rings).write_text(json.dumps({**document, "layout": text}))

    judged = run("ranktable", "validate", rings)
    shown = run("ranktable", "mesh", rings)

    assert "warning[RT508]" in judged.out
    assert reason in judged.out
    assert shown.status == 2
    assert reason in shown.err


def test_single_chips_are_lost_and_replaced(
    run: Run, rings: str, tmp_path: Path
) -> None:
    few = run(
        *("ranktable", "fit", rings, "--lost-chips", "n1:2", "--tp", "4"),
        *("-o", "w.json"),
    )
    table = ranktable.load(tmp_path / "w.json")
    dead = f"n1:{table.nodes[1].devices[1].device_id}"
    one = run("ranktable", "fit", "w.json", "--lost-chips", dead, "-o", "s.json")
    spare = f"n1:{table.spares[0].devices[0].device_id}"
    idle = run("ranktable", "fit", "w.json", "--lost-chips", spare, "-o", "i.json")
    gone = run("ranktable", "fit", "w.json", "--lost", "n1", "-o", "l.json")

    assert [done.status for done in (few, one, idle, gone)] == [0, 0, 0, 0]
    judged = run("ranktable", "validate", "w.json", "--topology", "sophgo-8")
    assert "RT501" not in judged.out
    sizes = [
        [len(spare.devices) for spare in ranktable.load(tmp_path / name).spares]
        for name in ("w.json", "s.json", "i.json", "l.json")
    ]
    assert sizes == [[3], [2], [2], []]
    replaced = ranktable.load(tmp_path / "s.json")
    assert (replaced.hosts, replaced.world_size) == (table.hosts, 28)


def without_node(path: Path, place: int) -> None:
    """Take a node out of a table that remembers its layout."""
    document = table_json(path)
    del document["node_list"][place]
    path.write_text(json.dumps({**document, "layout": "tp=8 dp=4"}))


@pytest.mark.parametrize("place", [1, 3])
def test_groups_and_bytes_of_a_table_with_gaps_are_shown(
    run: Run, rings: str, tmp_path: Path, place: int
) -> None:
    without_node(tmp_path / rings, place)

    done = run("ranktable", "fit", rings, "-o", "k.json")
    back = run("ranktable", "fit", rings, "--with", "n7", "-o", "l.json")

    assert "layout: dp 4 -> 3" in done.err
    assert (
        "typical bytes between nodes, GiB a step: 36.00 of the ranks that are left -> "
        "36.00, optimal\n"
    ) in done.err
    assert "ranks: 24 as before, 8 on new chips\n" in back.err
    assert "36.00 of the ranks that are left -> 54.00, optimal\n" in back.err


def test_table_with_gaps_is_grown(run: Run, rings: str, tmp_path: Path) -> None:
    document = table_json(tmp_path / rings)
    del document["node_list"][1]["device_list"][6:]
    (tmp_path / "g.json").write_text(json.dumps(document))

    filled = run("ranktable", "fit", "g.json", "--with", "x", "-o", "f.json")
    grown = run(
        *("ranktable", "fit", "g.json", "--with", "x", "--grow", "--tp", "2"),
        *("-o", "h.json"),
    )

    assert "ranks: 30 as before, 2 on new chips" in filled.err
    assert "layout: dp 16 -> 19" in grown.err
    assert ranktable.load(tmp_path / "h.json").world_size == 38


def test_gen_writes_the_layout_and_its_rings_are_judged_by_it(run: Run) -> None:
    boxes = ("ranktable", "gen", "--device-id", "[[0,2,6,7,3,1,5,4]]", "-o", "g.json")
    run(*boxes, "--tp", "4", "--order", "tp-pp-dp")

    shown = run("ranktable", "mesh", "g.json")
    judged = run("ranktable", "validate", "g.json")

    assert "8 ranks = tp 4 x dp 2, order tp-pp-dp" in shown.out
    assert "RT507" in judged.out


def test_option_that_contradicts_the_table_is_an_error(run: Run) -> None:
    run("ranktable", "gen", "--device-id", "[[0..7]]", "--tp", "4", "-o", "g.json")

    judged = run("ranktable", "validate", "g.json", "--tp", "2")
    same = run("ranktable", "validate", "g.json", "--tp", "4")

    assert (judged.status, same.status) == (1, 0)
    assert "error[RT511] --tp 2 contradicts the table" in judged.out


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


def test_node_and_its_spare_change_places_again(
    run: Run, rings: str, tmp_path: Path
) -> None:
    run("ranktable", "fit", rings, "--spare", "s1", "-i")
    before = ranktable.load(tmp_path / rings)

    run("ranktable", "fit", rings, "--spare", "n1", "--with", "s1", "-i")
    back = run("ranktable", "fit", rings, "--spare", "s1", "--with", "n1", "-i")

    assert back.status == 0, back.err
    after = ranktable.load(tmp_path / rings)
    assert after.digest() == before.digest()
    assert json.loads(dumps(after)) == json.loads(dumps(before))


def test_changes_say_optimal_or_how_far_they_are(run: Run, rings: str) -> None:
    filled = run(
        *("ranktable", "fit", rings, "--lost", "n1"),
        *("--tp", "8", "-o", "f.json", "--format", "json"),
    )
    mixed = run(
        *("ranktable", "fit", rings, "--lost", "n1", "--with", "s0", "--tp", "8"),
        *("--pp", "2", "--racks", "racks", "-o", "m.json"),
    )

    assert [one["optimal"] for one in json.loads(filled.out)["crossings"]] == [True]
    nodes, racks = [
        line for line in mixed.err.splitlines() if line.startswith("typical bytes")
    ]
    assert nodes.endswith(", optimal")
    assert re.search(r", optimal$|, \d+% above the bound of [0-9.]+$", racks)


def test_level_is_written_in_its_plural(run: Run, rings: str, tmp_path: Path) -> None:
    (tmp_path / "slurm").write_text(
        "SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[2-3]\n"
        "SwitchName=top Switches=a,b\n"
    )

    done = run(
        *("ranktable", "fit", rings, "--lost", "n1", "--tp", "8"),
        *("--racks", "slurm", "-o", "x.json"),
    )

    assert "typical bytes between switches, GiB a step" in done.err


def test_experts_may_stand_in_the_way_of_growing(run: Run, rings: str) -> None:
    done = run(
        *("ranktable", "fit", rings, "--with", "s1", "--grow", "--tp", "2"),
        *("--pp", "2", "--ep", "8", "--etp", "1", "--diff"),
    )

    assert (done.status, "now spares: s1\n" in done.out) == (1, True)
    assert "note: 8 chips are too few for" in done.err


@pytest.mark.parametrize("is_turned", [False, True])
def test_diff_asks_for_the_sizes_that_only_one_table_remembers(
    run: Run, rings: str, *, is_turned: bool
) -> None:
    files = [rings, "l.json"]
    run("ranktable", "fit", rings, "--lost", "n1", "--tp", "4", "-o", "l.json")

    done = run(
        "ranktable",
        "diff",
        *files[:: -1 if is_turned else 1],
        "--bytes",
        "tp=1GiB,dp=1GiB",
    )
    told = run("ranktable", "diff", *files, "--tp", "4")

    assert done.status == 2
    assert done.err == (
        "ranktable: j.json remembers no layout, and l.json remembers tp=4 dp=6 "
        "order=tp-cp-ep-dp-pp ep_style=megatron; give the sizes that both have, such "
        "as --tp 8\n"
    )
    assert "roles: none moved" in told.out


@pytest.mark.parametrize("is_remembered", [True, False])
@pytest.mark.parametrize("more", [[], ["--with", "x"]])
def test_last_node_may_have_been_taken_out_by_hand(
    run: Run, rings: str, tmp_path: Path, more: list[str], *, is_remembered: bool
) -> None:
    document = table_json(tmp_path / rings)
    del document["node_list"][3]
    document |= {"layout": "tp=8 pp=2 dp=2"} if is_remembered else {}
    (tmp_path / rings).write_text(json.dumps(document))
    sizes = [] if is_remembered else ["--tp", "8", "--pp", "2"]

    done = run("ranktable", "fit", rings, *more, *sizes, "-o", "k.json")

    assert done.status == 0, done.err
    assert ranktable.load(tmp_path / "k.json").world_size == (32 if more else 16)


def test_node_that_was_taken_out_by_hand_is_not_taken_for_another(
    run: Run, rings: str, tmp_path: Path
) -> None:
    without_node(tmp_path / rings, 1)

    done = run("ranktable", "fit", rings, "--lost", "n1")

    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "ranktable: there is no node 'n1'; 8 ranks (8-15) are missing already, so if "
        "it was taken out of the file, leave it out here\n"
    )


def test_racks_that_are_counted_stay_those_of_the_nodes(
    run: Run, tmp_path: Path
) -> None:
    hosts = [f"n{at:02}" for at in range(16)]
    ranktable.dump(make_table([range(8)] * 16, hosts=hosts), tmp_path / "t.json")
    lines = [f"{host} r{at // 4}\n" for at, host in enumerate(hosts)]
    (tmp_path / "racks").write_text("".join(lines))
    drop = ("ranktable", "fit", "t.json", "--lost", "n02", "--tp", "8", "-o")

    counted = run(*drop, "a.json", "--racks", "rack=4")
    listed = run(*drop, "b.json", "--racks", "racks")

    assert counted.err.replace("a.json", "b.json") == listed.err
    assert "typical bytes between racks, GiB a step: 54.00 -> 54.00" in listed.err


def test_few_ranks_move_though_more_bytes_cross_racks(run: Run, tmp_path: Path) -> None:
    hosts = [f"n{at:02}" for at in range(64)]
    ranktable.dump(make_table([range(8)] * 64, hosts=hosts), tmp_path / "t.json")
    sizes = ("--tp", "8", "--pp", "4", "--order", "tp-pp-dp", "--racks", "rack=8")

    done = run("ranktable", "fit", "t.json", "--lost", "n05", *sizes, "-o", "k.json")

    assert "ranks: 472 as before, 8 moved\n" in done.err
    assert "roles: none moved\n" in done.err


def test_healthy_nodes_are_left_alone() -> None:
    spare = make_table([range(5)], hosts=["s"]).nodes
    table = make_table([range(1)] * 5, hosts=list("abcde")).with_changes(spares=spare)

    found = fit(table, ParallelLayout(tp=5), lost=["c"])

    assert found.table.hosts == ("a", "b", "s", "d", "e")


def test_chips_of_another_node_are_put_in_a_ring(run: Run, tmp_path: Path) -> None:
    gen = ("ranktable", "gen", "--ring", "sophgo-8", "--tp", "2")
    run(*gen, "--device-id", "[[0..3],[0..3]]", "--hosts", "a,b", "-o", "t.json")
    (tmp_path / "p.jsonl").write_text(
        '{"probe":1,"host":"c","chips":[{"device_id":2},{"device_id":3},'
        '{"device_id":6},{"device_id":7}]}\n'
    )

    done = run(
        "ranktable", "fit", "t.json", "--lost", "b", "--with", "p.jsonl", "-o", "k.json"
    )

    assert done.status == 0, done.err
    found = ranktable.load(tmp_path / "k.json").local_chip_map(1)
    assert not SOPHGO_8.broken_links(found)


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
