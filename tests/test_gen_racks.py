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
from ranktable.layout.boundaries import grouped_order, make_boundary
from tests.commands import BIN, start_process, torch_environment
from tests.effort import law
from tests.ranks import free_port

if TYPE_CHECKING:
    from pathlib import Path


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
