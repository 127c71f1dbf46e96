"""Readers of topologies: what they say of a cluster, and of every mistake."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.generate import make_table
from ranktable.layout import LayoutError, rack_rules
from ranktable.layout.boundaries import (
    Boundary,
    boundaries_of,
    counted_levels,
    is_level_list,
    smallest_first,
    super_pods,
)
from ranktable.layout.rack_files import MAX_SIZE_BYTES, read_rack_file
from ranktable.schema.model import RankTable
from tests.file_cases import read_cases

HOSTS = [f"n{node}" for node in range(1, 9)]
TABLE = make_table([range(2)] * 8, hosts=HOSTS)

TREE = """\
# two racks below one root
SwitchName=s1 Nodes=n[1-4] LinkSpeed=100
switchname=s2 nodes=n[5-8],n99
SwitchName=root \\
  Switches=s[1-2]
"""


def held(text: str) -> list[tuple[str, tuple[int, ...]]]:
    report, hierarchy = read_rack_file(text.encode(), file="t")
    assert hierarchy is not None, report.diagnostics
    found = smallest_first(boundaries_of(hierarchy, TABLE.hosts, file="t"))
    return [(one.name, one.domains) for one in found]


def codes_in(text: str | bytes) -> list[str]:
    data = text.encode() if isinstance(text, str) else text
    report, hierarchy = read_rack_file(data, file="t")
    assert hierarchy is None
    return [one.code for one in report.diagnostics]


def test_switches_hold_their_nodes_and_the_root_holds_all() -> None:
    assert held(TREE) == [("switch", (0, 0, 0, 0, 1, 1, 1, 1))]


def test_levels_of_switches_are_counted_from_the_nodes() -> None:
    deep = "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n"
    deep += "SwitchName=c Nodes=n[5-6]\nSwitchName=d Nodes=n[7-8]\n"
    deep += "SwitchName=x Switches=a,b\nSwitchName=y Switches=c,d\n"
    deep += "SwitchName=top Switches=x,y\n"

    assert held(deep) == [
        ("switch", (0, 0, 1, 1, 2, 2, 3, 3)),
        ("switch 2", (0, 0, 0, 0, 1, 1, 1, 1)),
    ]


def test_a_branch_that_ends_early_is_a_group_of_its_own() -> None:
    text = "SwitchName=a Nodes=n[1-6]\nSwitchName=b Nodes=n[7-8]\n"
    text += "SwitchName=x Switches=b\nSwitchName=top Switches=a,x\n"

    assert held(text) == [("switch", (0, 0, 0, 0, 0, 0, 1, 1))]


def test_two_columns_are_a_host_and_its_rack() -> None:
    text = "".join(f"{host}\t{'ab'[at % 2]} # rack\n" for at, host in enumerate(HOSTS))

    assert held(text) == [("rack", (0, 1) * 4)]


def test_a_header_names_the_columns() -> None:
    text = "host rack pod\nn[1-2] r1 p1\nn[3-4] r2 p1\nn[5-6] r3 p2\nn[7-8] r4 p2\n"

    assert held(text) == [
        ("rack", (0, 0, 1, 1, 2, 2, 3, 3)),
        ("pod", (0, 0, 0, 0, 1, 1, 1, 1)),
    ]


def test_columns_of_kubectl_are_read_without_nodes_that_lack_a_label() -> None:
    rows = "".join(
        f"{host}   r{at // 2}   p{at // 4}\n" for at, host in enumerate(HOSTS)
    )
    text = f"NAME   RACK   POD\n{rows}login  <none>  p9\n"

    assert held(text) == [
        ("rack", (0, 0, 1, 1, 2, 2, 3, 3)),
        ("pod", (0, 0, 0, 0, 1, 1, 1, 1)),
    ]
    report, hierarchy = read_rack_file(text.encode(), file="t")
    assert report.ok
    assert hierarchy is not None
    assert "login" not in hierarchy.levels[0].groups


def test_a_list_of_levels_counts_nodes() -> None:
    levels = counted_levels("rack=2,pod=4,hall=64", HOSTS)
    found = boundaries_of(levels, HOSTS, file="t")

    assert [(one.name, one.domains) for one in found] == [
        ("rack", (0, 0, 1, 1, 2, 2, 3, 3)),
        ("pod", (0, 0, 0, 0, 1, 1, 1, 1)),
        ("hall", (0,) * 8),
    ]
    assert [one.name for one in smallest_first(found)] == ["rack", "pod"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rack=0", "'rack=0' is not a level"),
        ("rack=4,", "'' is not a level"),
        ("rack=4,pod", "'pod' is not a level"),
        ("rack=99999999", "is not a level"),
        ("rack=4,rack=8", "rack is taken"),
        ("node=4", "node is taken"),
        ("rack=4,pod=6", "6 nodes do not hold whole groups of 4"),
    ],
)
def test_a_wrong_list_of_levels_is_shown(text: str, reason: str) -> None:
    assert is_level_list(text)
    with pytest.raises(ArgumentError, match=reason):
        counted_levels(text, HOSTS)


def test_names_of_files_are_no_list_of_levels() -> None:
    assert not any(map(is_level_list, ["topology.conf", "a/b=3", "./rack=4", "x"]))


MISTAKES = read_cases("racks")


@pytest.mark.parametrize("text", MISTAKES, ids=repr)
def test_mistakes_of_a_topology_are_found_at_their_place(text: str) -> None:
    report, _ = read_rack_file(text.encode(), file="t")
    found = []
    for one in report.diagnostics:
        line, column = one.location.line, one.location.column
        found.append(f"{line}:{column} {one.code} {one.message}")

    assert "\n".join(found).replace("None:None ", "") == MISTAKES[text]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "".join(f"SwitchName=s{at} Nodes=n{at}-[1-65536]\n" for at in range(40)),
        "".join(f"n{at}-[1-65536] r\n" for at in range(40)),
    ],
    ids=["conf", "columns"],
)
def test_a_short_text_that_means_millions_of_hosts_is_given_up(text: str) -> None:
    assert "RT134" in codes_in(text)


@pytest.mark.parametrize(("most", "code"), [(3, ["RT134"]), (4, [])])
def test_hosts_of_all_lines_are_counted_together(
    most: int, code: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rack_rules, "MAX_HOSTS", most)
    report, _ = read_rack_file(b"a[1-2] r1\nb[1-2] r2\n", file="t")

    assert [one.code for one in report.diagnostics] == code


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"n1 r1\xff\n", "RT005"),
        ("n1 r1\n".encode("utf-16"), "RT006"),
        (b"n1 r1\n" + b"#" * MAX_SIZE_BYTES, "RT004"),
    ],
)
def test_bytes_that_are_no_text_end_in_a_code(data: bytes, code: str) -> None:
    assert codes_in(data)[0] == code


def test_hosts_of_the_table_have_to_be_there() -> None:
    _, hierarchy = read_rack_file(b"n1.site r1\nn2 r1\n", file="t")
    assert hierarchy is not None
    with pytest.raises(LayoutError, match=r"t has no n1, .* node 0; it has n1\.site"):
        boundaries_of(hierarchy, TABLE.hosts, file="t")
    with pytest.raises(LayoutError, match="node 0 has no host, and t names hosts"):
        boundaries_of(hierarchy, [None], file="t")


def pods(*names: str | None) -> RankTable:
    """Return a table whose nodes are in super pods of these names."""
    return RankTable(
        nodes=tuple(
            replace(node, super_pod=name)
            for node, name in zip(TABLE.nodes, names, strict=False)
        )
    )


def test_super_pods_of_a_table() -> None:
    assert super_pods(TABLE) is None
    assert super_pods(pods("a", "b", "a")) == Boundary(
        name="super pod", domains=(0, 1, 0), labels=("a", "b"), is_contiguous=True
    )


def test_what_scontrol_shows_is_a_topology() -> None:
    shown = (
        b"SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-1]\n"
        b"SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[2-3]\n"
        b"SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=s[0-1]\n"
    )

    report, found = read_rack_file(shown, file="topology")

    assert report.ok
    assert found is not None
    assert [dict(level.groups) for level in found.levels] == [
        {"n0": "s0", "n1": "s0", "n2": "s1", "n3": "s1"},
        dict.fromkeys(("n0", "n1", "n2", "n3"), "s2"),
    ]


def test_node_outside_the_super_pods_is_refused() -> None:
    with pytest.raises(LayoutError, match="node 2 is not in a super pod, but others"):
        super_pods(pods("a", "b", None))
