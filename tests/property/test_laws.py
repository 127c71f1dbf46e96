"""Laws that hold for every table and for any bytes."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from operator import itemgetter

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.schema.check import check, decode_any
from ranktable.schema.diagnostic import Findings
from ranktable.schema.document import Document
from ranktable.schema.document_reader import DocumentReader
from ranktable.schema.fast_decode import (
    decode_by_template,
    decode_each_node,
    read_sound,
)
from ranktable.schema.fixes import fixed_text
from ranktable.schema.formats import FORMATS, by_name, detect
from ranktable.schema.json_parser import parse
from ranktable.schema.model import RankTable
from ranktable.schema.writing import encode
from tests.property.strategies import (
    alike_tables,
    alike_texts,
    documents,
    hccl_texts,
    json_values,
    tables,
    texts,
    with_addresses,
)


@given(tables())
def test_reading_what_was_written_gives_the_same_table(table: RankTable) -> None:
    again = ranktable.loads(ranktable.dumps(table))

    assert again.chip_map == table.chip_map
    assert again.digest() == table.digest()
    assert ranktable.dumps(again) == ranktable.dumps(table)
    assert ranktable.loads(ranktable.dumps(again)) == again


@given(documents(), st.sampled_from([None, 2]))
def test_writing_loses_nothing_of_a_sound_document(
    document: dict[str, object], indent: int | None
) -> None:
    data = json.dumps(document, indent=indent).encode()
    report = check(data)
    if report.table is None:
        return

    written = ranktable.dumps(report.table)

    assert json.loads(written) == document
    assert list(json.loads(written)) == list(document)


@given(st.one_of(st.binary(max_size=200), texts()))
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


class OneByOne(DocumentReader):
    """Reads every device by itself."""

    def _are_plain(self, _: list[object]) -> bool:
        return False


_values = st.integers(-1, 9) | st.integers(-1, 9).map(str) | st.just(True) | json_values
_devices = st.lists(
    st.fixed_dictionaries(
        {"device_id": _values, "rank": _values}, optional={"world_rank": _values}
    )
    | json_values,
    max_size=4,
)


@given(st.lists(_devices, max_size=4))
@example([[{"device_id": "0", "rank": "0"}], [{"device_id": {}, "rank": "1"}]])
@example([[{"device_id": "0", "rank": True}]])
def test_devices_that_are_read_at_once_are_those_read_one_by_one(
    lists: list[list[object]],
) -> None:
    nodes = [{"device_list": devices} for devices in lists]
    document = Document(text="", data={"version": "1.0", "node_list": nodes})
    format_ = by_name("sccl-1.0")

    at_once = DocumentReader(format_, document, Findings()).read()

    assert at_once == OneByOne(format_, document, Findings()).read()


@given(texts() | alike_texts().map(itemgetter(0)) | hccl_texts())
@example(b'{"version":"1.0","node_list":[{"device_list":[{"rank":"0"}]}]}')
@example(
    b'{"version":"1.0","node_list":[{"device_list":[{"device_id":"0","rank":"0"}]}]}'
)
def test_fast_decode_reads_what_the_reader_of_documents_reads(data: bytes) -> None:
    columns = decode_any(data)
    if columns is None:
        return
    parsed = parse(data.decode())

    assert isinstance(parsed, tuple)
    assert not parsed[1]
    assert detect(parsed[0]) is columns.format
    document = Document(text=data.decode(), data=parsed[0])
    found = Findings()
    closely = columns.format.read(document, found)
    assert not found
    assert replace(columns, source=document) == closely


@given(texts() | alike_texts().map(itemgetter(0)) | hccl_texts())
def test_surely_sound_tables_are_sound(data: bytes) -> None:
    columns = read_sound(data)
    report = check(data)

    if columns is not None:
        assert report.ok, report.diagnostics
        assert report.table is not None
        assert report.table.chip_map == columns.chip_map()
        assert ranktable.loads(data).digest() == _built(report.table).digest()


@given(alike_texts())
def test_what_a_template_gives_is_what_each_node_says(
    drawn: tuple[bytes, str],
) -> None:
    data, name = drawn
    columns = decode_by_template(data, by_name(name), least_nodes=2)

    if columns is not None:
        parsed = parse(data.decode())
        assert isinstance(parsed, tuple)
        assert not parsed[1]
        document = Document(text=data.decode(), data=parsed[0])
        assert columns == decode_each_node(data, columns.format)
        found = Findings()
        closely = columns.format.read(document, found)
        assert replace(columns, source=document) == closely
        assert not found


@given(alike_tables())
def test_a_template_knows_every_table_whose_nodes_are_spelt_alike(
    drawn: tuple[bytes, str],
) -> None:
    data, name = drawn
    columns = decode_by_template(data, by_name(name), least_nodes=2)

    assert columns is not None
    assert columns == decode_each_node(data, columns.format)


@pytest.mark.parametrize("size", [1, 3, 8, 16, 48])
def test_a_template_knows_nodes_whose_ranks_pass_a_thousand(size: int) -> None:
    num_nodes = 2_400 // size
    table = make_table(
        [range(size)] * num_nodes, hosts=[f"n{n}" for n in range(num_nodes)]
    )
    data = ranktable.dumps(table)
    format_ = by_name("sccl-1.0")

    columns = decode_by_template(data, format_, least_nodes=2)

    assert columns == decode_each_node(data, format_)
    for right, wrong in ((b'"999"', b'"0999"'), (b'"1007"', b'"1017"')):
        damaged = data.replace(b'"rank":' + right, b'"rank":' + wrong)
        assert damaged != data
        assert decode_by_template(damaged, format_, least_nodes=2) is None


def test_a_table_that_ends_early_is_refused_at_once() -> None:
    nodes = [[0, 1, 2, 3, 4, 5, 6, 7]] * 30
    table = with_addresses(make_table(nodes, hosts=[f"n{n}" for n in range(30)]))
    data = ranktable.dumps(table, format="hccl-1.0")
    format_ = by_name("hccl-1.0")
    start = time.process_time()

    for end in range(len(data) - 3_000, len(data) - 10, 97):
        closed = data[:end] + b"]" * 3 + data[-3_000:]
        assert decode_by_template(closed, format_, least_nodes=2) is None

    assert time.process_time() - start < 5


def _built(table: RankTable) -> RankTable:
    """Return the same table without the columns it was read into."""
    return RankTable(
        nodes=table.nodes,
        version=table.version,
        format=table.format,
        extra=table.extra,
        layout=table.layout,
    )


@given(tables(), st.sampled_from([f.name for f in FORMATS]))
def test_fast_decode_knows_every_table_that_is_written(
    table: RankTable, name: str
) -> None:
    chips = [[device.device_id for device in node.devices] for node in table.nodes]
    if by_name(name).most_chips is not None:
        chips = [[sorted(node).index(chip) for chip in node] for node in chips]
    named = make_table(chips, hosts=[f"n{place}" for place in range(len(chips))])
    data = ranktable.dumps(with_addresses(named), format=name)

    columns = read_sound(data)

    assert columns is not None
    assert columns.format.name == name
    assert columns.chip_map() == named.chip_map


@given(texts())
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
