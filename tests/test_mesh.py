"""``ranktable mesh``: text for people, folded beyond 16 ranks, and json."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ranktable import dump
from ranktable.cluster.generate import make_table
from ranktable.layout import ParallelLayout
from ranktable.layout.parallel import STYLE_NAMES
from ranktable.schema.remembered_layout import EP_STYLES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.conftest import Run

TURNED = (2, 6, 7, 3, 1, 5, 4, 0)


def saved(folder: Path, chips: Iterable[Iterable[int]], *hosts: str) -> str:
    table = make_table([tuple(node) for node in chips], hosts=hosts or None)
    dump(table, folder / "t.json")
    return "t.json"


def test_eight_ranks_have_a_line_each(run: Run, tmp_path: Path) -> None:
    name = saved(tmp_path, [TURNED])

    shown = run("ranktable", "mesh", name, "--tp", "4", "--dp", "-1")

    assert (
        shown.out
        == """\
t.json: 1 node, 8 ranks = tp 4 x dp 2, order tp-cp-ep-dp-pp

rank  node  chip  tp  dp
   0     0     2   0   0
   1     0     6   1   0
   2     0     7   2   0
   3     0     3   3   0
   4     0     1   0   1
   5     0     5   1   1
   6     0     4   2   1
   7     0     0   3   1

tp: 2 groups of 4, each within a node
  tp/0: ranks 0-3, chips 2,6,7,3
  tp/1: ranks 4-7, chips 1,5,4,0

dp: 4 groups of 2, each within a node
  dp/0: ranks 0,4, chips 2,1
  dp/1: ranks 1,5, chips 6,5
  dp/2: ranks 2,6, chips 7,4
  dp/3: ranks 3,7, chips 3,0
"""
    )


def test_of_many_nodes_and_groups_the_ends_are_shown(run: Run, tmp_path: Path) -> None:
    name = saved(tmp_path, [TURNED] * 10, *(f"n{node}" for node in range(10)))

    shown = run("ranktable", "mesh", name, "--tp", "4", "--pp", "4")

    assert (
        shown.out
        == """\
t.json: 10 nodes, 80 ranks = tp 4 x dp 5 x pp 4, order tp-cp-ep-dp-pp

n0: ranks 0-7, tp 0-3, dp 0,1, pp 0
n1: ranks 8-15, tp 0-3, dp 2,3, pp 0
n2: ranks 16-23, tp 0-3, dp 4,0, pp 0,1
n3: ranks 24-31, tp 0-3, dp 1,2, pp 1
... 5 nodes more
n9: ranks 72-79, tp 0-3, dp 3,4, pp 3

tp: 20 groups of 4, each within a node
  tp/0: ranks 0-3
  tp/1: ranks 4-7
  tp/2: ranks 8-11
  tp/3: ranks 12-15
  ... 15 groups more
  tp/19: ranks 76-79
  chips 2,6,7,3 in 10 groups; 1,5,4,0 in 10 groups

dp: 16 groups of 5, each over 3 nodes
  dp/0: ranks 0,4..16
  dp/1: ranks 1,5..17
  dp/2: ranks 2,6..18
  dp/3: ranks 3,7..19
  ... 11 groups more
  dp/15: ranks 63,67..79
  chips 2,1,2,1,2 in 2 groups; 6,5,6,5,6 in 2 groups; 7,4,7,4,7 in 2 groups; 3,0\
,3,0,3 in 2 groups; 4 more

pp: 20 groups of 4, each over 4 nodes
  pp/0: ranks 0,20,40,60
  pp/1: ranks 1,21,41,61
  pp/2: ranks 2,22,42,62
  pp/3: ranks 3,23,43,63
  ... 15 groups more
  pp/19: ranks 19,39,59,79
  chips 2,1,2,1 in 3 groups; 6,5,6,5 in 3 groups; 7,4,7,4 in 3 groups; 3,0,3,0 i\
n 3 groups; 4 more

--rank R shows the groups of one rank, --format json everything
"""
    )


def test_uneven_nodes_are_shown_as_they_are(run: Run, tmp_path: Path) -> None:
    name = saved(tmp_path, [range(6), range(10), range(4)])

    shown = run("ranktable", "mesh", name, "--tp", "4")

    assert shown.out.splitlines()[2:5] == [
        "node 0: ranks 0-5, tp 0-3, dp 0,1",
        "node 1: ranks 6-15, tp 0-3, dp 1-3",
        "node 2: ranks 16-19, tp 0-3, dp 4",
    ]
    assert "tp: 5 groups of 4, each over 1 to 2 nodes" in shown.out


def test_one_rank_is_shown_with_its_neighbours(run: Run, tmp_path: Path) -> None:
    name = saved(tmp_path, [(4, 5), (6, 7)], "a", "b")

    shown = run("ranktable", "mesh", name, "--tp", "2", "--pp", "2", "--rank", "3")

    assert (
        shown.out
        == """\
rank 3: node 1 (b), chip 7, tp 1, pp 1
tp/1: ranks 2,3, chips 6,7; group rank 1, previous 2, next 2
pp/1: ranks 1,3, chips 5,7; group rank 1, previous 1, next none
"""
    )


def test_groups_along_several_axes_can_be_asked_for(run: Run, tmp_path: Path) -> None:
    name = saved(tmp_path, [TURNED])

    shown = run("ranktable", "mesh", name, "--tp", "2", "--cp=2", "--groups", "dp-cp")

    assert shown.out.splitlines()[-3:] == [
        "dp-cp: 2 groups of 4, each within a node",
        "  dp-cp/0: ranks 0,2,4,6, chips 2,7,1,4",
        "  dp-cp/1: ranks 1,3,5,7, chips 6,3,5,0",
    ]


def test_experts_are_named_with_their_style(run: Run, tmp_path: Path) -> None:
    name = saved(tmp_path, [TURNED])

    ours = run("ranktable", "mesh", name, "--tp", "2", "--ep", "4", "--etp", "1")
    theirs = run("ranktable", "mesh", name, "--tp", "2", "--ep", "2", "--preset",
                 "scaletorch")  # fmt: skip

    assert ours.out.splitlines()[0] == (
        "t.json: 1 node, 8 ranks = tp 2 x dp 4, experts ep 4 x edp 2 as megatron, "
        "order tp-cp-ep-dp-pp"
    )
    assert "  ep/0: ranks 0-3, chips 2,6,7,3\n" in ours.out
    assert theirs.out.splitlines()[0] == (
        "t.json: 1 node, 8 ranks = tp 2 x ep 2 x dp 2, order tp-ep-cp-pp-dp"
    )


def test_json_has_ranks_groups_and_totals(run: Run, tmp_path: Path) -> None:
    name = saved(tmp_path, [(4, 5), (6, 7)], "a", "b")

    shown = run("ranktable", "mesh", name, "--tp", "2", "--pp", "2", "--format", "json")
    found = json.loads(shown.out)

    assert list(found) == [
        "file", "world_size", "num_nodes", "layout", "ranks", "groups", "totals",
    ]  # fmt: skip
    assert found["layout"] == {
        "order": "tp-cp-ep-dp-pp",
        "ep_style": "megatron",
        "sizes": {"tp": 2, "cp": 1, "dp": 1, "pp": 2, "ep": 1, "etp": 2},
    }
    assert found["ranks"][3] == {
        "rank": 3,
        "node_rank": 1,
        "host": "b",
        "device_id": 7,
        "coordinates": {"tp": 1, "cp": 0, "dp": 0, "pp": 1},
        "neighbours": {
            "tp": {"previous": 2, "next": 2},
            "pp": {"previous": 1, "next": None},
        },
    }
    assert found["groups"][3] == {
        "name": "pp/1",
        "kind": "pp",
        "index": 1,
        "ranks": [1, 3],
        "coordinates": {"tp": 1, "cp": 0, "dp": 0},
        "nodes": [0, 1],
        "chip_map": [5, 7],
    }
    assert found["totals"] == {
        "ranks": 4,
        "groups": 4,
        "by_kind": {
            "tp": {"groups": 2, "within_a_node": 2, "most_nodes": 1},
            "pp": {"groups": 2, "within_a_node": 0, "most_nodes": 2},
        },
    }


def test_json_of_one_rank_keeps_the_totals(run: Run, tmp_path: Path) -> None:
    name = saved(tmp_path, [TURNED])

    shown = run("ranktable", "mesh", name, "--tp=4", "--rank", "5", "--format", "json")
    found = json.loads(shown.out)

    assert [entry["rank"] for entry in found["ranks"]] == [5]
    assert [group["name"] for group in found["groups"]] == ["tp/1", "dp/1"]
    assert found["totals"]["groups"] == 6


def test_json_without_groups_is_json(run: Run, tmp_path: Path) -> None:
    name = saved(tmp_path, [(0,)])

    shown = run("ranktable", "mesh", name, "--format", "json")
    text = run("ranktable", "mesh", name)

    assert json.loads(shown.out)["groups"] == []
    assert "t.json: 1 node, 1 rank = 1, order tp-cp-ep-dp-pp" in text.out


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ["--tp", "3"],
            (
                "tp 3 x cp 1 x pp 1 = 3 does not divide world_size 8, so dp cannot be "
                "inferred; nearest: tp=2, tp=4, world_size=6 or world_size=9"
            ),
        ),
        (
            ["--tp", "4", "--dp", "4"],
            (
                "tp 4 x cp 1 x dp 4 x pp 1 = 16, but world_size is 8; nearest: tp=2, "
                "dp=2 or world_size=16"
            ),
        ),
        (
            ["--preset", "vllm", "--order", "tp-dp"],
            "--preset is an order and an --ep-style; give it or them",
        ),
        (["--rank", "8"], "rank 8 is not among the 8 ranks"),
        (
            ["--groups", "tp,xp"],
            (
                "there is no axis 'xp'; the axes are tp, cp, dp, pp, etp, ep, edp; did "
                "you mean tp or pp?"
            ),
        ),
    ],
)
def test_layout_that_cannot_be_is_refused(
    run: Run, tmp_path: Path, options: list[str], text: str
) -> None:
    name = saved(tmp_path, [TURNED])

    shown = run("ranktable", "mesh", name, *options)

    assert (shown.status, shown.out, shown.err) == (2, "", f"ranktable: {text}\n")


def test_size_of_minus_1_may_be_any_of_them(run: Run, tmp_path: Path) -> None:
    name = saved(tmp_path, [TURNED])

    pp = run("ranktable", "mesh", name, "--tp", "2", "--pp", "-1")
    ep = run("ranktable", "mesh", name, "--tp", "2", "--ep=-1", "--preset", "jax")
    stage = run("ranktable", "mesh", name, "--tp", "2", "--ep=-1", "--preset", "vllm")

    sizes = [done.out.splitlines()[0].split(" = ")[1] for done in (pp, ep, stage)]
    assert sizes == [
        "tp 2 x pp 4, order tp-cp-ep-dp-pp",
        "ep 4 x tp 2, order ep-tp-cp-pp-dp",
        "tp 2 x dp 4, experts ep 8 as vllm, order tp-cp-pp-dp",
    ]


def test_every_style_has_its_rules() -> None:
    assert set(EP_STYLES) == set(STYLE_NAMES)


def test_names_that_the_file_chose_do_not_steer_the_terminal(
    run: Run, tmp_path: Path
) -> None:
    name = saved(tmp_path, [(0,), (1,)], "a\x1b[31m", "b")

    shown = run("ranktable", "mesh", name, "--tp", "2", "--color", "never")

    assert "\x1b" not in shown.out


def test_mesh_is_what_the_layout_says(run: Run, tmp_path: Path) -> None:
    name = saved(tmp_path, [TURNED] * 4)
    layout = ParallelLayout.preset("jax", tp=2, ep=2, pp=2, dp=-1, world_size=32)

    shown = run("ranktable", "mesh", name, "--preset", "jax", "--tp", "2", "--ep", "2",
                "--pp", "2", "--format", "json")  # fmt: skip
    found = json.loads(shown.out)

    for kind in ("ep", "tp", "pp", "dp"):
        ranks = [group["ranks"] for group in found["groups"] if group["kind"] == kind]
        assert ranks == layout.groups(kind)


def test_groups_of_the_embedding_are_shown_by_name(run: Run, tmp_path: Path) -> None:
    name = saved(tmp_path, [range(8)])

    shown = run("ranktable", "mesh", name, "--tp", "2", "--pp", "4",
                "--groups", "embedding,position-embedding")  # fmt: skip

    assert "embedding/0: ranks 0,6, chips 0,6\n" in shown.out
    assert "position-embedding/1: ranks 1, chips 1\n" in shown.out


def test_order_that_megatron_refuses_is_warned_of(run: Run, tmp_path: Path) -> None:
    name = saved(tmp_path, [range(8)])
    options = ("--tp", "2", "--cp", "2", "--pp", "2", "--order", "tp-pp-cp-dp")

    for command in ("mesh", "plan"):
        shown = run("ranktable", command, name, *options)

        assert shown.status == 0
        assert shown.err == (
            "warning: Megatron refuses the order tp-pp-cp-dp: pp is 2 and not the last "
            "axis, and edp is 2 where dp is 1; the order tp-cp-dp-pp is taken\n"
        )
