"""The JSON Schemas: what they promise, and that they agree with the checker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from ranktable.report.rule_pages import page_of
from ranktable.schema.check import check
from ranktable.schema.formats import FORMATS, OTHERS, by_name, names
from ranktable.schema.json_schema import schema_of, schema_of_any
from ranktable.schema.rules import shape
from tests.drawn_files import changed, validator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.finding import Rule
    from ranktable.schema.report import Report

CORPUS = Path(__file__).parent / "corpus" / "sccl"
NAMES = [format_.name for format_ in FORMATS]
EVERY = [*NAMES, *(other.name for other in OTHERS)]
SHAPE_CODES = {"RT112", "RT113", "RT114", "RT115", "RT116"}
NUMBER_CODES = {"RT203", "RT260", "RT261", "RT270"}

Table = dict[str, Any]


def _seen(report: Report) -> set[str]:
    """Return the codes of what a JSON Schema can see.

    A negative number is of the right shape for the checker, which has rules that say
    more about it: RT203 for a rank, RT208 for a chip, RT206 for a local rank.
    """
    return {
        d.code
        for d in report.diagnostics
        if (d.code in SHAPE_CODES | NUMBER_CODES and "is a spare" not in d.message)
        or (d.code == "RT208" and re.search(r"is negative$|^chip -", d.message))
        or (d.code == "RT206" and d.message.startswith("local_rank is -"))
    }


def _subschemas(schema: Table) -> Iterator[tuple[str, Table]]:
    for name, subschema in {
        **schema.get("properties", {}),
        **schema.get("$defs", {}),
    }.items():
        yield name, subschema
        yield from _subschemas(subschema)


@pytest.mark.parametrize("name", EVERY)
def test_the_schema_is_a_schema(name: str) -> None:
    schema = schema_of(by_name(name))

    Draft202012Validator.check_schema(schema)

    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:ranktable:schema:{name}"


@pytest.mark.parametrize("name", EVERY)
def test_everything_is_described_for_an_editor(name: str) -> None:
    schema = schema_of(by_name(name))

    found = [("", schema), *_subschemas(schema)]

    assert [
        (key, word)
        for key, subschema in found
        for word in ("description", "examples")
        if not subschema.get(word)
    ] == []


@pytest.mark.parametrize("name", EVERY)
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

    assert valid != bool(_seen(check(data, format="sccl-1.0")))


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


@pytest.mark.parametrize("name", EVERY)
@given(data=st.data())
def test_schema_and_checker_agree(name: str, data: st.DataObject) -> None:
    document = data.draw(changed(name).filter(lambda d: not _is_exempt(d, name)))
    report = check(json.dumps(document).encode(), format=name)
    assume(report.format == name)
    valid, seen = validator(name).is_valid(document), _seen(report)

    assert valid or seen, report.diagnostics
    # A schema cannot limit a number that is spelt as text.
    in_text = {"RT260"} if name in NAMES else {"RT203", "RT260"}
    assert not valid or not seen - in_text, report.diagnostics
