"""The JSON Schemas: what they promise, and that they agree with the checker."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from ranktable.report.rule_pages import page_of
from ranktable.schema.check import check
from ranktable.schema.formats import FORMATS, by_name, names
from ranktable.schema.json_schema import schema_of, schema_of_any
from ranktable.schema.rules import shape
from tests.format_schemas import validator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.finding import Rule
    from ranktable.schema.report import Report

CORPUS = Path(__file__).parent / "corpus" / "sccl"
NAMES = [format_.name for format_ in FORMATS]
SHAPE_CODES = {"RT112", "RT113", "RT114", "RT115", "RT116"}

Table = dict[str, Any]


def _has_shape(report: Report) -> bool:
    """Whether a report finds nothing that a JSON Schema can see.

    A negative number is of the right shape for the checker, which has rules that say
    more about it: RT203 for a rank, RT208 for a chip, RT206 for a local rank.
    """
    for diagnostic in report.diagnostics:
        code, message = diagnostic.code, diagnostic.message
        if code in SHAPE_CODES or code == "RT203":
            return False
        if code == "RT208" and message.endswith("is negative"):
            return False
        if code == "RT206" and message.startswith("local_rank is -"):
            return False
    return True


def _subschemas(schema: Table) -> Iterator[tuple[str, Table]]:
    for name, subschema in {
        **schema.get("properties", {}),
        **schema.get("$defs", {}),
    }.items():
        yield name, subschema
        yield from _subschemas(subschema)


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_is_a_schema(name: str) -> None:
    schema = schema_of(by_name(name))

    Draft202012Validator.check_schema(schema)

    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:ranktable:schema:{name}"


@pytest.mark.parametrize("name", NAMES)
def test_everything_is_described_for_an_editor(name: str) -> None:
    schema = schema_of(by_name(name))

    found = [("", schema), *_subschemas(schema)]

    assert [
        (key, word)
        for key, subschema in found
        for word in ("description", "examples")
        if not subschema.get(word)
    ] == []


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_valid(name: str) -> None:
    schema = schema_of(by_name(name))
    for _, subschema in [("", schema), *_subschemas(schema)]:
        rooted = {"$defs": schema["$defs"], **subschema}
        judge = Draft202012Validator(rooted, format_checker=FormatChecker())

        assert [list(judge.iter_errors(item)) for item in subschema["examples"]] == [
            [] for _ in subschema["examples"]
        ]


@pytest.mark.parametrize("other", ["", "node_list", "version"])
def test_one_schema_takes_every_format(other: str) -> None:
    formats = [by_name(name) for name in names() if by_name(name).nodes_key]
    judge = Draft202012Validator(schema_of_any(formats))

    for format_ in formats:
        table = format_.example
        assert judge.is_valid(table), format_.name
        broken = {**table, format_.nodes_key: [{other: "x"}]}
        assert not judge.is_valid(broken), format_.name
    assert not judge.is_valid({other: []})


@pytest.mark.parametrize("path", sorted((CORPUS / "valid").iterdir()), ids=str)
def test_sound_tables_are_valid(path: Path) -> None:
    document = json.loads(path.read_bytes())

    assert list(validator("sccl-1.0").iter_errors(document)) == []


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in sorted((CORPUS / "broken").iterdir())
        if path.stem not in {"empty_file", "not_json", "single_quotes"}
        and path.stem not in {"duplicate_keys", "trailing_comma"}
        and not path.stem.startswith("server_count")
    ],
    ids=lambda path: path.stem,
)
def test_broken_tables_are_judged_as_the_checker_does(path: Path) -> None:
    data = path.read_bytes()
    valid = validator("sccl-1.0").is_valid(json.loads(data))

    assert valid == _has_shape(check(data, format="sccl-1.0"))


@pytest.mark.parametrize(
    "rule",
    [rule for rule in shape.RULES if rule.code in SHAPE_CODES],
    ids=lambda rule: rule.code,
)
def test_examples_of_the_rules_are_judged_alike(rule: Rule) -> None:
    page = page_of(rule)
    assert page.bad is not None
    assert page.good is not None
    judge = validator("sccl-1.0")

    assert not judge.is_valid(json.loads(page.bad))
    assert judge.is_valid(json.loads(page.good))


def _sound(name: str) -> Table:
    """Return a sound table of two nodes in which every key occurs."""
    format_ = by_name(name)
    nodes: list[Table] = []
    for node in range(2):
        devices = [
            {
                "device_id": str(place) if node else place,
                "local_rank": str(place),
                "device_ip": "10.20.0.5",
                "device_ip_emulator": "2001:db8::5",
                "rank": str(2 * node + place),
                "world_rank": 2 * node + place,
            }
            for place in range(2)
        ]
        nodes.append({format_.host_key: f"n{node}", format_.devices_key: devices})
    table: Table = {"version": "1.0", format_.nodes_key: nodes}
    if format_.count_key:
        table |= {format_.count_key: 2, "status": "completed"}
    return table


_SPELLINGS = (
    *("", " ", "0", "00", "05", "5", " 5", "5 ", "5\n", "\n5", "+5", "-5", "-0", "5x"),
    *("5.0", "5.", "1_5", "0x5", "1e1", "999999999", "1000000000", "-1", "-999999999"),
    *("-1000000000", "\u0665", "\uff15", "1.0", "1.2", "n0", "10.20.0.5", "\u3000"),
)
_VALUES = st.one_of(
    st.sampled_from(_SPELLINGS),
    st.integers(-3, 5),
    st.sampled_from([999_999_999, 10**9, 10**18, -(10**9), -999_999_999]),
    # JSON Schema takes 5.0 for the integer 5 (draft 2020-12, validation, 6.1.1); to
    # the checker it is oddly spelt, because int() in Python takes "5" and not "5.0".
    st.floats(-9, 9).filter(lambda number: not number.is_integer()),
    st.none(),
    st.booleans(),
    st.text(max_size=2),
    # Made anew for every draw, because a later change may be made inside.
    st.sampled_from(["[]", "{}", "[[]]", "[{}]"]).map(json.loads),
)
_KEYS = st.sampled_from(
    ["rank", "world_rank", "rank_id", "local_rank", "host", "note", "placement"]
)


@st.composite
def _documents(draw: st.DrawFn, name: str) -> Table:
    """Draw a table that is sound but for a few changes."""
    document = copy.deepcopy(_sound(name))
    for _ in range(draw(st.integers(0, 4))):
        place: Any = document
        while place:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], (dict, list)) and draw(st.integers(0, 9)):
                place = place[key]
                continue
            match draw(st.sampled_from(["replace", "replace", "remove", "add"])):
                case "replace":
                    place[key] = draw(_VALUES)
                case "remove":
                    del place[key]
                case _ if isinstance(place, dict):
                    place[draw(_KEYS)] = draw(_VALUES)
                case _:
                    place.append(draw(_VALUES))
            break
    return document


def _devices(document: Table, name: str) -> Iterator[Table]:
    format_ = by_name(name)
    nodes = document.get(format_.nodes_key)
    for node in nodes if isinstance(nodes, list) else []:
        devices = node.get(format_.devices_key) if isinstance(node, dict) else []
        for device in devices if isinstance(devices, list) else []:
            if isinstance(device, dict):
                yield device


def _is_negative(value: object) -> bool:
    return str(value).startswith("-")


def _is_exempt(document: Table, name: str) -> bool:
    """Whether a rank is given twice, differently, and one of them is negative.

    That is reported as RT205, whatever the two values are.
    """
    for device in _devices(document, name):
        ranks = [device[key] for key in by_name(name).rank_keys if key in device]
        if len(set(map(str, ranks))) > 1 and any(map(_is_negative, ranks)):
            return True
    return False


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_schema_and_checker_agree(name: str, data: st.DataObject) -> None:
    document = data.draw(_documents(name).filter(lambda d: not _is_exempt(d, name)))
    text = json.dumps(document).encode()

    report = check(text, format=name)

    assert validator(name).is_valid(document) == _has_shape(report), report.diagnostics
