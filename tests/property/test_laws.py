"""Laws that hold for every table and for any bytes."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.schema.check import check
from ranktable.schema.fixes import fixed_text
from ranktable.schema.model import RankTable
from ranktable.schema.regular import read_regular
from ranktable.schema.repetitive import read_repetitive
from tests.property.strategies import (
    chip_lists,
    documents,
    repetitive_texts,
    tables,
    texts,
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


@given(texts())
def test_fast_path_never_contradicts_the_full_pipeline(data: bytes) -> None:
    chip_map = read_regular(data)
    report = check(data)

    if chip_map is not None:
        assert report.table is not None
        assert report.table.chip_map == chip_map


@given(tables())
def test_fast_path_knows_every_table_that_gen_writes(table: RankTable) -> None:
    plain = ranktable.loads(
        json.dumps(
            {
                "version": "1.0",
                "node_list": [
                    {
                        "device_list": [
                            {"device_id": str(d.device_id), "rank": str(d.rank)}
                            for d in node.devices
                        ]
                    }
                    for node in table.nodes
                ],
            }
        )
    )

    assert read_regular(ranktable.dumps(plain)) == table.chip_map


@given(repetitive_texts())
def test_predicted_text_never_contradicts_the_full_pipeline(data: bytes) -> None:
    chip_map = read_repetitive(data)
    report = check(data)

    if chip_map is not None:
        assert report.table is not None
        assert report.table.chip_map == chip_map


@given(st.integers(2, 40), chip_lists)
def test_prediction_knows_every_table_of_equal_nodes(
    num_nodes: int, chips: list[int]
) -> None:
    data = ranktable.dumps(make_table([chips] * num_nodes))

    assert read_repetitive(data) == chips * num_nodes


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
