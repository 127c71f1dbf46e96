"""Slurm's topologies in all of their forms, and labels of Kubernetes' nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.layout.rack_files import read_rack_file
from tests.effort import law, within_cpu

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run


def levels(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return the levels of a file, and no finding."""
    report, hierarchy = read_rack_file(text.encode(), file="t")
    assert report.ok, report.diagnostics
    assert hierarchy is not None
    return [(level.name, dict(level.groups)) for level in hierarchy.levels]


def codes(text: str) -> list[str]:
    report, _ = read_rack_file(text.encode(), file="t")
    return [each.code for each in report.diagnostics]


TREES = st.lists(
    st.lists(st.integers(1, 4), min_size=1, max_size=3), min_size=1, max_size=3
)
"""Number of nodes of each leaf switch of each spine."""


def tree(spines: list[list[int]]) -> list[tuple[str, str, str]]:
    """Return (spine, leaf, node) of every node."""
    rows, number = [], 0
    for at, leaves in enumerate(spines):
        for leaf, size in enumerate(leaves):
            for _ in range(size):
                rows.append((f"s{at}", f"l{at}-{leaf}", f"n{number}"))
                number += 1
    return rows


@law(60)
@given(TREES)
def test_one_tree_is_the_same_in_every_form(spines: list[list[int]]) -> None:
    rows = tree(spines)
    leaves = {leaf: spine for spine, leaf, _ in rows}
    of_leaf = {leaf: [n for _, at, n in rows if at == leaf] for leaf in leaves}
    below = {
        spine: [leaf for leaf, over in leaves.items() if over == spine]
        for spine in dict.fromkeys(leaves.values())
    }
    conf = [f"SwitchName={leaf} Nodes={','.join(of_leaf[leaf])}" for leaf in leaves]
    conf += [f"switchname={spine} Switches={','.join(below[spine])}" for spine in below]
    switches = [
        *({"switch": leaf, "nodes": ",".join(of_leaf[leaf])} for leaf in leaves),
        *({"switch": spine, "children": ",".join(below[spine])} for spine in below),
    ]
    described = [
        {"topology": "flat", "flat": True},
        {"topology": "a", "cluster_default": True, "tree": {"switches": switches}},
    ]
    lines = "".join(f"- topology: {json.dumps(one['topology'])}\n" + "".join(
        f"  {key}: {json.dumps(value)}\n" for key, value in one.items()
        if key != "topology") for one in described)  # fmt: skip
    places = "".join(
        f"{at}: SLURM_TOPOLOGY_ADDR={spine}.{leaf}.{node}\n"
        f"{at}: SLURM_TOPOLOGY_ADDR_PATTERN=switch.switch.node\n"
        for at, (spine, leaf, node) in enumerate(rows)
    )
    columns = "host switch outer\n" + "".join(
        f"{node} {leaf} {spine}\n" for spine, leaf, node in rows
    )
    expected = [groups for _, groups in levels(columns)]

    for text in ("\n".join(conf), lines, places):
        assert [groups for _, groups in levels(text)] == expected


def test_blocks_and_rings_are_groups_and_a_block_may_be_empty() -> None:
    text = (
        "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n3\nBlockName=b3\n"
        "BlockSizes=2,4\n"
    )
    shown = (
        "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n"
        "BlockName=b2 BlockIndex=1 Nodes=n3 BlockSize=2\n"
        "AggregatedBlock=b1,b2 BlockIndex=2 Nodes=n[1-3] BlockSize=4\n"
    )
    blocks = [("block", {"n1": "b1", "n2": "b1", "n3": "b2"})]

    assert levels(text) == levels(shown) == blocks
    assert levels("RingName=r1 Nodes=n[1-2]\n") == [("ring", {"n1": "r1", "n2": "r1"})]


def blocks(sizes: str) -> str:
    return f"BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes={sizes}\n"


@pytest.mark.parametrize(
    ("sizes", "is_right"),
    [("4,8", True), ("3,6,24", True), ("4", True), ("2,65536", True),
     ("4,12", False), ("8,4", False), ("0", False), ("four", False), ("", False),
     ("4,6", False), ("1,65536", False)],
)  # fmt: skip
def test_sizes_of_blocks_are_the_first_times_powers_of_two(
    sizes: str, is_right: bool
) -> None:
    rows = "[{block: b1, nodes: 'n[1-4]'}, {block: b2, nodes: 'n[5-8]'}]"
    yaml = f"- topology: t\n  block: {{block_sizes: [{sizes}], blocks: {rows}}}\n"

    assert codes(blocks(sizes)) == ([] if is_right else ["RT148"])
    assert codes(yaml) == ([] if is_right or not sizes else ["RT148"])


def test_a_small_block_is_a_warning_and_a_long_ring_an_error() -> None:
    small, _ = read_rack_file(blocks("5").encode(), file="t")
    ring, _ = read_rack_file(b"RingName=r Nodes=n[1-17]\n", file="t")

    assert [each.severity for each in small.diagnostics] == ["warning"] * 2
    assert (small.ok, codes(blocks("5") + "BlockName=b3\n")) == (True, ["RT148"] * 2)
    assert [(each.code, each.severity) for each in ring.diagnostics] == [
        ("RT148", "error")
    ]
    assert codes("RingName=r Nodes=n[1-16]\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "SwitchName=s1 Nodes=n1,\\\nn2\nSwitchName=s2 Nodes=n3\n",
        "SwitchName=s1 Nodes=n[1\\\n-\\ # to\r\n2]\nSwitchName=s2 \\\n\tNodes=n3\n",
        'SwitchName = s1 Nodes= n[1-2]\nSwitchName=s2 Nodes ="n3"\n',
    ],
)
def test_lines_are_read_as_slurm_reads_them(text: str) -> None:
    assert levels(text) == [("switch", {"n1": "s1", "n2": "s1", "n3": "s2"})]


def test_a_mistake_in_a_continued_line_has_its_place() -> None:
    report, _ = read_rack_file(b"SwitchName=s1 \\\n Nodes=n[1\\\n-2\n", file="t")
    other, _ = read_rack_file(b"SwitchName=s1 \\\n Node=n1\n", file="t")

    found = report.diagnostics + other.diagnostics
    places = [(each.code, each.location.line, each.location.column) for each in found]
    assert places == [("RT131", 2, 8), ("RT146", 2, 2)]


def test_what_an_include_names_is_not_judged() -> None:
    text = "include racks.conf\nSwitchName=s0 Switches=s1,s2\nSwitchName=s1 Nodes=n1\n"
    report, hierarchy = read_rack_file(text.encode(), file="t")

    assert (codes(text), report.ok) == (["RT332"], True)
    assert hierarchy is not None
    assert "Include" in hierarchy.refusal
    assert codes(text + "SwitchName=s1 Nodes=n1\n") == ["RT332", "RT147"]


def test_a_topology_that_only_includes_others_is_not_judged(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "topology.conf").write_text("# racks\nInclude a.conf\ninclude b.conf\n")
    done = run("ranktable", "validate", "topology.conf")
    options = ("--device-id", "[[0],[0]]", "--hosts", "a,b")
    made = run("ranktable", "gen", *options, "--racks", "topology.conf")

    assert (done.status, "RT008" in done.out) == (2, True), done.out
    assert (made.status, "what Include names is not read" in made.out) == (1, True)


def tree_of(name: str, nodes: str, *keys: str) -> str:
    switch = f"{{switch: {name}1, nodes: '{nodes}'}}"
    return "".join(
        f"{line}\n"
        for line in [
            f"- topology: {name}",
            *(f"  {key}: true" for key in keys),
            f"  tree: {{switches: [{switch}]}}",
        ]
    )


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        (tree_of("a", "n1") + tree_of("b", "n1"), "(a, b)"),
        (tree_of("a", "n1") + tree_of("b", "n1", "cluster_default"), "b1"),
        ("- topology: f\n  flat: true\n", "flat"),
        ("- topology: f\n  flat: {alpha_step_rank: true}\n", "flat"),
        ("- topology: f\n  flat: true\n" + tree_of("b", "n1"), "b1"),
        ("BlockName=b1\nBlockSizes=4\n", "no nodes"),
    ],
)
def test_a_topology_is_taken_if_it_is_the_default_or_the_only_one(
    text: str, taken: str
) -> None:
    report, hierarchy = read_rack_file(text.encode(), file="t")

    assert (report.diagnostics, hierarchy is None) == ((), False)
    assert hierarchy is not None
    assert taken in (hierarchy.refusal or hierarchy.levels[0].groups["n1"])


def test_every_topology_of_a_file_is_judged() -> None:
    twice = tree_of("b", "n[2-1]")

    assert codes(tree_of("a", "n1", "cluster_default") + twice) == ["RT131"]


def test_a_chain_of_switches_is_read_in_linear_time() -> None:
    chain = [f"SwitchName=s{at} Switches=s{at - 1}" for at in range(1, 20_000)]
    text = "\n".join(["SwitchName=s0 Nodes=n1", *chain])

    within_cpu(20, lambda: codes(text))
    assert codes(text) == ["RT146"]


def nodes(*labels: dict[str, str]) -> str:
    items = [
        {"kind": "Node", "metadata": {"name": f"n{at}", "labels": each}}
        for at, each in enumerate(labels)
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def test_labels_of_nodes_are_levels_if_all_have_them() -> None:
    text = nodes(
        {"nvidia.com/gpu.clique": "u.1", "topology.kubernetes.io/zone": "z", "a": "b"},
        {"nvidia.com/gpu.clique": "u.2", "topology.kubernetes.io/zone": "z"},
    )

    assert levels(text) == [
        ("clique", {"n0": "u.1", "n1": "u.2"}),
        ("zone", {"n0": "z", "n1": "z"}),
    ]
    assert codes(nodes({"nvidia.com/gpu.clique": "u.1"}, {})) == ["RT146"]
