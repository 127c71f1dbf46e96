"""Laws of merging, splitting and probing that hold for every table and every line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

import ranktable
from ranktable.cluster.merge import MergeOptions, Order, merge_probes, merge_tables
from ranktable.cluster.probes.probe_line import NodeProbe, NotDetected, ProbedChip
from ranktable.cluster.probes.read_probes import ProbedNode, _Line, read_probes
from ranktable.cluster.splitting import split_by_node
from ranktable.schema.check import check
from ranktable.schema.finding import Finding
from tests.effort import law
from tests.property.strategies import tables

if TYPE_CHECKING:
    from ranktable.schema.model import RankTable

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
hosts = st.text("abcn0123456789-.ü", min_size=1, max_size=8)
chips = st.builds(
    ProbedChip,
    device_id=st.integers(0, 40),
    bus_address=st.none() | texts,
    uuid=st.none() | texts,
    serial=st.none() | texts,
    status=st.none() | st.sampled_from(["Active", "Fault", "ü"]),
    address=st.none() | st.ip_addresses().map(str),
    model=st.none() | texts,
)
node_probes = st.builds(
    NodeProbe,
    host=hosts,
    vendor=st.none() | texts,
    model=st.none() | texts,
    driver=st.none() | texts,
    chips=st.lists(
        chips, min_size=1, max_size=6, unique_by=lambda chip: chip.device_id
    ).map(tuple),
    unseen=st.lists(st.builds(NotDetected, texts, texts), max_size=2).map(tuple),
)


def merged(files: list[tuple[str, bytes]], options: MergeOptions) -> RankTable | None:
    reports = [check(data, file=name) for name, data in files]
    return merge_tables(reports, [name for name, _ in files], options).table


@law(100)
@given(tables())
def test_merge_of_a_split_is_the_same_table(table: RankTable) -> None:
    files = list(split_by_node(table, renumber=False))
    again = merged(files, MergeOptions())

    assert again is not None
    assert ranktable.dumps(again) == ranktable.dumps(table)
    assert again.digest() == table.digest()


@law(100)
@given(tables(), st.randoms(use_true_random=False))
def test_files_of_a_split_may_come_in_any_order(
    table: RankTable, random: object
) -> None:
    files = list(split_by_node(table, renumber=False))
    random.shuffle(files)  # type: ignore[attr-defined]
    again = merged(files, MergeOptions(order=Order.BY_RANK))

    assert again is not None
    assert again.digest() == table.digest()


@law(100)
@given(tables())
def test_merge_of_renumbered_files_counts_as_the_table_did(table: RankTable) -> None:
    if shares_addresses(table):
        return  # then two files would be taken for one node
    files = list(split_by_node(table, renumber=True))
    again = merged(files, MergeOptions(renumber=True))

    assert all(check(data).ok for _, data in files)
    assert again is not None
    assert again.chip_map == table.chip_map


def shares_addresses(table: RankTable) -> bool:
    seen = [{d.address for d in node.devices} - {None} for node in table.nodes]
    return len(set().union(*seen)) != sum(map(len, seen))


@law(100)
@given(st.lists(node_probes, min_size=1, max_size=4))
def test_what_probe_prints_can_be_read_back(probes: list[NodeProbe]) -> None:
    text = "".join(probe.to_line() for probe in probes)
    found = [item.probe for item in read_probes(text) if isinstance(item, ProbedNode)]

    assert found == probes


@law(100)
@given(node_probes, st.data())
def test_quick_reading_never_contradicts_the_judge(
    probe: NodeProbe, data: st.DataObject
) -> None:
    text = probe.to_line()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    piece = data.draw(
        st.sampled_from(["", text[start:end] * 2, " ", ",", "}", '"host":"x",', "0"])
    )
    line = (text[:start] + piece + text[end:]).replace("\n", "")

    quick = list(_Line(line, 0).read())
    judged = list(_Line(line, 0).judged())
    assert [nodes_of(quick), codes_of(quick)] == [nodes_of(judged), codes_of(judged)]


def nodes_of(items: list[ProbedNode | Finding]) -> list[NodeProbe]:
    return [item.probe for item in items if isinstance(item, ProbedNode)]


def codes_of(items: list[ProbedNode | Finding]) -> list[str]:
    return [item.rule.code for item in items if isinstance(item, Finding)]


printed = node_probes.map(lambda probe: probe.to_line().encode())


@law(100)
@given(st.lists(st.binary(max_size=60) | printed, max_size=4))
def test_any_bytes_end_in_a_table_or_in_findings(parts: list[bytes]) -> None:
    data = b"\n".join(parts)
    done = merge_probes(["p"], [data], [None], MergeOptions())

    assert (done.table is None) == any(not report.ok for report in done.reports)
    for report in done.reports:
        for diagnostic in report.diagnostics:
            line, column = diagnostic.location.line, diagnostic.location.column
            assert "\n" not in diagnostic.message
            assert (line is None) == (column is None)
            assert line is None or line <= data.count(b"\n") + 1


@law(100)
@given(
    st.lists(node_probes, min_size=1, max_size=5, unique_by=lambda probe: probe.host),
    st.randoms(use_true_random=False),
)
def test_order_of_the_lines_makes_no_difference(
    probes: list[NodeProbe], random: object
) -> None:
    lines = [probe.to_line() for probe in probes]
    first = merge_probes(["p"], ["".join(lines).encode()], [None], MergeOptions())
    random.shuffle(lines)  # type: ignore[attr-defined]
    second = merge_probes(["p"], ["".join(lines).encode()], [None], MergeOptions())

    assert first.data == second.data
    if first.data is not None:
        assert len(json.loads(first.data)["node_list"]) == len(probes)
