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
    given = ["--root", "h", "--run-programs", "-o", "-"]
    for chips in ([], ["--device-id", "[[0..3]]", "--hosts", "a,b"]):
        done = run("ranktable", "gen", *chips, *given)

        assert (done.status, done.err) == (0, "")


JOB = """---
apiVersion: batch/v1
kind: Job
metadata:
  name: j
spec:
  template:
    spec:
      containers:
      - name: c
        command: [python, t.py]
        resources: {limits: {%s}}
"""


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ("nvidia.com/gpu: 4", set()),
        ('"nvidia.com/mig-1g.10gb": "4"', set()),
        ("amd.com/gpu: 4", set()),
        ("huawei.com/Ascend910: 4", set()),
        ("sophgo.com/tpu: 4", OF_SCCL),
        ("cpu: 4", OF_SCCL),
        ("cpu: 4}} # {{nvidia.com/gpu: 4", OF_SCCL),
        ("nvidia.com/gpu: 0", OF_SCCL),
    ],
)
def test_jobs_beside_a_table_say_whose_chips_it_is_about(
    run: Run, tmp_path: Path, limits: str, found: set[str]
) -> None:
    start = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  t.json: |\n"
    table = "".join(f"    {line}\n" for line in TWO_NODES.decode().splitlines())
    text = start + table + JOB % limits
    (tmp_path / "j.yaml").write_text(text)
    done = run("ranktable", "validate", "j.yaml", "--format", "concise")

    assert {code for code in OF_SCCL if code in done.out} == found
    assert {each.code for each in check(text.encode()).diagnostics} & OF_SCCL == found
