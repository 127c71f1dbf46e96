"""Findings about several files together, and one report for each file."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ranktable.schema.diagnostic import Location, Quota, Report, Severity, order_of
from ranktable.schema.document import find_locations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.diagnostic import Diagnostic, Finding, Rule
    from ranktable.schema.document import SourceSpan

    FileSpan = tuple[int, SourceSpan | None]
    """Index of a file and a place in it; None for the place means the whole file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """One of several input files.

    Attributes:
        file: Its name in reports.
        text: Its text, None if it could not be read.
        format: Name of its format, None if it is not a rank table.
        path: Its real path, None if it is not a file.
    """

    file: str
    text: str | None = field(default=None, repr=False)
    format: str | None = None
    path: str | None = None


class FileFinding(NamedTuple):
    """A finding in one file; its related places may be in other files."""

    file: int
    finding: Finding
    related: tuple[FileSpan, ...] = ()


class FileFindings:
    """The findings in several files, at most a given number of each code.

    Attributes:
        files: The files.
        found: The findings, in the order in which they were added.
        has_errors: Whether one of them is an error, also if it was not kept.
    """

    def __init__(self, files: Sequence[InputFile], limit: int | None = None) -> None:
        """Keep at most this many findings of each code, None for all."""
        self.files = files
        self.found: list[FileFinding] = []
        self.has_errors = False
        self._quota = Quota(limit)

    def report(
        self,
        rule: Rule,
        place: FileSpan,
        message: str,
        *,
        hint: str | None = None,
        related: tuple[FileSpan, ...] = (),
    ) -> None:
        """Add a finding of a rule, unless its quota is used up."""
        file, span = place
        self.add(FileFinding(file, rule.finding(span, message, hint=hint), related))

    def add(self, item: FileFinding) -> None:
        """Add a finding, unless the quota of its rule is used up."""
        self.has_errors |= item.finding.severity is Severity.ERROR
        if not self._quota.is_spent(item.finding.rule):
            self.found.append(item)

    def add_omitted(self, quota: Quota) -> None:
        """Add the counts of findings that were left out elsewhere."""
        for rule, count in quota.omitted.values():
            self.has_errors |= rule.severity is Severity.ERROR
            self._quota.omit(rule, count)

    def reports(self) -> tuple[Report, ...]:
        """Return a report for every file with findings, in the order of the files."""
        locations = self._locations()
        grouped: defaultdict[int, list[tuple[Diagnostic, Finding]]] = defaultdict(list)
        for file, finding, related in self.found:
            diagnostic = finding.diagnostic(
                locations[file, finding.span],
                tuple(locations[place] for place in related),
            )
            grouped[file].append((diagnostic, finding))
        reports = [_report(self.files[at], grouped[at]) for at in sorted(grouped)]
        return tuple(_with_omitted(reports, self._quota))

    def _locations(self) -> dict[FileSpan, Location]:
        spans: defaultdict[int, set[SourceSpan]] = defaultdict(set)
        found: dict[FileSpan, Location] = {}
        for item in self.found:
            for file, span in ((item.file, item.finding.span), *item.related):
                if span is None:
                    found[file, None] = Location(file=self.files[file].file)
                else:
                    spans[file].add(span)
        for index, of_file in spans.items():
            source = self.files[index]
            located = find_locations(source.text or "", of_file, file=source.file)
            found.update({(index, span): at for span, at in located.items()})
        return found


def _report(file: InputFile, pairs: list[tuple[Diagnostic, Finding]]) -> Report:
    pairs.sort(key=lambda pair: order_of(pair[0]))
    return Report(
        file=file.file,
        diagnostics=tuple(diagnostic for diagnostic, _ in pairs),
        findings=tuple(finding for _, finding in pairs),
        totals=dict(sorted(Counter(d.code for d, _ in pairs).items())),
        by_severity=dict(Counter(d.severity for d, _ in pairs)),
        format=file.format,
        text=file.text,
    )


def _with_omitted(reports: list[Report], quota: Quota) -> list[Report]:
    """Add the counts of omitted findings to the last report with the same code."""
    for code, (rule, count) in quota.omitted.items():
        index = max(i for i, report in enumerate(reports) if code in report.totals)
        reports[index] = reports[index].with_omitted(rule, count)
    return reports
