"""Every example of the corpus: sound ones have no error, broken ones the right code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ranktable.runtime.table import is_rank_table_valid, read_rank_table
from ranktable.schema.check import check
from ranktable.schema.diagnostic import RankTableError
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from pathlib import Path

SOUND = sorted((CORPUS / "sccl" / "valid").iterdir())
BROKEN: dict[str, dict[str, tuple[int | None, int | None]]] = {
    "device_id_float.json": {"RT114": (12, 33)},
    "device_id_hex_string.json": {"RT114": (12, 33)},
    "device_id_leading_zero.json": {"RT114": (12, 33)},
    "device_id_missing.json": {"RT112": (11, 17)},
    "device_id_null.json": {"RT113": (12, 33)},
    "device_ip_invalid.json": {"RT211": (10, 42)},
    "duplicate_keys.json": {"RT105": (1, 64)},
    "empty_file.json": {"RT102": (None, None)},
    "local_rank_wrong.json": {"RT206": (16, 34)},
    "missing_version.json": {"RT112": (1, 1)},
    "node_list_empty.json": {"RT116": (3, 17)},
    "not_json.json": {"RT103": (1, 30)},
    "rank_duplicate.json": {"RT202": (28, 28)},
    "rank_interleaved_nodes.json": {"RT503": (14, 28)},
    "rank_local_only.json": {"RT202": (23, 28)},
    "rank_negative.json": {"RT203": (14, 28)},
    "server_count_mismatch.json": {"RT210": (4, 20)},
    "server_count_string.json": {"RT113": (4, 20)},
    "single_quotes.json": {"RT104": (1, 2)},
    "trailing_comma.json": {"RT101": (1, 75)},
}
NO_RING = ("device_list_not_ring_4.json", "device_list_not_ring_8.json")
FOREIGN = sorted((CORPUS / "hccl").glob("*/*.json"))
SCCL_AMONG_THEM = "sccl_device_twice.json"


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.name)
def test_sound_example_has_no_error(path: Path) -> None:
    report = check(path)

    assert report.ok
    assert report.table is not None
    assert is_rank_table_valid(path)
    assert read_rank_table(path) == report.table.chip_map


@pytest.mark.parametrize("name", BROKEN)
def test_broken_example_has_its_code_at_its_place(name: str) -> None:
    path = CORPUS / "sccl" / "broken" / name
    report = check(path)
    errors = [d for d in report.diagnostics if d.severity == "error"]
    first = errors[0]

    assert {first.code: (first.location.line, first.location.column)} == BROKEN[name]
    assert {d.code for d in errors} == set(BROKEN[name])
    assert not is_rank_table_valid(path)
    with pytest.raises(RankTableError) as raised:
        read_rank_table(path)
    assert raised.value.diagnostics == tuple(errors)


@pytest.mark.parametrize("name", NO_RING)
def test_order_without_ring_is_noted_and_with_topology_an_error(name: str) -> None:
    path = CORPUS / "sccl" / "broken" / name

    unknown, known = check(path), check(path, topology="sophgo-8")

    assert (unknown.ok, set(unknown.totals)) == (True, {"RT502"})
    assert (known.ok, set(known.totals)) == (False, {"RT501"})


def test_every_broken_example_is_covered() -> None:
    names = {path.name for path in (CORPUS / "sccl" / "broken").iterdir()}

    assert names == {*BROKEN, *NO_RING}


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.name)
def test_table_of_another_vendor_is_refused_as_such(path: Path) -> None:
    report = check(path)

    if path.name == SCCL_AMONG_THEM:
        assert set(report.totals) == {"RT118", "RT207"}
    else:
        assert "RT111" in report.totals or "RT105" in report.totals
    assert not report.ok


def test_configuration_of_another_vendor_is_no_table() -> None:
    assert set(check(CORPUS / "hccl" / "valid" / "hccn.conf").totals) == {"RT101"}
