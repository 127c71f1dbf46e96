"""YAML to plain data with places: strict, bounded, nothing expanded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ranktable.schema.document import find_locations
from ranktable.schema.yaml_parser import parse_yaml

if TYPE_CHECKING:
    from ranktable.schema.document import Location

VALUES: dict[str, object] = {
    "a": "a",
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "False": False,
    "1": 1,
    "-12": -12,
    "0": 0,
    "1.5": 1.5,
    "1.5e-3": 0.0015,
    "'1'": "1",
    '"true"': "true",
    # What YAML 1.1 and 1.2 read differently stays text.
    "yes": "yes",
    "no": "no",
    "on": "on",
    "0644": "0644",
    "0o17": "0o17",
    "0x1F": "0x1F",
    "1_000": "1_000",
    "1:30": "1:30",
    "2026-01-02": "2026-01-02",
    ".inf": ".inf",
    ".nan": ".nan",
    "1e3": "1e3",
    "1" * 30: "1" * 30,
    "=": "=",
    "[1, a]": [1, "a"],
    "{b: {c: 1}}": {"b": {"c": 1}},
    "|\n  two\n  lines\n": "two\nlines\n",
}


@pytest.mark.parametrize("text", VALUES)
def test_value_is_read(text: str) -> None:
    documents, found = parse_yaml(f"key: {text}\n")

    assert not found
    assert [document.data for document in documents] == [{"key": VALUES[text]}]


def place(text: str, *path: str | int, of_key: bool = False) -> Location:
    (document,), _ = parse_yaml(text)
    spot = document.span_of(*path, of_key=of_key)
    return find_locations(text, [spot], file="x")[spot]


def test_values_and_keys_have_places() -> None:
    text = "é: 1\nhosts:\n  - name: n1\n    chips: [0, 1]\n"

    chip = place(text, "hosts", 0, "chips", 1)
    assert (chip.pointer, chip.line, chip.column) == ("/hosts/0/chips/1", 4, 16)
    assert (chip.end_line, chip.end_column) == (4, 17)
    key = place(text, "hosts", 0, "name", of_key=True)
    assert (key.line, key.column, key.end_column) == (3, 5, 9)
    absent = place(text, "hosts", 0, "rack")
    assert (absent.pointer, absent.line, absent.column) == ("/hosts/0", 3, 5)


def test_pointers_are_escaped() -> None:
    assert place("a/b~c: 1\n", "a/b~c").pointer == "/a~1b~0c"


def test_documents_of_a_stream() -> None:
    documents, found = parse_yaml("a: 1\n---\nb: 2\n---\n")

    assert not found
    assert [document.data for document in documents] == [{"a": 1}, {"b": 2}, None]


REFUSED = {
    "a: 1\na: 2\n": ["2:1 RT105"],
    "a: &x 1\nb: *x\n": ["2:4 RT136"],
    "b: {<<: {a: 1}}\n": ["1:5 RT136"],
    "a: !!python/object:os.system x\n": ["1:4 RT136"],
    "a: !x {}\n": ["1:4 RT136"],
    "{[1]: 2}\n": ["1:2 RT136"],
    "? {a: 1}\n: 2\n": ["1:3 RT136"],
    "a: [1\n": ["1:6 RT135"],
    "a: b: c\n": ["1:5 RT135"],
    "\ta: 1\n": ["1:1 RT135"],
    "a: 'x\n": ["1:6 RT135"],
    "a: \x01\n": ["1:4 RT135"],
    "%YAML 9.9\n---\na\n": ["1:1 RT135"],
    "a: *missing\n": ["1:4 RT136"],
    "a: @b\n": ["1:4 RT135"],
    "[" * 100: ["1:65 RT107"],
}


@pytest.mark.parametrize("text", REFUSED)
def test_text_is_refused_at_its_place(text: str) -> None:
    _, found = parse_yaml(text)
    locations = find_locations(text, [f.span for f in found if f.span], file="x")
    said = [
        f"{locations[f.span].line}:{locations[f.span].column} {f.rule.code}"
        for f in found
        if f.span is not None
    ]

    assert said == REFUSED[text]


def test_billion_laughs_stay_small() -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    documents, found = parse_yaml("\n".join(lines))

    assert len(str(documents[0].data)) < 2000
    assert {finding.rule.code for finding in found} == {"RT136"}


def test_first_use_of_a_key_is_related() -> None:
    _, (finding,) = parse_yaml("a: 1\nb: 2\na: 3\n")

    assert finding.span is not None
    assert (finding.span.path, finding.span.offsets) == (("a",), (10, 11))
    assert [(spot.offsets, spot.label) for spot in finding.related] == [
        ((0, 1), "first use")
    ]
