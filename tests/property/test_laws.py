"""Laws that hold for every table and for any bytes."""

from __future__ import annotations

import json
import re
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.schema.check import check
from ranktable.schema.declare import Format
from ranktable.schema.document import Document
from ranktable.schema.fast_decode import decode_columns
from ranktable.schema.finding import Finding, Findings
from ranktable.schema.fixes import fixed_text
from ranktable.schema.formats import FORMATS, by_name, detect, names
from ranktable.schema.json_parser import parse
from ranktable.schema.model import RankTable
from ranktable.schema.reader import read_document
from ranktable.schema.writing import encode
from tests.drawn_files import changed, damaged, limits, odd_values, sound, texts
from tests.effort import within_cpu
from tests.property.strategies import json_values, tables, with_addresses

if TYPE_CHECKING:
    from ranktable.schema.columns import Columns


ANY = st.sampled_from(names())
SOUND, CHANGED = texts(ANY.flatmap(sound)), texts(ANY.flatmap(changed))
LISTED = st.sampled_from([one.name for one in FORMATS])
ALIKE, MIXED = (
    texts(
        LISTED.flatmap(
            partial(sound, nodes=(2, 14), alike=True, kinds_of_devices=number)
        )
    )
    for number in (1, 2)
)
"""Nodes spelt alike, as a fast path reads them; the devices of MIXED may differ."""
DAMAGED = damaged(SOUND | ALIKE | CHANGED)


@given(tables())
def test_reading_what_was_written_gives_the_same_table(table: RankTable) -> None:
    again = ranktable.loads(ranktable.dumps(table))

    assert again.chip_map == table.chip_map
    assert again.digest() == table.digest()
    assert ranktable.dumps(again) == ranktable.dumps(table)
    assert ranktable.loads(ranktable.dumps(again)) == again


@given(CHANGED | ALIKE)
def test_writing_loses_nothing_of_a_sound_document(data: bytes) -> None:
    report, document = check(data), json.loads(data)
    if report.table is None:
        return

    written = ranktable.dumps(report.table)

    assert json.loads(written) == document
    assert list(json.loads(written)) == list(document)


@given(st.binary(max_size=200) | DAMAGED)
@example(b"")
@example(b"\xff\xfe")
@example(b"[" * 100_000)
@example(b'{"a":' * 5_000)
@example(b'{"version":"1.0","node_list":[{"device_list":[{"device_id":9' + b"9" * 5000)
def test_any_bytes_end_in_a_table_or_in_diagnostics(data: bytes) -> None:
    report = check(data)

    assert (report.table is None) == (not report.ok)
    assert report.ok or report.diagnostics
    for diagnostic in report.diagnostics:
        assert "\n" not in diagnostic.message
        line, column = diagnostic.location.line, diagnostic.location.column
        assert (line is None) == (column is None)
        assert line is None or line <= data.count(b"\n") + 1


def _closely(data: bytes) -> Columns:
    """Return what the reader of documents reads from a sound table."""
    parsed = parse(data.decode())
    assert not isinstance(parsed, Finding)
    assert not parsed[1]
    format_, found = detect(parsed[0]), Findings()
    assert isinstance(format_, Format)
    document = Document(text=data.decode(), data=parsed[0])
    columns = read_document(format_, document, found)
    assert not found
    return columns


def _are_equal(columns: Columns | None, closely: Columns) -> bool:
    rest = {"source": None, "worked_out": None}
    return columns is not None and {**vars(columns), **rest} == {
        **vars(closely),
        **rest,
    }


@given(DAMAGED | damaged(ALIKE) | MIXED)
def test_fast_path_reads_what_the_reader_reads(data: bytes) -> None:
    columns = decode_columns(data, FORMATS, least_nodes=2)

    if columns is not None:
        assert _are_equal(columns, _closely(data))


@given(ALIKE)
def test_fast_path_knows_every_table_whose_nodes_are_spelt_alike(data: bytes) -> None:
    columns = decode_columns(data, FORMATS, least_nodes=2)

    assert _are_equal(columns, _closely(data))


@given(DAMAGED | CHANGED)
def test_sound_tables_are_read_and_no_others(data: bytes) -> None:
    report = check(data)

    if report.table is None:
        with pytest.raises(ranktable.RankTableError):
            ranktable.loads(data)
    else:
        assert ranktable.loads(data).digest() == _built(report.table).digest()


@pytest.mark.parametrize(
    ("name", "size"),
    [*product(("sccl-1.0", "hccl-1.0"), (1, 3, 8, 16)), ("sccl-1.0", 48)],
)
def test_fast_path_knows_nodes_whose_ranks_pass_a_thousand(
    name: str, size: int
) -> None:
    num_nodes = 2_400 // size
    table = make_table(
        [range(size)] * num_nodes, hosts=[f"n{n}" for n in range(num_nodes)]
    )
    data = ranktable.dumps(with_addresses(table), format=name)
    key = b'"rank":' if name == "sccl-1.0" else b'"rank_id":'

    columns = decode_columns(data, FORMATS, least_nodes=2)

    assert _are_equal(columns, _closely(data))
    for right, wrong in ((b'"999"', b'"0999"'), (b'"1007"', b'"1017"')):
        damaged = data.replace(key + right, key + wrong)
        assert damaged != data
        assert decode_columns(damaged, FORMATS, least_nodes=2) is None


def test_a_table_that_ends_early_is_refused_at_once() -> None:
    nodes = [[0, 1, 2, 3, 4, 5, 6, 7]] * 30
    table = with_addresses(make_table(nodes, hosts=[f"n{n}" for n in range(30)]))
    data = ranktable.dumps(table, format="hccl-1.0")

    def decode_what_is_cut() -> None:
        for end in range(len(data) - 3_000, len(data) - 10, 97):
            closed = data[:end] + b"]" * 3 + data[-3_000:]
            assert decode_columns(closed, FORMATS, least_nodes=2) is None

    within_cpu(5, decode_what_is_cut)


def _built(table: RankTable) -> RankTable:
    """Return the same table without the columns that it was read into."""
    if by_name(table.format).keeps_document:
        return table
    return RankTable(
        nodes=table.nodes,
        version=table.version,
        format=table.format,
        extra=table.extra,
        layout=table.layout,
        super_pod_list=table.super_pod_list,
        spares=table.spares,
    )


@given(tables(), st.sampled_from([f.name for f in FORMATS]))
def test_every_format_keeps_the_chips_of_a_table(table: RankTable, name: str) -> None:
    chips = [[device.device_id for device in node.devices] for node in table.nodes]
    if by_name(name).most_chips is not None:
        chips = [[sorted(node).index(chip) for chip in node] for node in chips]
    named = make_table(chips, hosts=[f"n{place}" for place in range(len(chips))])
    data = ranktable.dumps(with_addresses(named), format=name)

    read = ranktable.loads(data)

    assert (read.format, read.chip_map) == (name, named.chip_map)


@given(DAMAGED)
def test_repairs_are_safe_and_complete(data: bytes) -> None:
    report = check(data)
    text = fixed_text(report)
    if text is None:
        return
    again = check(text.encode(errors="surrogatepass"))

    before = sum(not d.fixable for d in report.diagnostics)
    unsound_text = report.columns is None  # then the shape was not judged before
    assert unsound_text or sum(not d.fixable for d in again.diagnostics) <= before
    if report.ok:
        assert again.table is not None
        assert report.table is not None
        assert again.table.chip_map == report.table.chip_map


@given(tables(), st.randoms(use_true_random=False))
def test_reordering_nodes_moves_no_rank_to_another_chip(
    table: RankTable, random: object
) -> None:
    nodes = list(table.nodes)
    random.shuffle(nodes)  # type: ignore[attr-defined]
    shuffled = RankTable(nodes=tuple(nodes), extra=table.extra)

    assert ranktable.loads(ranktable.dumps(shuffled)).chip_map == table.chip_map


@given(tables())
def test_digest_ignores_formatting_and_the_order_of_keys(table: RankTable) -> None:
    document = json.loads(ranktable.dumps(table))
    other = json.dumps(reversed_keys(document), indent=3)

    assert ranktable.loads(other).digest() == table.digest()


def reversed_keys(value: object) -> object:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [reversed_keys(item) for item in value]
    return value


@given(json_values)
@example({"a": ": "})
@example({"a": 'b": '})
@example({'a": ': [": ", '"": "']})
@example({"a\\": {"": "\\"}})
def test_only_the_blanks_behind_keys_are_left_out(document: object) -> None:
    written = encode(document)

    assert json.loads(written) == document
    assert written.count(b'": ') == msgspec.json.encode(document).count(b'": ')


@st.composite
def changed_at_the_end(draw: st.DrawFn) -> Any:
    """Draw nodes alike, but for one value of the last node or of its last device."""
    format_ = draw(st.sampled_from(FORMATS))
    document = draw(sound(format_.name, nodes=(2, 4), alike=True))
    node = document[format_.nodes_key][-1]
    pairs = [(format_.device, node[format_.devices_key][-1]), (format_.node, node)]
    record, holder = draw(st.sampled_from(pairs))
    keys = [key for key in record.other_keys(format_.devices_key) if key.key in holder]
    key = draw(st.sampled_from(keys or record.keys[:1]))
    holder[key.key] = draw(st.sampled_from([*limits(key)]) | odd_values)
    return document


@given(texts(changed_at_the_end()))
def test_fast_path_takes_no_value_that_the_reader_refuses(data: bytes) -> None:
    columns = decode_columns(data, FORMATS, least_nodes=2)

    report = check(data)
    assert (report.table is None) == bool(report.diagnostics and not report.ok)
    if columns is not None:
        assert _are_equal(columns, _closely(data))


def test_a_value_that_is_also_the_name_of_a_list_keeps_the_fast_path() -> None:
    table = with_addresses(make_table([range(8)] * 4, hosts=["a", "b", "c", "d"]))
    document = json.loads(ranktable.dumps(table, format="hccl-1.0"))
    for node in document["server_list"]:
        for device in node["device"]:
            device["net_position"] = "device"
    data = json.dumps(document).encode()

    assert _are_equal(decode_columns(data, FORMATS, least_nodes=2), _closely(data))


@given(
    chips=st.lists(st.integers(0, 12), min_size=2, max_size=8, unique=True),
    twice=st.integers(0, 7),
    style=st.sampled_from([None, 1]),
)
def test_a_hint_that_is_obeyed_to_the_letter_mends_the_file(
    chips: list[int], twice: int, style: int | None
) -> None:
    devices = [{"device_id": str(c), "rank": str(at)} for at, c in enumerate(chips)]
    twice = max(1, twice % len(devices))
    devices[twice]["rank"] = devices[twice - 1]["rank"]
    document = {"version": "1.0", "node_list": [{"device_list": devices}]}
    lines = json.dumps(document, indent=style).split("\n")
    (found,) = [
        one
        for one in check("\n".join(lines).encode()).diagnostics
        if one.code == "RT202"
    ]

    told = re.fullmatch(
        r"give chip (\d+) of node 0 \(line (\d+)\) rank (\d+), which is free",
        found.hint or "",
    )
    assert told is not None
    (device,) = [one for one in devices if one["device_id"] == told[1]]
    assert f'"rank": "{device["rank"]}"' in lines[int(told[2]) - 1]
    device["rank"] = told[3]
    assert check(json.dumps(document).encode()).ok
