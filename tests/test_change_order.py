"""What matters when a table changes, tried as an operator would try it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.layout import ParallelLayout
from ranktable.layout.change import (
    ChangeError,
    add_spares,
    difference,
    renumber,
    replace_node,
    shrink,
    spares_of,
)
from ranktable.layout.change.facts import CostFacts, crossed
from ranktable.layout.parallel import remembered, remembering
from ranktable.schema.model import Device, Node
from ranktable.schema.topology import SOPHGO_8
from ranktable.schema.writing import dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

RACKS = "host rack\nn0 a\nn1 a\nn2 b\nn3 b\ns1 b\ns0 a\n"


@pytest.fixture
def rings(run: Run, tmp_path: Path) -> str:
    """Four boxes whose chips are in ring order, and their racks beside them."""
    command = ("ranktable", "gen", "--device-id", str([list(range(8))] * 4))
    run(*command, "--hosts", "n[0-3]", "--ring", "sophgo-8", "-o", "j.json")
    (tmp_path / "racks").write_text(RACKS)
    return "j.json"


def test_shrink_keeps_groups_inside_uneven_nodes() -> None:
    table = make_table(
        [range(n) for n in (8, 8, 4, 4, 8)], hosts=["b0", "b1", "b2", "b3", "b4"]
    )
    layout = ParallelLayout(tp=8, dp=4)

    found = shrink(table, layout, [1])

    whole = [len(node.devices) for node in found.table.nodes]
    assert whole == [8, 8, 4, 4]
    (sent,) = crossed((table, layout), (found.table, found.layout), CostFacts())
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

    found = shrink(table, layout, [], ranks=lost)

    change = difference(table, found.table, (layout, found.layout))
    assert len(change.role_moves) <= role_moves
    assert len(change.rank_moves) <= rank_moves


def test_shrink_keeps_roles_inside_super_pods() -> None:
    names = [[f"n{pod}-{at}" for at in range(16)] for pod in range(32)]
    pods = [
        {"super_pod_id": str(pod), "server_list": [{"server_id": one} for one in own]}
        for pod, own in enumerate(names)
    ]
    hosts = [name for own in names for name in own]
    table = make_table([range(8)] * 512, hosts=hosts)
    table = table.with_changes(extra={"super_pod_list": pods})
    layout = ParallelLayout(tp=8, dp=128, pp=4, order="tp-cp-dp-pp")

    found = shrink(table, layout, [3])

    layouts = (layout, found.layout)
    made = difference(table, found.table, layouts, facts=CostFacts())
    assert found.layout.dp == 127
    assert made.role_moves == ()


def test_shrink_is_minimal_in_roles_where_bytes_are_equal() -> None:
    table = make_table([range(2)] * 3, hosts=["a", "b", "c"])
    layout = ParallelLayout(tp=3, dp=2)

    found = shrink(table, layout, [0])

    # Chips 2 and 0 of the groups are left on b, and 1 and 2 on c: all three roles.
    moves = difference(table, found.table, (layout, found.layout)).role_moves
    assert found.table.world_size == 3
    assert moves == ()


def test_rings_stay_legal(run: Run, rings: str) -> None:
    done = run(
        *("ranktable", "shrink", rings, "--drop", "n1", "--tp", "2", "--pp", "8"),
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
    run("ranktable", "spares", "j.json", "--add", "n9", "--new", "-o", "s.json")

    for change in (
        ("shrink", "s.json", "--drop", "n1"),
        ("grow", "j.json", "--add", "n7", "--new"),
        ("grow", "j.json", "--add", "./m.json"),
    ):
        done = run("ranktable", *change, "-o", "k.json", "--force")
        judged = run("ranktable", "validate", "k.json")

        assert (done.status, judged.status) == (0, 0), done.err
        assert "RT507" not in judged.out


def test_spare_of_the_same_rack_comes_first(run: Run, rings: str) -> None:
    run("ranktable", "spares", rings, "--add", "s1,s0", "--new", "-i")
    sizes = ("--tp", "8", "--pp", "2", "--racks", "racks")

    other = run("ranktable", "replace-node", rings, "n0", *sizes)
    less = run("ranktable", "shrink", rings, "--drop", "n0", *sizes, "-o", "l.json")

    for done in (other, less):
        assert "nodes in: +s0\n" in done.err
        assert "typical bytes between racks, GiB a step: 4.00 -> 4.00" in done.err
    # Two healthy nodes would be idle if the spare were not used.
    assert "layout:" not in less.err


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


def test_misspelt_host_is_not_a_new_node(run: Run, rings: str) -> None:
    run("ranktable", "spares", rings, "--add", "gpu101", "--new", "-i")

    slip = run("ranktable", "replace-node", rings, "n1", "gpu10")
    unknown = run("ranktable", "grow", rings, "--add", "n9", "--tp", "8")

    assert (slip.status, slip.out) == (2, "")
    assert "did you mean gpu101? Or add --new" in slip.err
    assert unknown.status == 2
    assert "'n9' is not a spare of the table" in unknown.err


def test_forgotten_sizes_are_asked_for(run: Run, rings: str) -> None:
    shown = run("ranktable", "shrink", rings, "--drop", "n1")

    assert (shown.status, shown.out) == (2, "")
    assert "the layout of the ranks is not known" in shown.err


def test_table_remembers_its_layout(run: Run, rings: str, tmp_path: Path) -> None:
    first = run(
        "ranktable", "shrink", rings, "--drop", "n1", "--tp", "4", "-o", "k.json"
    )

    again = run("ranktable", "shrink", "k.json", "--drop", "n2", "-o", "l.json")
    wrong = run("ranktable", "mesh", "k.json", "--tp", "8")

    assert (first.status, again.status) == (0, 0), again.err
    found = ranktable.load(tmp_path / "l.json")
    assert found.extra["layout"] == "tp=4 dp=4 order=tp-cp-ep-dp-pp ep_style=megatron"
    assert wrong.status == 2
    assert "--tp 8 contradicts the table, which remembers tp=4 dp=6" in wrong.err
    assert "RT117" not in run("ranktable", "validate", "l.json").out


@pytest.mark.parametrize(
    ("command", "layout"),
    [
        ("mesh j.json", "tp=4 dp=2"),
        ("mesh j.json", "tp=8 dp=8"),
        ("plan j.json", "tp=8 dp=8"),
        ("renumber j.json --drop n1", "tp=4 dp=2"),
        ("replace-node j.json n1 x --new", "tp=4 dp=2"),
        ("grow j.json --add x --new", "tp=4 dp=2"),
    ],
)
def test_layout_of_another_size_is_said(
    run: Run, rings: str, tmp_path: Path, command: str, layout: str
) -> None:
    document = json.loads((tmp_path / rings).read_text())
    (tmp_path / rings).write_text(json.dumps({**document, "layout": layout}))

    shown = run("ranktable", *command.split())

    assert (shown.status, shown.out) == (2, "")
    assert shown.err == (
        "ranktable: the layout that the table remembers is one of "
        f"{8 if layout == 'tp=4 dp=2' else 64} ranks, and the "
        'table has 32; change or remove "layout" in the table\n'
    )


@pytest.mark.parametrize(
    "command",
    [
        "renumber j.json",
        "replace-node j.json n2 x --new",
        "shrink j.json --drop n2",
        "grow j.json --add x --new",
    ],
)
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


def test_shrink_does_not_say_what_would_keep_dp_where_more_was_lost_before(
    run: Run, rings: str, tmp_path: Path
) -> None:
    document = json.loads((tmp_path / rings).read_text())
    (tmp_path / rings).write_text(json.dumps({**document, "layout": "tp=8 dp=8"}))

    done = run("ranktable", "shrink", rings, "--drop", "n1", "-o", "w.json")

    assert (done.status, "layout: dp 8 -> 3" in done.err) == (0, True)
    assert "note:" not in done.err


def test_role_of_an_axis_that_is_gone_is_named(run: Run) -> None:
    chips = str([[0, 1]] * 3)
    run("ranktable", "gen", "--device-id", chips, "--hosts", "a,b,c", "-o", "t.json")
    command = ("ranktable", "shrink", "t.json", "--drop", "a", "--tp", "3")

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


def test_single_chips_are_dropped(run: Run, rings: str, tmp_path: Path) -> None:
    done = run(
        *("ranktable", "shrink", rings, "--drop-ranks", "3", "--tp", "2"),
        *("-o", "w.json"),
    )

    judged = run("ranktable", "validate", "w.json", "--topology", "sophgo-8")
    table = ranktable.load(tmp_path / "w.json")
    assert done.status == 0, done.err
    assert table.world_size == 30
    assert "RT501" not in judged.out
    assert [len(node.devices) for node in spares_of(table)] == [1]


def test_table_with_gaps_is_shrunk(run: Run, rings: str, tmp_path: Path) -> None:
    document = json.loads((tmp_path / rings).read_text())
    del document["node_list"][1]
    (tmp_path / "g.json").write_text(json.dumps(document))

    done = run("ranktable", "shrink", "g.json", "--tp", "8", "-o", "h.json")

    assert done.status == 0, done.err
    assert "layout: dp 4 -> 3" in done.err
    assert ranktable.load(tmp_path / "h.json").world_size == 24


def test_table_with_gaps_gets_spares_and_another_node(
    run: Run, rings: str, tmp_path: Path
) -> None:
    document = json.loads((tmp_path / rings).read_text())
    del document["node_list"][1]["device_list"][6:]
    (tmp_path / "g.json").write_text(json.dumps(document))
    note = "note: 2 ranks are still missing; ranktable renumber fills the gaps\n"

    spare = run("ranktable", "spares", "g.json", "--add", "s", "--new", "-i")
    other = run("ranktable", "replace-node", "g.json", "n2", "x", "--new", "-i")
    again = run("ranktable", "replace-node", "g.json", "n2", "x", "--new", "-i")
    filled = run("ranktable", "shrink", "g.json", "--tp", "2", "-i")

    assert (spare.status, other.status, again.status, filled.status) == (0, 0, 0, 0)
    assert spare.err.endswith(note)
    assert other.err.endswith(f"x chips 0,2,6,7,3,1,5,4, before on n2\n{note}")
    assert again.err.startswith("unchanged g.json")
    assert "ranks: 30 as before, 2 on new chips" in filled.err
    assert "missing" not in filled.err
    assert ranktable.load(tmp_path / "g.json").world_size == 32


def test_table_with_gaps_is_grown(run: Run, rings: str, tmp_path: Path) -> None:
    document = json.loads((tmp_path / rings).read_text())
    del document["node_list"][1]["device_list"][6:]
    (tmp_path / "g.json").write_text(json.dumps(document))

    done = run(
        *("ranktable", "grow", "g.json", "--add", "x", "--new", "--tp", "2"),
        *("-o", "h.json"),
    )

    assert done.status == 0, done.err
    assert "layout: dp 16 -> 19" in done.err
    assert ranktable.load(tmp_path / "h.json").world_size == 38


def test_growing_a_table_with_gaps_by_no_node_leaves_it(
    run: Run, rings: str, tmp_path: Path
) -> None:
    document = json.loads((tmp_path / rings).read_text())
    del document["node_list"][1]["device_list"][6:]
    (tmp_path / "g.json").write_text(json.dumps(document))

    done = run("ranktable", "grow", "g.json", "--spares", "--tp", "2", "-i")

    assert done.status == 0, done.err
    assert "ranks: 30 as before" in done.err
    assert "note: 2 ranks are still missing" in done.err


def without_node(tmp_path: Path, name: str, place: int) -> None:
    """Take a node out of a table that remembers its layout."""
    document = json.loads((tmp_path / name).read_text())
    del document["node_list"][place]
    document["layout"] = "tp=8 dp=4"
    (tmp_path / name).write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("command", "place"),
    [("shrink", 1), ("shrink", 3), ("renumber", 1)],
)
def test_groups_and_bytes_of_a_table_with_gaps_are_shown(
    run: Run, rings: str, tmp_path: Path, command: str, place: int
) -> None:
    without_node(tmp_path, rings, place)

    done = run("ranktable", *command.split(), rings, "-o", "k.json")

    assert done.status == 0, done.err
    assert (
        "typical bytes between nodes, GiB a step: 36.00 of the ranks that are left -> "
        "36.00, optimal\n"
    ) in done.err


def test_grow_names_the_spares_that_it_does_not_add(run: Run, rings: str) -> None:
    run("ranktable", "spares", rings, "--add", "s[1-3]", "--new", "-i")
    grow = ("ranktable", "grow", rings, "--tp", "8", "--add", "s2", "-o")

    some = run(*grow, "k.json")
    every = run(*grow, "m.json", "--spares")

    assert some.err.endswith(
        "note: --spares adds s[1,3] too, which the table declares\n"
    )
    assert "note:" not in every.err


def test_new_node_takes_the_ranks_that_a_table_lacks(
    run: Run, rings: str, tmp_path: Path
) -> None:
    without_node(tmp_path, rings, 1)

    done = run("ranktable", "grow", rings, "--add", "n7", "--new", "-o", "k.json")

    assert done.status == 0, done.err
    assert "ranks: 24 as before, 8 on new chips\n" in done.err
    assert "36.00 of the ranks that are left -> 54.00, optimal\n" in done.err


def test_sizes_that_only_fit_the_ranks_that_are_left_are_taken(
    run: Run, tmp_path: Path
) -> None:
    gen = ("ranktable", "gen", "--device-id", str([[0, 1]] * 3), "--hosts", "a,b,c")
    run(*gen, "-o", "t.json")

    drop = ("--drop", "a", "--tp", "4")
    done = run("ranktable", "renumber", "t.json", *drop, "-o", "less.json")

    assert done.status == 0, done.err
    assert ranktable.load(tmp_path / "less.json").world_size == 4


def test_shrink_names_what_would_keep_dp(run: Run, rings: str) -> None:
    done = run("ranktable", "shrink", rings, "--drop", "n1", "--tp", "8")

    assert (
        "note: 8 chips on other nodes would keep dp 4: ranktable replace-node j.json "
        "n1 NEW\n"
    ) in done.err


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
    run("ranktable", "spares", rings, "--add", "s1", "--new", "-i")
    before = ranktable.load(tmp_path / rings)
    replace = ("ranktable", "replace-node", rings)

    run(*replace, "n1", "s1", "--to-spares", "-i")
    back = run(*replace, "s1", "n1", "--to-spares", "-i")

    assert back.status == 0, back.err
    assert ranktable.load(tmp_path / rings) == before


def test_node_that_was_a_spare_for_a_while_is_what_it_was(
    run: Run, rings: str, tmp_path: Path
) -> None:
    before = ranktable.load(tmp_path / rings)
    replace = ("ranktable", "replace-node", rings)

    run(*replace, "n1", "x", "--new", "--to-spares", "-i")
    back = run(*replace, "x", "n1", "--to-spares", "-i")
    listed = run("ranktable", "spares", rings)

    assert back.status == 0, back.err
    assert ranktable.load(tmp_path / rings).nodes == before.nodes
    assert listed.out == "j.json: 1 spare\nx: chips 0,2,6,7,3,1,5,4\n"


def test_sound_node_becomes_a_spare_when_asked(run: Run, rings: str) -> None:
    run("ranktable", "replace-node", rings, "n1", "n9", "--new", "--to-spares", "-i")

    listed = run("ranktable", "spares", rings)

    assert listed.out == "j.json: 1 spare\nn1: chips 0,2,6,7,3,1,5,4\n"


def test_chips_of_a_spare_that_are_not_needed_stay_spare(tmp_path: Path) -> None:
    table = make_table([range(4)] * 2, hosts=["a", "b"])
    large = add_spares(table, make_table([range(8)], hosts=["s"]).nodes)

    found = replace_node(large, "a", "s")

    assert [len(node.devices) for node in spares_of(found)] == [4]
    ranktable.dump(found, tmp_path / "found.json")
    assert ranktable.load(tmp_path / "found.json").digest() == found.digest()


def test_changes_say_optimal_or_how_far_they_are(run: Run, rings: str) -> None:
    filled = run(
        *("ranktable", "shrink", rings, "--drop", "n1"),
        *("--tp", "8", "-o", "f.json", "--format", "json"),
    )
    mixed = run(
        *("ranktable", "replace-node", rings, "n1", "s0", "--new", "--tp", "8"),
        *("--pp", "2", "--racks", "racks", "-o", "m.json"),
    )

    assert [one["optimal"] for one in json.loads(filled.out)["crossings"]] == [True]
    nodes, racks = [
        line for line in mixed.err.splitlines() if line.startswith("typical bytes")
    ]
    assert nodes.endswith(", optimal")
    assert re.search(r", optimal$|, \d+% above the bound of [0-9.]+$", racks)


def test_single_chips_have_an_alternative_too(run: Run, rings: str) -> None:
    done = run("ranktable", "shrink", rings, "--drop-ranks", "9", "--tp", "8")

    assert done.err.endswith(
        "note: 8 chips on other nodes would keep dp 4: ranktable replace-node j.json "
        "n1 NEW\n"
    )


@pytest.mark.parametrize(
    "command",
    ["shrink --drop n1", "renumber --drop n1", "replace-node s0 --new"],
)
def test_spare_chips_of_a_lost_node_are_lost_too(
    run: Run, rings: str, tmp_path: Path, command: str
) -> None:
    name, *options = command.split()
    run("ranktable", "shrink", rings, "--drop-ranks", "9", "--tp", "4", "-i")
    few = spares_of(ranktable.load(tmp_path / rings))

    files = (rings, "n1") if name == "replace-node" else (rings,)
    done = run("ranktable", name, *files, *options, "-o", "l.json")

    assert [(node.host, len(node.devices)) for node in few] == [("n1", 3)]
    assert done.status == 0, done.err
    assert spares_of(ranktable.load(tmp_path / "l.json")) == []


def test_dead_chip_is_replaced_by_a_spare_chip_of_its_node(
    run: Run, rings: str, tmp_path: Path
) -> None:
    run("ranktable", "shrink", rings, "--drop-ranks", "9", "--tp", "4", "-i")
    before = ranktable.load(tmp_path / rings)

    done = run(
        *("ranktable", "shrink", rings),
        *("--drop-ranks", str(before.nodes[1].devices[1].rank), "-o", "s.json"),
    )

    after = ranktable.load(tmp_path / "s.json")
    assert done.status == 0, done.err
    assert after.hosts == before.hosts
    assert [len(node.devices) for node in spares_of(after)] == [2]
    assert after.world_size == before.world_size == 28


@pytest.mark.parametrize("command", ["shrink --drop s1", "replace-node s1 n9 --new"])
def test_dropping_a_spare_says_that_it_is_a_spare(
    run: Run, rings: str, command: str
) -> None:
    run("ranktable", "spares", rings, "--add", "s1", "--new", "-i")
    name, *rest = command.split()

    done = run("ranktable", name, rings, *rest, "--tp", "8", "-o", "x.json")

    assert done.status == 2
    assert done.err == (
        "ranktable: s1 is a spare and carries no rank; ranktable spares FILE "
        "--remove s1 takes it out of the table\n"
    )


def test_level_is_written_in_its_plural(run: Run, rings: str, tmp_path: Path) -> None:
    (tmp_path / "slurm").write_text(
        "SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[2-3]\n"
        "SwitchName=top Switches=a,b\n"
    )

    done = run(
        *("ranktable", "shrink", rings, "--drop", "n1", "--tp", "8"),
        *("--racks", "slurm", "-o", "x.json"),
    )

    assert "typical bytes between switches, GiB a step" in done.err


def test_growing_names_the_experts_that_stand_in_the_way(run: Run, rings: str) -> None:
    done = run(
        *("ranktable", "grow", rings, "--add", "s1", "--new", "--tp", "2"),
        *("--pp", "2", "--ep", "8", "--etp", "1"),
    )

    assert done.status == 2
    assert done.err == (
        "ranktable: 8 chips more are too few for another copy of the model, "
        "tp 2 x pp 2 x cp 1 = 4, where etp 1 x ep 8 = 8 divides tp x cp x dp\n"
    )


@pytest.mark.parametrize("is_turned", [False, True])
def test_diff_asks_for_the_sizes_that_only_one_table_remembers(
    run: Run, rings: str, *, is_turned: bool
) -> None:
    files = [rings, "l.json"]
    run("ranktable", "shrink", rings, "--drop", "n1", "--tp", "4", "-o", "l.json")

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


def table_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("is_remembered", [True, False])
@pytest.mark.parametrize("command", ["shrink", "grow --add x --new"])
def test_last_node_may_have_been_taken_out_by_hand(
    run: Run, rings: str, tmp_path: Path, command: str, *, is_remembered: bool
) -> None:
    document = table_json(tmp_path / rings)
    del document["node_list"][3]
    document |= {"layout": "tp=8 pp=2 dp=2"} if is_remembered else {}
    (tmp_path / rings).write_text(json.dumps(document))
    sizes = [] if is_remembered else ["--tp", "8", "--pp", "2"]

    done = run("ranktable", *command.split(), rings, *sizes, "-o", "k.json")

    assert done.status == 0, done.err
    size = 16 if command == "shrink" else 32
    assert ranktable.load(tmp_path / "k.json").world_size == size


def test_renumber_takes_what_is_left_after_the_last_node(
    run: Run, rings: str, tmp_path: Path
) -> None:
    without_node(tmp_path, rings, 3)

    done = run("ranktable", "renumber", rings, "-i")

    assert done.status == 0, done.err
    layout = remembered(ranktable.load(tmp_path / rings))
    assert layout is not None
    assert layout.dp == 3


def test_node_that_was_taken_out_by_hand_is_not_taken_for_another(
    run: Run, rings: str, tmp_path: Path
) -> None:
    without_node(tmp_path, rings, 1)

    done = run("ranktable", "shrink", rings, "--drop", "n1")

    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "ranktable: there is no node 'n1'; 8 ranks (8-15) are missing already, so if "
        "it was taken out of the file, leave it out here\n"
    )


def test_table_is_fitted_to_a_list_of_nodes(
    run: Run, rings: str, tmp_path: Path
) -> None:
    fit = ("ranktable", "shrink", rings, "--tp", "8", "--nodes", "n[0,2-3],x")

    refused = run(*fit)
    done = run(*fit, "--new", "-o", "k.json")
    again = run("ranktable", "shrink", "k.json", "--nodes", "n[0,2-3],x", "-i")

    assert (refused.status, "'x' is not a spare" in refused.err) == (2, True)
    assert done.status == 0, done.err
    assert ranktable.load(tmp_path / "k.json").hosts == ("n0", "x", "n2", "n3")
    assert "nodes out: -n1\nnodes in: +x\nranks: 24 as before" in done.err
    assert again.err.startswith("unchanged k.json")


def test_racks_that_are_counted_stay_those_of_the_nodes(
    run: Run, tmp_path: Path
) -> None:
    hosts = [f"n{at:02}" for at in range(16)]
    ranktable.dump(make_table([range(8)] * 16, hosts=hosts), tmp_path / "t.json")
    lines = [f"{host} r{at // 4}\n" for at, host in enumerate(hosts)]
    (tmp_path / "racks").write_text("".join(lines))
    drop = ("ranktable", "shrink", "t.json", "--drop", "n02", "--tp", "8", "-o")

    counted = run(*drop, "a.json", "--racks", "rack=4")
    listed = run(*drop, "b.json", "--racks", "racks")

    assert counted.err.replace("a.json", "b.json") == listed.err
    assert "typical bytes between racks, GiB a step: 54.00 -> 54.00" in listed.err


def test_few_ranks_move_though_more_bytes_cross_racks(run: Run, tmp_path: Path) -> None:
    hosts = [f"n{at:02}" for at in range(64)]
    ranktable.dump(make_table([range(8)] * 64, hosts=hosts), tmp_path / "t.json")
    sizes = ("--tp", "8", "--pp", "4", "--order", "tp-pp-dp", "--racks", "rack=8")

    done = run("ranktable", "shrink", "t.json", "--drop", "n05", *sizes, "-o", "k.json")

    assert "ranks: 472 as before, 8 moved\n" in done.err
    assert "roles: none moved\n" in done.err


def test_healthy_nodes_are_left_alone() -> None:
    table = make_table([range(1)] * 5, hosts=list("abcde"))
    table = add_spares(table, make_table([range(5)], hosts=["s"]).nodes)

    found = shrink(table, ParallelLayout(tp=5), [2])

    assert found.table.hosts == ("a", "b", "s", "d", "e")


def test_chips_of_another_node_are_put_in_a_ring(run: Run, tmp_path: Path) -> None:
    gen = ("ranktable", "gen", "--ring", "sophgo-8", "--tp", "2")
    run(*gen, "--device-id", "[[0..3],[0..3]]", "--hosts", "a,b", "-o", "t.json")
    (tmp_path / "p.jsonl").write_text(
        '{"probe":1,"host":"c","chips":[{"device_id":2},{"device_id":3},'
        '{"device_id":6},{"device_id":7}]}\n'
    )

    done = run("ranktable", "replace-node", "t.json", "b", "p.jsonl", "-o", "k.json")

    assert done.status == 0, done.err
    found = ranktable.load(tmp_path / "k.json").local_chip_map(1)
    assert not SOPHGO_8.broken_links(found)


def test_spare_with_more_chips_gives_those_that_are_a_ring() -> None:
    table = make_table([(0, 1, 3, 2)] * 2, hosts=["a", "b"])
    spare = make_table([(2, 7, 3, 4, 5, 6, 1)], hosts=["s"]).nodes
    table = add_spares(table.with_changes(extra={"topology": "sophgo-8"}), spare)

    found = replace_node(table, "a", "s", facts=CostFacts(links=SOPHGO_8))

    chips = found.local_chip_map(0)
    assert not SOPHGO_8.broken_links(chips)
    (rest,) = spares_of(found)
    assert {*chips, *(one.device_id for one in rest.devices)} == {1, 2, 3, 4, 5, 6, 7}


def test_chips_that_are_left_are_numbered_around_a_ring() -> None:
    table = make_table([(0, 2, 6, 7, 3, 1, 5, 4)] * 2, hosts=["a", "b"])

    found = renumber(table, ranks=[2, 3])

    assert not SOPHGO_8.broken_links(found.local_chip_map(0))
    assert found.local_chip_map(1) == table.local_chip_map(1)


def test_complete_table_is_not_renumbered() -> None:
    table = make_table([range(2)] * 4, hosts=list("abcd"))

    assert renumber(table).digest() == table.digest()


def test_chips_of_a_new_node_that_are_not_needed_are_spares() -> None:
    table = make_table([range(2)] * 2, hosts=["a", "b"])
    (new,) = make_table([range(4)], hosts=["c"]).nodes

    found = replace_node(table, "b", new)

    (rest,) = spares_of(found)
    assert (rest.host, [chip.device_id for chip in rest.devices]) == ("c", [2, 3])


def test_new_host_says_which_chips_it_would_get(run: Run, rings: str) -> None:
    done = run("ranktable", "replace-node", rings, "n1", "x")

    assert done.err.endswith("add --new if it has the chips 0,2,6,7,3,1,5,4 of n1\n")


def test_spares_of_a_cluster_spec_are_taken(
    run: Run, rings: str, tmp_path: Path
) -> None:
    spec = "nodes: n[0-4]\nchips: 8\nspares: n4\nring: sophgo-8\n"
    (tmp_path / "cluster.yaml").write_text(spec)

    added = run("ranktable", "spares", rings, "--add", "cluster.yaml", "-o", "s.json")
    direct = run(
        "ranktable", "replace-node", rings, "n1", "cluster.yaml", "-o", "d.json"
    )
    taken = run("ranktable", "replace-node", "s.json", "n1", "-o", "k.json")

    assert (added.status, direct.status, taken.status) == (0, 0, 0), direct.err
    for name in ("d.json", "k.json"):
        assert ranktable.load(tmp_path / name).hosts == ("n0", "n4", "n2", "n3")


def test_clashing_addresses_of_spares_are_refused() -> None:
    devices = [Device(rank=0, device_id=0, address=f"10.0.0.{at}") for at in (1, 2)]
    nodes = [
        Node(devices=(device,), host=host)
        for device, host in zip(devices, "ab", strict=True)
    ]
    table = ranktable.RankTable(nodes=tuple(nodes[:1]))

    assert spares_of(add_spares(table, nodes[1:]))[0].host == "b"
    clash = Node(devices=(devices[0],), host="c")
    with pytest.raises(ChangeError, match="c has the address 10"):
        add_spares(table, [clash])
