"""What is found in a file does not depend on where it is: alone, wrapped, in a list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from ranktable.cli.kinds import judge_source, kind_among, start_of
from ranktable.schema.check import check
from ranktable.schema.file_kind import Source
from ranktable.schema.formats import by_name, names
from ranktable.schema.report import Options
from tests.drawn_files import changed
from tests.test_file_kinds import FORMS, SOUND, wrapped

if TYPE_CHECKING:
    from ranktable.schema.report import Report

NAMES = st.sampled_from(
    ["a", "ranks", "t.txt", "config", "hccl.json", "RANK_TABLE.json"]
)


def with_list(name: str) -> st.SearchStrategy[Any]:
    key = by_name(name).nodes_key
    return changed(name).filter(lambda document: key in document)


TABLES = st.sampled_from(names()).flatmap(with_list).map(json.dumps)
"""Tables with a few changes; the list by which the format is known stays."""


def findings(report: Report) -> list[tuple[Any, ...]]:
    return [
        (one.code, one.severity, one.message, one.location.line, one.location.column)
        for one in report.diagnostics
    ]


@given(TABLES, st.sampled_from(FORMS), NAMES)
def test_a_table_has_the_same_findings_in_a_config_map(
    table: str, form: str, key: str
) -> None:
    alone = check(table.encode())
    manifest = wrapped(table, form).replace("ranks:", f"{key}:")
    manifest = manifest.replace('"ranks"', json.dumps(key))
    start = start_of(manifest.encode())
    kind = kind_among(start, "x.yaml")
    reports = judge_source(Source("x", manifest.encode()), Options(), is_sure=False)
    inside = [report for report in reports if report.key == key]

    assert kind is not None
    assert [findings(report) for report in inside] == [findings(alone)]


@given(st.permutations(sorted(SOUND.items())), TABLES)
def test_what_is_beside_a_file_in_a_config_map_changes_nothing(
    files: list[tuple[str, str]], table: str
) -> None:
    data = dict(files)
    data["table"] = table
    manifest = {"kind": "ConfigMap", "apiVersion": "v1", "data": data}
    text = yaml.safe_dump(manifest, sort_keys=False).encode()
    reports = judge_source(Source("x", text), Options())
    (own,) = (report for report in reports if report.key == "table")

    assert findings(own) == findings(check(table.encode()))


@given(st.binary(max_size=300), st.text(max_size=12))
def test_any_bytes_have_a_report(data: bytes, name: str) -> None:
    assert judge_source(Source(name, data), Options())


@given(st.sampled_from(sorted(SOUND)), st.data())
def test_a_cut_file_of_any_kind_has_a_report(kind: str, data: st.DataObject) -> None:
    text = SOUND[kind].encode()
    cut = data.draw(st.integers(0, len(text)))

    assert judge_source(Source("x", text[:cut] + text[cut + 1 :]), Options())
