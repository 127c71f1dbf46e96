"""``plan --spread`` and ``--bandwidth``: failure domains, and a time of a step."""

from __future__ import annotations

import json
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.layout import LayoutError, ParallelLayout, make_boundary, make_plan
from ranktable.layout.traffic import parse_rate
from tests.effort import law

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

HOSTS = tuple(f"n{node}" for node in range(1, 9))
MODEL = ("--model", "32x4096", "--seq", "4096", "--micro", "16")
RACKS = "host rack\nn[1,3,5,7] r1\nn[2,4,6,8] r2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ranktable.dump(make_table([range(8)] * 8, hosts=HOSTS), tmp_path / "t.json")
    (tmp_path / "racks").write_text(RACKS)
    return tmp_path


def plan(run: Run, *options: str) -> Outcome:
    return run("ranktable", "plan", "t.json", "--tp", "4", *options)


def broken(layout: ParallelLayout, racks: Sequence[str], order: Sequence[int]) -> int:
    """Return how many dp groups have two ranks in one rack."""
    size = layout.world_size // len(racks)
    rack = [racks[order[rank // size]] for rank in range(layout.world_size)]
    return sum(len({rack[r] for r in g}) < len(g) for g in layout.groups("dp"))


def test_replicas_are_put_into_different_racks(run: Run, folder: Path) -> None:
    options = ("--pp", "8", "--order", "tp-pp-dp", "--topology", "racks")
    shown = plan(run, *options, "--spread", "dp:rack", "-o", "new.json")

    assert shown.status == 0
    assert shown.out.endswith(
        "nodes in order: n1,n3,n5,n7,n2,n4,n6,n8\n\n--spread dp:rack: the 2 ranks of "
        "each group are in 2 racks; no rack holds ranks of two replicas\n"
    )
    hosts = [node.host for node in ranktable.load(folder / "new.json").nodes]
    assert hosts == ["n1", "n3", "n5", "n7", "n2", "n4", "n6", "n8"]


@pytest.mark.parametrize(
    ("name", "several"), [("switch", "switches"), ("box", "boxes"), ("bus", "bus")]
)
def test_several_domains_are_named_in_the_plural(
    run: Run, folder: Path, name: str, several: str
) -> None:
    (folder / "racks").write_text(RACKS.replace("rack", name))
    options = ("--topology", "racks", "--order", "tp-pp-dp", "--spread", f"dp:{name}")
    kept = plan(run, *options, "--pp", "8", "-o", "new.json").out
    refused = plan(run, *options, "--pp", "4").out

    of = "of " if several == name else ""
    assert kept.startswith(f"t.json: 8 nodes, 2 {of}{several}, 64 ranks = ")
    assert f"the 2 ranks of each group are in 2 {several}; no {name} holds" in kept
    assert f"dp is 4, and there are 2 {several}; 16 groups" in refused


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--pp", "4"), "dp is 4, and there are 2 racks; 16 groups of 16 have two"),
        (("--pp", "8"), "consecutive ranks on a node are of several replicas; --mode"),
    ],
)
def test_spread_that_cannot_be_is_said(
    run: Run, folder: Path, options: tuple[str, ...], why: str
) -> None:
    spread = ("--topology", "racks", "--spread", "dp:rack", "-o", "new.json")
    shown = plan(run, *options, *spread)

    assert shown.status == 1
    assert f"--spread dp:rack cannot be kept: {why}" in shown.out
    assert not (folder / "new.json").exists()


@pytest.mark.usefixtures("folder")
def test_free_placement_spreads_what_node_order_cannot(run: Run) -> None:
    options = ("--pp", "8", "--topology", "racks", "--spread", "dp:rack")
    found = json.loads(plan(run, *options, "--mode", "free", "--format", "json").out)

    assert found["spread"] == {
        "axes": "dp",
        "boundary": "rack",
        "is_kept": True,
        "groups_in_one_domain": 0,
        "domains_with_several_replicas": 0,
    }


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("dp", "'dp' is not axes and a boundary, as dp:rack"),
        (
            "dp:pod",
            "there is no boundary 'pod' to spread dp over; there are node, rack",
        ),
        ("cp:rack", "cp is 1, so there is nothing to spread"),
        ("dpp:rack", "there is no axis 'dpp'"),
    ],
)
def test_spread_that_is_misspelt_is_refused(run: Run, text: str, why: str) -> None:
    shown = plan(run, "--pp", "4", "--topology", "racks", "--spread", text)

    assert shown.status == 2
    assert why in shown.err


@given(st.data())
@law(60)
def test_spread_is_kept_if_any_order_of_the_nodes_keeps_it(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(2, 6))
    racks = data.draw(st.lists(st.sampled_from("abc"), min_size=nodes, max_size=nodes))
    if len(set(racks)) == 1:
        return
    dp = data.draw(st.sampled_from([n for n in (2, 3) if nodes * 2 % n == 0]))
    order = data.draw(st.sampled_from(["tp-pp-dp", "tp-dp-pp", "dp-pp-tp"]))
    layout = ParallelLayout(tp=2, dp=dp, pp=-1, world_size=2 * nodes * dp, order=order)
    table = make_table([range(2 * dp)] * nodes)
    rack = make_boundary("rack", racks)

    made = make_plan(
        table, layout, boundaries=[rack], mode="node-order", spread="dp:rack"
    )

    least = min(broken(layout, racks, one) for one in permutations(range(nodes)))
    assert broken(layout, racks, made.node_order) == least


@pytest.mark.usefixtures("folder")
def test_time_is_bytes_of_the_busiest_by_its_bandwidth(run: Run) -> None:
    speeds = "intra=400GB/s,node=50GB/s,rack=800Gbit/s"
    options = ("--pp", "4", "--topology", "rack=4", *MODEL, "--bandwidth", speeds)

    found = json.loads(plan(run, *options, "--format", "json").out)["times"]["before"]

    gib = 2**30
    assert [(one["boundary"], one["bytes"]) for one in found] == [
        ("intra", 25.125 * gib),
        ("node", 6.5 * gib),
        ("rack", 2 * gib),
    ]
    assert [one["seconds"] for one in found] == pytest.approx(
        [25.125 * gib / 400e9, 6.5 * gib / 50e9, 2 * gib / 100e9]
    )
    assert "time: what the busiest rank, node or rack sends" in plan(run, *options).out


def test_ranks_of_a_ring_and_a_chain_send_within_their_node(
    run: Run, folder: Path
) -> None:
    """By hand: two nodes of four, cp 4 around a ring inside, pp 2 between them."""
    ranktable.dump(make_table([range(4)] * 2), folder / "two.json")
    options = ("--cp", "4", "--pp", "2", "--bytes", "cp=1GiB,pp=8GiB")
    shown = run("ranktable", "plan", "two.json", *options, "--bandwidth", "intra=1GB/s",
                "--format", "json")  # fmt: skip

    (time,) = json.loads(shown.out)["times"]["before"]
    assert time["bytes"] == 2**30
    assert time["busiest"] == "rank 0"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("node=50", "'50' is not a bandwidth; write 50GB/s, 40GiB/s or 400Gbit/s"),
        (
            "node=400Gb/s",
            "'400Gb/s' is not a bandwidth; write 50GB/s, 40GiB/s or 400Gbit/s",
        ),
        ("node=0GB/s", "'0GB/s' is a bandwidth of nothing"),
        ("pod=50GB/s", "there is no boundary 'pod'; there are intra, node"),
        ("node", "'node' is not a boundary and bytes a second, as node=50GB/s"),
        ("node=1GB/s,node=2GB/s", "node is given twice"),
    ],
)
def test_bandwidth_that_is_misspelt_is_refused(run: Run, text: str, why: str) -> None:
    shown = plan(run, "--pp", "4", *MODEL, "--bandwidth", text)

    assert shown.status == 2
    assert why in shown.err


@pytest.mark.usefixtures("folder")
def test_bandwidth_without_bytes_is_refused(run: Run) -> None:
    shown = plan(run, "--pp", "4", "--bandwidth", "node=50GB/s")

    assert (shown.status, "needs what is sent" in shown.err) == (2, True)


def test_rates_are_bytes_or_bits_a_second() -> None:
    texts = ("50GB/s", "1GiB/s", "400Gbit/s", "400Gbps", "8bit/s")

    assert list(map(parse_rate, texts)) == [50e9, 2**30, 50e9, 50e9, 1]
    with pytest.raises(LayoutError, match="'GB/s' is not a bandwidth"):
        parse_rate("GB/s")


def test_small_cluster_says_that_every_order_was_tried(run: Run, folder: Path) -> None:
    ranktable.dump(make_table([range(8)] * 4, hosts=HOSTS[:4]), folder / "four.json")
    (folder / "uneven").write_text("host rack\nn1 r1\nn[2,3] r2\nn4 r1\n")
    options = ("--tp", "8", "--cp", "2", "--topology", "uneven")
    sent = ("--mode", "node-order", "--bytes", "cp=1GiB,dp=2GiB")

    shown = run("ranktable", "plan", "four.json", *options, *sent)

    assert shown.out.endswith(
        "nodes in order: n1,n4,n2,n3\nevery order of the 4 nodes was tried\n"
    )
