"""Findings about a job as plain data, for its store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.preflight import rules
from ranktable.schema.document import Location
from ranktable.schema.finding import Diagnostic, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

BY_CODE = {rule.code: rule for rule in rules.RULES}


def as_data(finding: Finding) -> list[Any]:
    """Return a finding as plain data."""
    return [finding.rule.code, finding.severity.value, finding.message, finding.hint]


def as_finding(data: Sequence[Any]) -> Finding:
    """Return the finding of ``as_data``."""
    code, severity, message, hint = data
    rule = BY_CODE[code]
    return rule.finding(None, message, hint=hint, severity=Severity(severity))


def diagnostics_of(found: Sequence[Finding]) -> tuple[Diagnostic, ...]:
    """Return findings about a job, in the order of their codes."""
    located = (each.diagnostic(Location(file="job")) for each in found)
    advised = (
        each._replace(hint=each.hint or BY_CODE[each.code].fix)
        if each.severity is not Severity.NOTE
        else each
        for each in located
    )
    return tuple(sorted(advised, key=lambda each: each.code))
