"""``--racks`` of gen and run: hosts of one rack follow each other."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.cluster.host_lists import expand_hosts
from ranktable.layout.boundaries import grouped_order, make_boundary
from tests.commands import BIN, start_process, torch_environment
from tests.effort import law
from tests.ranks import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run


GEN = ("ranktable", "gen", "--device-id", "[[0,1]]", "-o", "-")


@law(200)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1))
def test_domains_are_together_and_in_the_order_of_their_first_member(
    places: list[tuple[int, int]],
) -> None:
    pods = [f"p{pod}" for pod, _ in places]
    racks = [f"p{pod}r{rack}" for pod, rack in places]
    order = grouped_order(
        [make_boundary("rack", racks), make_boundary("pod", pods)], len(pods)
    )

    assert sorted(order) == [*range(len(places))]
    for labels in (pods, racks):
        runs = [label for label, _ in groupby(labels[node] for node in order)]
        assert len(runs) == len({*runs})
    assert [*dict.fromkeys(pods[node] for node in order)] == [*dict.fromkeys(pods)]
    for own in {*pods}:
        inside = [racks[node] for node in order if pods[node] == own]
        first = [rack for rack, pod in zip(racks, pods, strict=True) if pod == own]
        assert [*dict.fromkeys(inside)] == [*dict.fromkeys(first)]
    for rack in {*racks}:
        held = [node for node in order if racks[node] == rack]
        assert held == sorted(held)
    # What is together stays as it is.
    again = [racks[node] for node in order]
    assert grouped_order([make_boundary("rack", again)], len(again)) == sorted(order)
    assert grouped_order([], len(again)) == sorted(order)


FORMS = {
    "topology.conf": "SwitchName=a Nodes=n[1,3]\nSwitchName=b Nodes=n[2,4]\n",
    "block.conf": "BlockName=a Nodes=n[1,3]\nBlockName=b Nodes=n[2,4]\n",
    "topology.yaml": (
        "- topology: t\n  cluster_default: true\n  block:\n    blocks:\n"
        "      - {block: a, nodes: 'n[1,3]'}\n      - {block: b, nodes: 'n[2,4]'}\n"
    ),
    "racks.txt": "n1 a\nn2 b\nn3 a\nn4 b\n",
}


@pytest.mark.parametrize("name", FORMS)
def test_hosts_of_one_rack_follow_each_other(
    name: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(FORMS[name])
    done = run(*GEN, "--hosts", "n[1-4]", "--racks", name)
    made = ranktable.loads(done.out)

    assert made.hosts == ("n1", "n3", "n2", "n4")
    assert [d.rank for node in made.nodes for d in node.devices] == [*range(8)]
    assert done.err.splitlines()[0].endswith(": n[1,3,2,4]")


def test_chips_and_addresses_move_with_their_host(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r").write_text(FORMS["racks.txt"])
    given = ["--device-id", "[[0],[1],[2],[3]]", "--hosts", "n[1-4]", "-o", "-"]
    given += ["--device-ip", "['10.0.0.1','10.0.0.2','10.0.0.3','10.0.0.4']"]
    done = run("ranktable", "gen", *given, "--racks", "r")
    made = ranktable.loads(done.out)

    assert made.chip_map == [0, 2, 1, 3]
    addresses = [node.devices[0].address for node in made.nodes]
    assert addresses == ["10.0.0.1", "10.0.0.3", "10.0.0.2", "10.0.0.4"]


def test_hosts_that_are_together_are_left_as_they_are(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r").write_text(FORMS["racks.txt"])
    done = run(*GEN, "--hosts", "n[4,2,3,1]", "--racks", "r")

    assert ranktable.loads(done.out).hosts == ("n4", "n2", "n3", "n1")
    assert "the hosts follow each other by rack already" in done.err


def test_a_topology_without_an_order_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r").write_text("- topology: f\n  flat: true\n")
    done = run(*GEN, "--hosts", "n[1-4]", "--racks", "r")

    assert (done.status, done.out) == (2, "")
    assert "r: a flat topology has no groups of nodes" in done.err
    assert run("ranktable", "validate", "r").out == "r: sound\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--hosts", "n[1-5]"], "r has no n5, the host of node 4"),
        ([], "--hosts LIST"),
    ],
)
def test_host_without_a_rack_is_refused(
    given: list[str], said: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "r").write_text(FORMS["racks.txt"])
    done = run(*GEN, *given, "--racks", "r")

    assert (done.status in (1, 2), done.out) == (True, "")
    assert said in done.err


def test_run_numbers_the_nodes_by_racks(run: Run, tmp_path: Path) -> None:
    table = make_table([[0, 1], [2, 3], [4], [5]], hosts=expand_hosts("n[1-4]"))
    (tmp_path / "t.json").write_bytes(ranktable.dumps(table))
    (tmp_path / "r f").write_text(FORMS["topology.conf"])
    given = ["--rank-table", "t.json", "--racks", "r f", "--dry-run", "t.py"]
    done = run("ranktable", "run", *given)
    (tmp_path / "r f").write_text("n1 a\nn2 a\nn3 b\nn4 b\n")
    same = run("ranktable", "run", *given)

    assert done.err == "hosts in the order of switch: n[1,3,2,4]\n"
    common = "ranktable run --rank-table t.json --racks 'r f' --node"
    meeting = "--master-addr n1 --master-port 29500 t.py"
    lines = [line for line in done.out.splitlines()[1:] if line[0] != "#"]
    assert lines == [f"{common} {node} {meeting}" for node in range(4)]
    assert [line for line in done.out.splitlines()[1:] if line[0] == "#"] == [
        "# n1", "# n3", "# n2", "# n4",
    ]  # fmt: skip
    assert same.out.count("RANK_TABLE_FILE=t.json torchrun") == 4
    assert run("ranktable", "run", "--racks", "-", *given[:2], "t.py").status == 2


@pytest.mark.torch
def test_ranks_of_a_run_by_racks_read_the_table_in_that_order(tmp_path: Path) -> None:
    hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    table = ranktable.dumps(make_table([[0], [1], [2]], hosts=hosts))
    document = json.loads(table)
    document["node_list"].reverse()  # the order of the ranks counts, not of the file
    (tmp_path / "t.json").write_text(json.dumps(document))
    (tmp_path / "r").write_text("127.0.0.1 a\n127.0.0.2 b\n127.0.0.3 a\n")
    (tmp_path / "s.py").write_text(
        "import os, ranktable\n"
        "table = ranktable.load(os.environ['RANK_TABLE_FILE'])\n"
        "print(os.environ['RANK'], table.chip_map, flush=True)\n"
    )
    env = {**torch_environment(), "TMPDIR": str(tmp_path)}
    port = ["--master-port", str(free_port())]
    given = ["--rank-table", "t.json", "--racks", "r", *port]
    nodes = [
        start_process(
            [BIN / "ranktable", "run", *given, "--node", str(node), "s.py"],
            pipes=["stdout"],
            cwd=tmp_path,
            env=env,
        )
        for node in range(3)
    ]
    said = [node.communicate(timeout=100)[0] for node in nodes]

    assert said == [f"{rank} [0, 2, 1]\n" for rank in range(3)]
    assert [*tmp_path.glob("ranktable-*/*")] == []
