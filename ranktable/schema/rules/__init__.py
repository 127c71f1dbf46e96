"""The rules, one file for each family, and how they judge a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.finding import Severity

if TYPE_CHECKING:
    from ranktable.schema.columns import Columns
    from ranktable.schema.finding import Findings
    from ranktable.schema.report import Options


def judge(columns: Columns, options: Options, found: Findings) -> None:
    """Add what the rules of its format find in a table."""
    for rule in columns.format.rules:
        is_error = rule.severity is Severity.ERROR
        if rule.find is None or (options.is_table_wanted and not is_error):
            continue
        for place in rule.find(columns, options):
            if rule.tell is None:
                found.add(place)
                continue
            severity = rule.severity_of and rule.severity_of(columns, place)
            found.tell(rule, rule.tell, columns, place, severity=severity)
