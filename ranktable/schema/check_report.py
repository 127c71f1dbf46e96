"""What a check found in one file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ranktable.schema.diagnostic import Location, RankTableError, Severity
from ranktable.schema.document import find_locations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ranktable.schema.columns import Columns
    from ranktable.schema.diagnostic import Diagnostic, Finding, Quota, Rule
    from ranktable.schema.document import SourceSpan
    from ranktable.schema.model import RankTable

_UNREADABLE = {"RT001", "RT002", "RT003", "RT004"}


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a check found.

    Attributes:
        file: Name of the file.
        diagnostics: The defects by place and code, as many of each code as asked for.
        totals: Number of defects of each code, shown or not.
        format: Name of the format, None when the file is not a rank table.
        data: The bytes that were judged, None when they could not be read.
        text: The text that was judged, None when it could not be read.
        findings: The findings behind the diagnostics, in the same order.
        columns: The table as far as it was readable.
        by_severity: Number of defects of each severity, shown or not.
        num_ignored: Number of defects that a setting leaves out of all of this.
    """

    file: str
    diagnostics: tuple[Diagnostic, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    format: str | None = None
    data: bytes | None = field(default=None, repr=False)
    text: str | None = field(default=None, repr=False)
    findings: tuple[Finding, ...] = field(default=(), repr=False)
    columns: Columns | None = field(default=None, repr=False)
    by_severity: Mapping[Severity, int] = field(default_factory=dict)
    num_ignored: int = 0

    @property
    def is_unreadable(self) -> bool:
        """Whether there was nothing to judge: a missing file, a pipe, too large."""
        return not self.ok and self.text is None and self.totals.keys() <= _UNREADABLE

    @property
    def ok(self) -> bool:
        """Whether the table is sound: there may be warnings and notes, no error."""
        return self.count(Severity.ERROR) == 0

    def count(self, severity: Severity) -> int:
        """Return the number of defects of a severity, shown or not."""
        return self.by_severity.get(severity, 0)

    @cached_property
    def table(self) -> RankTable | None:
        """The table if it is sound, else None."""
        if not self.ok or self.columns is None:
            return None
        from ranktable.schema.model import RankTable  # noqa: PLC0415 - not for CLI

        return RankTable.from_columns(self.columns)

    def sound_table(self) -> RankTable:
        """Return the table.

        Raises:
            RankTableError: There are errors.
        """
        if self.table is None:
            raise RankTableError(
                diagnostic
                for diagnostic in self.diagnostics
                if diagnostic.severity is Severity.ERROR
            )
        return self.table

    def with_finding(self, finding: Finding) -> Report:
        """Return this report with one more finding, about the file as a whole."""
        code, severity = finding.rule.code, finding.severity
        pairs = _placed([finding], self.text, self.file)
        return replace(
            self,
            findings=(finding, *self.findings),
            diagnostics=(*(item for _, item in pairs), *self.diagnostics),
            totals=dict(sorted({**self.totals, code: 1}.items())),
            by_severity={**self.by_severity, severity: self.count(severity) + 1},
        )


def make_report(  # noqa: PLR0913 - the parts of a report, by name
    found: Iterable[Finding],
    *,
    file: str,
    text: str | None = None,
    data: bytes | None = None,
    format_name: str | None = None,
    columns: Columns | None = None,
    quota: Quota | None = None,
) -> Report:
    """Return the report of findings.

    Args:
        found: What was found, of each code as many as the quota allows or more.
        file: Name to report.
        text: The text, None if it could not be read.
        data: The bytes.
        format_name: What kind of file it is, None if that is not known.
        columns: The table as far as it was readable.
        quota: How many of each code to show, and what was only counted.
    """
    totals: Counter[str] = Counter()
    weights: Counter[Severity] = Counter()
    kept = []
    limit = quota.limit if quota is not None else None
    for finding in found:
        code = finding.rule.code
        totals[code] += 1
        weights[finding.severity] += 1
        if limit is None or totals[code] <= limit:
            kept.append(finding)
    for code, (rule, count) in (quota.omitted if quota is not None else {}).items():
        totals[code] += count
        weights[_weight_of_omitted(rule, kept)] += count
    pairs = _placed(kept, text, file)
    return Report(
        file=file,
        diagnostics=tuple(diagnostic for _, diagnostic in pairs),
        findings=tuple(finding for finding, _ in pairs),
        totals=dict(sorted(totals.items())),
        format=format_name,
        text=text,
        data=data,
        columns=columns,
        by_severity=dict(weights),
    )


def _weight_of_omitted(rule: Rule, kept: list[Finding]) -> Severity:
    """Return the severity of findings that were counted only: that of the shown."""
    shown = {finding.severity for finding in kept if finding.rule is rule}
    return shown.pop() if len(shown) == 1 else rule.severity


def _placed(
    found: list[Finding], text: str | None, file: str
) -> list[tuple[Finding, Diagnostic]]:
    """Return the findings as diagnostics, by place and code."""
    if not found:
        return []
    spans = {span for f in found for span in (f.span, *f.related) if span is not None}
    locations = find_locations(text or "", spans, file=file)
    pairs = [(finding, _diagnostic(finding, locations, file)) for finding in found]
    pairs.sort(key=lambda pair: _order(pair[1]))
    return pairs


def _diagnostic(
    finding: Finding, locations: Mapping[SourceSpan, Location], file: str
) -> Diagnostic:
    span = finding.span
    return finding.diagnostic(
        Location(file=file) if span is None else locations[span],
        tuple(locations[other] for other in finding.related),
    )


def _order(diagnostic: Diagnostic) -> tuple[int, int, str]:
    location = diagnostic.location
    return location.line or 0, location.column or 0, diagnostic.code
