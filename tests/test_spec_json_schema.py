"""The JSON Schema of cluster specs, and that it agrees with the reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ranktable.cluster.specs.read_spec import read_spec
from ranktable.cluster.specs.spec import ORDERS, spec_schema_text
from ranktable.cluster.specs.spec_rules import RULES
from ranktable.report.rule_pages import page_of
from ranktable.schema.yaml_parser import parse_yaml
from tests.test_specs import REFUSED

if TYPE_CHECKING:
    from ranktable.schema.finding import Rule
    from tests.conftest import Run

SCHEMA: dict[str, Any] = json.loads(spec_schema_text())
JUDGE = Draft202012Validator(SCHEMA)
# What the reader says of a shape; a schema cannot read a host list.
SHAPE_CODES = {rule.code for rule in RULES if rule.code < "RT200"} - {"RT153"}


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)

    assert SCHEMA["$id"] == "urn:ranktable:schema:cluster-spec"


def test_orders_are_those_of_the_reader() -> None:
    assert tuple(SCHEMA["properties"]["order"]["enum"]) == ORDERS


def test_everything_is_described_and_its_examples_are_valid() -> None:
    for part in (SCHEMA, *SCHEMA["properties"].values(), *SCHEMA["$defs"].values()):
        judge = Draft202012Validator({"$defs": SCHEMA["$defs"], **part})

        assert part["title"]
        assert part["description"]
        assert part["examples"]
        assert all(judge.is_valid(example) for example in part["examples"])


def test_schema_command_prints_it(run: Run) -> None:
    assert run("ranktable", "schema", "cluster-spec").out == spec_schema_text().decode()
    unknown = run("ranktable", "schema", "x")
    assert unknown.err.endswith(", cluster-spec\n")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_examples_of_the_rules_are_judged_alike(rule: Rule) -> None:
    page = page_of(rule)
    assert page.bad is not None
    assert page.good is not None
    bad, good = (parse_yaml(data.decode())[0][0].data for data in (page.bad, page.good))

    assert JUDGE.is_valid(good)
    if rule.code != "RT242":  # uniqueItems sees it too
        assert JUDGE.is_valid(bad) == (rule.code not in SHAPE_CODES)


@pytest.mark.parametrize("text", REFUSED, ids=repr)
def test_what_the_schema_refuses_the_reader_refuses(text: str) -> None:
    documents, findings = parse_yaml(text)
    if not findings and len(documents) == 1:
        agree(documents[0].data, read_spec(text.encode(), file="s.yaml").report.totals)


def agree(document: object, totals: Any) -> None:
    """Assert that the schema refuses nothing sound, and every shape that is wrong."""
    if not JUDGE.is_valid(document):
        assert totals, document
    if SHAPE_CODES & set(totals):
        assert not JUDGE.is_valid(document)


_TEXTS = st.sampled_from(
    ["", "n1", "n[1-2]", "n3", "2", "1_0", "12\n", "n 1", "a,b", "by-rack", "rack"]
)
_NUMBERS = st.sampled_from([-1, 0, 1, 2, 8, 1024, 1025, 1048577, 10**9, 10**17])
_PLAIN = st.one_of(
    _TEXTS, _NUMBERS, st.none(), st.booleans(), st.sampled_from([0.5, 1.25])
)
_CHIPS = st.one_of(_PLAIN, st.lists(_PLAIN, max_size=3), st.integers(1, 3))
_PATTERNS = st.from_regex(r"([.0{}a-z/%+]|\{(node|chip|host)[/%]?1?\+?1?\})+")
_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "nodes": st.one_of(_PLAIN, st.just("n[1-2]")),
        "chips": st.one_of(_CHIPS, st.dictionaries(_TEXTS, _CHIPS, max_size=2)),
        "racks": st.one_of(_PLAIN, st.dictionaries(_TEXTS, _PLAIN, max_size=2)),
        "spares": _PLAIN,
        "ring": st.one_of(_PLAIN, st.just("sophgo-8")),
        "order": st.one_of(_PLAIN, st.sampled_from(ORDERS)),
        "addresses": st.one_of(_PLAIN, _PATTERNS),
        "node": _PLAIN,
    },
)


@given(document=_SPECS)
def test_schema_and_reader_agree(document: dict[str, object]) -> None:
    text = json.dumps(document)

    agree(document, read_spec(text.encode(), file="s.yaml").report.totals)


@given(data=st.binary(max_size=80))
def test_any_bytes_end_in_a_spec_or_in_findings(data: bytes) -> None:
    reading = read_spec(b"nodes: 1\nchips: " + data, file="s.yaml")

    assert (reading.spec is None) == (not reading.report.ok)


def test_the_schemas_lie_in_the_package() -> None:
    import ranktable.schema

    folder = Path(ranktable.schema.__file__).parent / "data"

    assert {path.name for path in folder.iterdir()} == {
        "cluster-spec.schema.json",
        "probe-line.schema.json",
        "topology.schema.json",
    }
