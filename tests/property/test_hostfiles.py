"""Laws of descriptions: what is written is read back, and any bytes end in findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles.hostfile import (
    Hostfile,
    hostfile_from_table,
    table_from_hostfile,
)
from ranktable.cluster.hostfiles.launcher_formats import (
    LAUNCHER_FORMATS,
    convert,
    format_of,
    read_hostfile,
)
from ranktable.schema.model import Device, Node, RankTable
from ranktable.schema.writing import dumps
from ranktable.schema.yaml_parser import parse_yaml
from tests.effort import law
from tests.property.strategies import chip_lists

if TYPE_CHECKING:
    from ranktable.cluster.hostfiles.hostfile import LauncherFormat

# A letter first: a name of digits alone is a number to Open MPI.
names = st.from_regex(r"[a-z][a-z0-9_-]{0,7}", fullmatch=True).filter(
    lambda name: name not in ("rank", "slot", "slots", "cpu", "count", "port")
)


@st.composite
def tables(draw: st.DrawFn) -> RankTable:
    """Draw a table whose nodes have hosts, its ranks in any order over the nodes."""
    chips = draw(st.lists(chip_lists, min_size=1, max_size=5))
    hosts = draw(st.lists(names, unique=True, min_size=len(chips), max_size=len(chips)))
    ranks = list(range(sum(map(len, chips))))
    if draw(st.booleans()):
        ranks = draw(st.permutations(ranks))
    nodes = []
    for host, own in zip(hosts, chips, strict=True):
        taken, ranks = sorted(ranks[: len(own)]), ranks[len(own) :]
        pairs = zip(taken, own, strict=True)
        devices = tuple(Device(rank=rank, device_id=chip) for rank, chip in pairs)
        nodes.append(Node(devices=devices, host=host))
    nodes.sort(key=lambda node: node.devices[0].rank)
    return RankTable(nodes=tuple(nodes))


def through(form: LauncherFormat, table: RankTable) -> Hostfile:
    """Return what is read after a table is written."""
    text = convert(hostfile_from_table(table), form)
    reading = read_hostfile(text.encode(), form, file="x")
    assert reading.report.diagnostics == ()
    assert reading.hostfile is not None
    return reading.hostfile


@law(100)
@given(tables())
def test_rank_file_says_all_that_a_table_says(table: RankTable) -> None:
    found = through(format_of("openmpi-rankfile"), table)

    assert found == hostfile_from_table(table)
    if is_consecutive(table):
        assert table_from_hostfile(found) == table
        assert dumps(table_from_hostfile(found)) == dumps(table)
    else:
        with pytest.raises(ArgumentError, match="one after the other"):
            table_from_hostfile(found)


def is_consecutive(table: RankTable) -> bool:
    """Whether the ranks of every node follow each other."""
    return all(
        [device.rank for device in node.devices]
        == list(range(node.devices[0].rank, node.devices[-1].rank + 1))
        for node in table.nodes
    )


@law(100)
@given(tables(), st.just("srun-hostfile"))
def test_lists_of_ranks_keep_host_and_order_of_every_rank(
    table: RankTable, name: str
) -> None:
    found = through(format_of(name), table)

    expected = hostfile_from_table(table)
    assert [(h.name, h.ranks) for h in found.hosts] == [
        (h.name, h.ranks) for h in expected.hosts
    ]


@law(100)
@given(
    tables(),
    st.sampled_from(
        ["openmpi-hostfile", "mpich-machinefile", "slurm-nodelist"],
    ),
)
def test_lists_of_hosts_keep_names_and_sizes_or_refuse_the_order(
    table: RankTable, name: str
) -> None:
    expected = [(node.host, len(node.devices)) for node in table.nodes]
    in_order = [d.rank for node in table.nodes for d in node.devices]
    if in_order != sorted(in_order):
        with pytest.raises(ArgumentError, match="host by host"):
            through(format_of(name), table)
        return

    found = through(format_of(name), table)

    assert [(host.name, host.slots) for host in found.hosts] == expected


@law(100)
@given(tables())
def test_deepspeed_starts_each_rank_on_its_chip(table: RankTable) -> None:
    in_order = [d.rank for node in table.nodes for d in node.devices]
    assume(in_order == sorted(in_order))
    form = format_of("deepspeed-hostfile")
    named = hostfile_from_table(table)

    read = through(form, table)
    chips = {host.name: [*range(host.slots or 0)] for host in read.hosts}
    # As parse_resource_filter of DeepSpeed reads the option.
    option, _, used = form.selection(named).partition(" ")
    if option:
        kept: dict[str | None, list[int]] = {}
        for part in used.split("@"):
            host, _, slots = part.partition(":")
            kept[host] = [*map(int, slots.split(","))] if slots else chips[host]
            assert {*kept[host]} <= {*chips[host]}
        chips = kept

    assert [chips[node.host] for node in table.nodes] == [
        [device.device_id for device in node.devices] for node in table.nodes
    ]


PIECES = st.sampled_from(
    [
        *("n1", "n2", "node[1-3]", "10.0.0.1", "fd00::1", "+n1", "^n1", "u@n1"),
        *("slots", "slot", "rank", "max_slots", "=", "=", "=8", " ", " ", "\n", "\n"),
        *(
            "0",
            "1",
            "8",
            "8(x2)",
            ":",
            ":8",
            ",",
            "#",
            "//",
            "/*",
            "*/",
            '"',
            "'",
            "\r",
        ),
        *("{", "}", "[", "]", "\x00", "é", "- ", "&a", "*a", "99999999"),
    ]
)
texts = st.lists(PIECES, max_size=25).map("".join)


@law(300)
@given(
    st.one_of(st.binary(max_size=60), texts.map(str.encode)),
    st.sampled_from([form for form in LAUNCHER_FORMATS if form.read]),
)
@example(b"", format_of("openmpi-hostfile"))
@example(b"\xff\xfe", format_of("deepspeed-hostfile"))
def test_any_bytes_end_in_a_description_or_in_diagnostics(
    data: bytes, form: LauncherFormat
) -> None:
    reading = read_hostfile(data, form, file="x")

    report = reading.report
    assert (reading.hostfile is None) == (not report.ok)
    assert report.ok or report.diagnostics
    for diagnostic in report.diagnostics:
        assert "\n" not in diagnostic.message
        line, column = diagnostic.location.line, diagnostic.location.column
        assert (line is None) == (column is None)
        assert line is None or 1 <= line <= data.count(b"\n") + 1
    if reading.hostfile is not None:
        check_description(reading.hostfile)


def check_description(description: Hostfile) -> None:
    """Assert what every description keeps."""
    assert description.hosts
    for host in description.hosts:
        assert host.slots is None or host.slots > 0
        assert host.device_ids is None or len(host.device_ids) == host.slots
        assert host.ranks is None or len(host.ranks) == host.slots


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**6), max_value=10**6)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6)
    | st.sampled_from(["no", "1:30", "0644", "~", "null", "1.5", "- a", "#", "<<"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc:-#' é", max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@law(150)
@given(json_values)
def test_yaml_that_was_written_is_read_back(value: object) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    documents, found = parse_yaml(text)

    assert not found
    assert [document.data for document in documents] == [value]


@law(150)
@given(json_values)
def test_every_value_of_yaml_has_its_place(value: object) -> None:
    text = yaml.safe_dump({"it": value}, default_flow_style=False)
    (document,), _ = parse_yaml(text)
    for path, (start, end) in (document.values or {}).items():
        assert 0 <= start <= end <= len(text)
        inner = document.get(*path)
        if isinstance(inner, str) and inner.isalnum() and inner.isascii():
            assert inner in text[start:end]


@law(150)
@given(st.one_of(st.text(max_size=60), texts))
def test_any_text_is_yaml_or_diagnosed(text: str) -> None:
    documents, found = parse_yaml(text)

    assert documents or found or not text.strip() or text.strip().startswith("#")
    for finding in found:
        assert finding.span is None or finding.span.offsets is not None
