"""The rules, one file for each family, and how they judge a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.finding import Finding, Severity
from ranktable.schema.report import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.columns import Columns
    from ranktable.schema.finding import Findings, Rule


def judge(columns: Columns, options: Options, found: Findings) -> None:
    """Add what the rules of its format find in a table."""
    for rule, place, severity in _breaches(columns, options):
        if rule.tell is None:
            assert isinstance(place, Finding)
            found.add(place)
        else:
            found.tell(rule, rule.tell, columns, place, severity=severity)


def is_sound(columns: Columns) -> bool:
    """Whether a table keeps every rule that makes it unsound."""
    options = Options(is_table_wanted=True)
    breaches = _breaches(columns, options)
    return all(severity is not Severity.ERROR for _, _, severity in breaches)


def _breaches(
    columns: Columns, options: Options
) -> Iterator[tuple[Rule, object, Severity]]:
    """Yield each rule that a table breaks, the place and the severity."""
    for rule in columns.format.rules:
        is_error = rule.severity is Severity.ERROR
        if rule.find is None or (options.is_table_wanted and not is_error):
            continue
        for place in rule.find(columns, options):
            severity = rule.severity
            if rule.severity_of is not None:
                severity = rule.severity_of(columns, place)
            elif isinstance(place, Finding):
                severity = place.severity
            yield rule, place, severity
