"""Advice about SCCL is left out where another library is meant, and only there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.discovery.device_nodes import vendor_of_node
from ranktable.cluster.generate import make_table
from ranktable.schema.check import check
from ranktable.schema.options import Options
from ranktable.schema.writing import dumps
from tests.node_tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run

TWO_NODES = dumps(make_table([range(4)] * 2, hosts=["a", "b"]))
OF_SCCL = {"RT502", "RT505"}


def codes(reader: str | None) -> set[str]:
    return {each.code for each in check(TWO_NODES, reader=reader).diagnostics} & OF_SCCL


@pytest.mark.parametrize(
    ("reader", "found"),
    [(None, OF_SCCL), ("sccl", OF_SCCL), ("torch_tpu", OF_SCCL), ("nccl", set())],
)
def test_reader_decides_whether_sccl_is_meant(
    reader: str | None, found: set[str]
) -> None:
    assert codes(reader) == found


def test_links_that_a_table_or_a_person_names_are_judged_for_each_library() -> None:
    table = check(TWO_NODES, reader="nccl", topology="sophgo-8")

    assert "RT501" in {each.code for each in table.diagnostics}


@pytest.mark.parametrize(
    ("node", "vendor", "is_silent"),
    [
        ("davinci0", "ascend", True),
        ("nvidia0", "nvidia", True),
        ("sg-host-drv-0", "sophgo", False),
        ("null", None, False),
        ("nvidiactl", None, False),
    ],
)
def test_chips_of_the_node_decide_where_nobody_says(
    tmp_path: Path, node: str, vendor: str | None, *, is_silent: bool
) -> None:
    Tree(tmp_path).put(f"/dev/{node}")

    assert vendor_of_node(str(tmp_path)) == vendor
    assert Options(vendor=vendor).may_use_sccl is not is_silent


def test_tool_says_whose_chips_a_node_without_device_nodes_has(
    run: Run, tmp_path: Path
) -> None:
    tree = Tree(tmp_path / "h", "n1")
    tree.install_printing("nvidia-smi", "nvidia-smi.csv")
    done = run("ranktable", "gen", "--root", "h", "--run-programs", "-o", "-")

    assert (done.status, "RT502" in done.err) == (0, False)
