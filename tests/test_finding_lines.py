"""Findings that are equal but for one number are one line; others stay apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ranktable.report.finding_lines import fold
from ranktable.schema.document import Location
from ranktable.schema.finding import Diagnostic, Severity


def finding(message: str, code: str = "RT703", hint: str | None = None) -> Diagnostic:
    return Diagnostic(code, Severity.ERROR, Location(file="n1"), message, hint)


def told(*found: Diagnostic) -> list[str]:
    return [each.message for each in fold(found)]


def test_eight_chips_with_one_defect_are_one_line() -> None:
    found = [finding(f"chip {chip} of n1 says Alarm") for chip in range(8)]

    assert told(*found) == ["chip 0-7 of n1 says Alarm (8 times)"]
    assert told(*found[:1]) == ["chip 0 of n1 says Alarm"]
    assert told(found[5], found[2]) == ["chip 2, 5 of n1 says Alarm (twice)"]


def test_equal_findings_are_counted() -> None:
    assert told(*[finding("no address")] * 3) == ["no address (3 times)"]


def test_findings_that_differ_in_more_than_a_number_stay_apart() -> None:
    pairs = [
        ("chip 1 has 2 links", "chip 2 has 3 links"),
        ("10.0.0.1 is used", "10.0.0.2 is used"),
        ("n1 is missing", "n2 is missing"),
        ("version 1.0", "version 2.0"),
    ]
    for pair in pairs:
        assert told(*map(finding, pair)) == list(pair)
    assert len(told(finding("a"), finding("a", "RT704"))) == 2
    assert len(told(finding("a"), finding("a", hint="b"))) == 2


@given(st.lists(st.builds(finding, st.from_regex(r"chip [0-9]{1,2}( is bad)?\Z"))))
def test_no_finding_is_lost(found: list[Diagnostic]) -> None:
    folded = [*fold(found)]

    assert sum(each.number for each in folded) == len(found)
    assert {each.first.code for each in folded} == {each.code for each in found}
