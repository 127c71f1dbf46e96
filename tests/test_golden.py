"""Every code has a smallest bad file and its nearest good neighbour.

They come from the rules, which ``explain`` prints; the folders here hold what every
renderer says of them. ``make golden`` rewrites the folders, to be read in review.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ranktable.cli.example import example_files, judge_example
from ranktable.report.catalogue import FAMILIES, RULES
from ranktable.report.renderers import RENDERERS
from ranktable.report.style import Style
from ranktable.runtime import rules as runtime_rules
from tests.conftest import HERE

if TYPE_CHECKING:
    from pathlib import Path

    from ranktable.schema.check_report import Report
    from ranktable.schema.rules.rule import Rule

GOLDEN = HERE / "golden"
SUFFIXES = {"json": "json", "jsonl": "jsonl", "sarif": "sarif"}
WITH_EXAMPLE = [rule for rule in RULES if rule.bad is not None]


def reports_of(rule: Rule, data: bytes | None, stem: str) -> list[Report]:
    assert data is not None
    return judge_example(rule, data, stem)


def outputs(rule: Rule) -> dict[str, bytes]:
    assert rule.bad is not None
    assert rule.good is not None
    reports = reports_of(rule, rule.bad, "bad")
    found = {
        **example_files(rule, rule.bad, "bad"),
        **example_files(rule, rule.good, "good"),
    }
    for name, render in RENDERERS:
        text = "".join(render(reports, Style()))
        found[f"{name}.{SUFFIXES.get(name, 'txt')}"] = text.encode()
    return found


@pytest.mark.parametrize("rule", WITH_EXAMPLE, ids=lambda rule: rule.code)
def test_outputs_are_as_reviewed(rule: Rule, request: pytest.FixtureRequest) -> None:
    folder: Path = GOLDEN / rule.code
    expected = outputs(rule)
    if request.config.getoption("--update-golden"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in expected.items():
            (folder / name).write_bytes(data)

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == expected


@pytest.mark.parametrize("rule", WITH_EXAMPLE, ids=lambda rule: rule.code)
def test_bad_example_has_the_defect_and_no_other_of_its_weight(rule: Rule) -> None:
    reports = reports_of(rule, rule.bad, "bad")

    codes = {
        diagnostic.code
        for report in reports
        for diagnostic in report.diagnostics
        if diagnostic.severity == rule.severity
    }
    # Whatever needs two nodes is also told that SCCL connects one.
    assert codes - {"RT505"} == {rule.code} - {"RT505"}
    assert rule.code in codes


@pytest.mark.parametrize("rule", WITH_EXAMPLE, ids=lambda rule: rule.code)
def test_good_neighbour_is_free_of_it(rule: Rule) -> None:
    reports = reports_of(rule, rule.good, "good")

    assert all(report.ok for report in reports)
    assert not any(rule.code in report.totals for report in reports)


def test_every_golden_folder_has_a_rule() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {r.code for r in WITH_EXAMPLE}


def test_codes_are_unique_and_in_their_range() -> None:
    codes = [rule.code for rule in RULES]

    assert len(codes) == len(set(codes))
    for family in FAMILIES:
        is_of_a_job = family is runtime_rules
        assert all((rule.code[2] in "34") == is_of_a_job for rule in family.RULES)
