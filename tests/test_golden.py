"""Every code has a smallest bad file and its nearest good neighbour.

They come from the rules, which ``explain`` prints; the files in ``golden`` hold what
people see of each, three reports in every other form, and what each format declares.
``make golden`` rewrites them, to be read in review.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster import pod_rules
from ranktable.cluster.submissions import submission_rules
from ranktable.doctor import rules as doctor_rules
from ranktable.preflight import pods as preflight_pods
from ranktable.preflight import rules as preflight_rules
from ranktable.report import check_renderers, doctor_renderers
from ranktable.report.catalogue import FAMILIES, RULES
from ranktable.report.findings_data import RENDERERS
from ranktable.report.rule_pages import page_of, pages
from ranktable.report.terminal import Style
from ranktable.runtime import rules as runtime_rules
from ranktable.schema.formats import by_name, names, server_groups
from tests.conftest import HERE
from tests.drawn_files import outline
from tests.rule_examples import check_example, diagnose_example, judge_example

if TYPE_CHECKING:
    from pathlib import Path

    from ranktable.schema.finding import Rule
    from ranktable.schema.report import Report

GOLDEN = HERE / "golden"
OTHERS = ("RT101", "RT202", "RT231")
"""A text that is not JSON, a defect with a related place, a defect of several files."""
SUFFIXES = {"json": "json", "sarif": "sarif"}
WITH_EXAMPLE = [rule for rule in RULES if page_of(rule).bad is not None]
OF_FILES = [
    rule for rule in WITH_EXAMPLE if page_of(rule).command not in ("doctor", "check")
]
"""All but the findings of logs and hosts: see test_doctor and test_check."""


def reports_of(rule: Rule, data: bytes | None, stem: str) -> list[Report]:
    assert data is not None
    return judge_example(rule, data, stem)


def rendered(form: str, rule: Rule) -> str:
    """Return what a renderer says of the bad example of a rule."""
    if page_of(rule).command == "doctor":
        diagnosis = diagnose_example(rule, page_of(rule).bad)
        return "".join(doctor_renderers.render_full(diagnosis, Style()))
    if page_of(rule).command == "check":
        return "".join(
            check_renderers.render_full(check_example(rule, page_of(rule).bad), Style())
        )
    render = RENDERERS[form]
    return "".join(render(reports_of(rule, page_of(rule).bad, "bad"), Style()))


def file_of(form: str, rule: Rule) -> Path:
    return GOLDEN / form / f"{rule.code}.{SUFFIXES.get(form, 'txt')}"


CASES = [("full", rule.code) for rule in WITH_EXAMPLE] + [
    (form, code) for form in RENDERERS if form != "full" for code in OTHERS
]
"""Of each code what people see; of the other renderers three reports that differ."""


@pytest.mark.parametrize(("form", "code"), CASES)
def test_outputs_are_as_reviewed(
    form: str, code: str, request: pytest.FixtureRequest
) -> None:
    rule = next(rule for rule in WITH_EXAMPLE if rule.code == code)
    file, text = file_of(form, rule), rendered(form, rule)
    if request.config.getoption("--update-golden"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")

    assert file.read_text("utf-8") == text


@pytest.mark.parametrize("rule", OF_FILES, ids=lambda rule: rule.code)
def test_every_renderer_shows_every_code(rule: Rule) -> None:
    for form in RENDERERS:
        text = rendered(form, rule)

        assert rule.code in text
        if form in ("json", "sarif"):
            json.loads(text)


@pytest.mark.parametrize("rule", OF_FILES, ids=lambda rule: rule.code)
def test_bad_example_has_the_defect_and_no_other_of_its_weight(rule: Rule) -> None:
    reports = reports_of(rule, page_of(rule).bad, "bad")

    codes = {
        diagnostic.code
        for report in reports
        for diagnostic in report.diagnostics
        if diagnostic.severity == rule.severity
    }
    # Whatever needs two nodes is also told that SCCL connects one.
    assert codes - {"RT505"} == {rule.code} - {"RT505"}
    assert rule.code in codes


@pytest.mark.parametrize("rule", OF_FILES, ids=lambda rule: rule.code)
def test_good_neighbour_is_free_of_it(rule: Rule) -> None:
    reports = reports_of(rule, page_of(rule).good, "good")

    assert all(report.ok for report in reports)
    assert not any(rule.code in report.totals for report in reports)


def test_every_golden_file_is_compared() -> None:
    by_code = {rule.code: rule for rule in WITH_EXAMPLE}

    assert {*GOLDEN.rglob("RT*")} == {
        file_of(form, by_code[code]) for form, code in CASES
    }


def test_codes_without_an_example_are_not_about_what_is_in_a_file() -> None:
    no_content = {"RT001", "RT002", "RT003", "RT004"}
    is_of_job = ("RT3", "RT4", "RT73", "RT74", "RT78")  # variables, start, live

    assert {
        rule.code
        for rule in RULES
        if page_of(rule).bad is None and not rule.code.startswith(is_of_job)
    } == no_content


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert sorted(pages()) == [rule.code for rule in RULES]


def test_codes_are_unique_and_in_their_range() -> None:
    codes = [rule.code for rule in RULES]

    assert len(codes) == len(set(codes))
    for family in FAMILIES:
        of_job = {
            runtime_rules: "34",
            submission_rules: "3",
            doctor_rules: "6",
            preflight_rules: "7",
            pod_rules: "7",
            preflight_pods: "7",
        }
        digits = of_job.get(family, "0125")
        assert all(rule.code[2] in digits for rule in family.RULES)


@pytest.mark.parametrize("name", [*names(), "server-groups"])
def test_what_a_format_declares_is_as_reviewed(
    name: str, request: pytest.FixtureRequest
) -> None:
    is_read = name != "server-groups"
    record = by_name(name).record if is_read else server_groups._TABLE
    file = GOLDEN / "formats" / f"{name}.txt"
    text = "".join(f"{line}\n" for line in outline(record))
    if request.config.getoption("--update-golden"):
        file.write_text(text, "utf-8")

    assert file.read_text("utf-8") == text
