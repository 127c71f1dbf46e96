"""Formats that are trees of objects: each is read, judged, shown and written back."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

import ranktable
from ranktable.schema.check import check
from ranktable.schema.formats import OTHERS, by_name
from ranktable.schema.json_schema import schema_of
from tests.format_schemas import validator
from tests.test_json_schema import _subschemas

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run


NAMES = [other.name for other in OTHERS]
SHAPE = {"RT112", "RT113", "RT114", "RT115", "RT116", "RT203", "RT208"}
SHAPE |= {"RT260", "RT261", "RT270"}
Document = Any


def sample(name: str) -> Document:
    """Return a sound document of a format."""
    return copy.deepcopy(by_name(name).example)


@pytest.mark.parametrize("name", NAMES)
def test_sound_document_is_detected_and_written_back_unchanged(name: str) -> None:
    document = sample(name)
    if name != "kubernetes":
        document["site"] = {"rack": [1]}

    report = check(json.dumps(document).encode())

    assert (report.format, report.totals) == (name, {})
    assert report.table is not None
    written = ranktable.dumps(report.table)
    assert json.loads(written) == document
    assert ranktable.loads(written) == report.table
    assert ranktable.loads(written).digest() == report.table.digest()


def test_wrong_entry_of_a_list_is_named_with_its_list() -> None:
    address = {"rank_addr_list": [{"ports": [3]}]}
    document = {"rank_list": [{"level_list": [address]}]}
    found = check(json.dumps(document).encode()).diagnostics

    name = "rank_list[0].level_list[0].rank_addr_list[0].ports[0]"
    assert f"{name} is 3, not a string" in [one.message for one in found]


@pytest.mark.parametrize("name", NAMES)
def test_schema_is_a_schema_with_valid_examples(name: str) -> None:
    schema = schema_of(by_name(name))
    Draft202012Validator.check_schema(schema)

    for key, one in [("", schema), *_subschemas(schema)]:
        assert all(one.get(word) for word in ("description", "examples")), key
        rooted = {"$defs": schema["$defs"], **one}
        judge = Draft202012Validator(rooted, format_checker=FormatChecker())
        assert all(map(judge.is_valid, one["examples"])), key


@pytest.mark.parametrize("name", NAMES)
def test_every_format_is_shown(name: str, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(json.dumps(sample(name)), "utf-8")
    outcome = run("ranktable", "show", str(file))

    assert outcome.status == 0, outcome.err
    assert f": {name}, " in outcome.out


_VALUES = st.one_of(
    st.sampled_from(["", " ", "0", "-1", "00", "x", "10.0.0.9", "2.0", "9999999999"]),
    st.integers(-2, 70),
    st.sampled_from([65_536, 10**9]),
    st.floats(-9, 9).filter(lambda number: not number.is_integer()),
    st.none(),
    st.booleans(),
    st.sampled_from(["[]", "{}", "[[]]", "[{}]"]).map(json.loads),
)


@st.composite
def changed(draw: st.DrawFn, name: str) -> Document:
    """Draw a document that is sound but for one or two changes."""
    document = sample(name)
    for _ in range(draw(st.integers(1, 2))):
        places: list[tuple[Any, Any]] = []
        stack = [document]
        while stack:
            holder = stack.pop()
            for key in holder if isinstance(holder, dict) else range(len(holder)):
                places.append((holder, key))
                if isinstance(holder[key], (dict, list)):
                    stack.append(holder[key])
        if not places:
            return document
        holder, key = draw(st.sampled_from(places))
        if draw(st.integers(0, 3)):
            holder[key] = draw(_VALUES)
        else:
            del holder[key]
    return document


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_schema_and_reader_agree(name: str, data: st.DataObject) -> None:
    document = data.draw(changed(name))
    if isinstance(document, dict):
        report = check(json.dumps(document).encode(), format=name)
        if report.format != name:
            return
        valid = validator(name).is_valid(document)
        codes = {
            d.code
            for d in report.diagnostics
            if "is a spare and has no" not in d.message
        }

        assert valid or SHAPE & codes, report.diagnostics
        # A schema cannot limit a number that is spelt as text.
        assert not valid or not SHAPE & codes - {"RT203", "RT260"}, report.diagnostics


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_changed_value_ends_in_a_finding_or_in_the_same_document(
    name: str, data: st.DataObject
) -> None:
    document = data.draw(changed(name))
    report = check(json.dumps(document).encode())

    assert report.ok == (report.table is not None)
    if report.table is not None:
        assert json.loads(ranktable.dumps(report.table)) == document
