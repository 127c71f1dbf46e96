"""Findings about several files together, and one report for each file."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ranktable.schema.diagnostic import Findings, Location, Report, order_of
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
    """

    def __init__(self, files: Sequence[InputFile], limit: int | None = None) -> None:
        """Keep at most this many findings of each code, None for all."""
        self.files = files
        self.found: list[FileFinding] = []
        self._every = Findings(limit=limit)

    def report(
        self,
        rule: Rule,
        place: FileSpan,
        message: str,
        *,
        hint: str | None = None,
        related: tuple[FileSpan, ...] = (),
    ) -> None:
        """Add a finding of a rule."""
        file, span = place
        self.add(FileFinding(file, rule.finding(span, message, hint=hint), related))

    @property
    def has_errors(self) -> bool:
        """Whether one of them is an error, also if it was not kept."""
        return self._every.has_errors

    def add(self, item: FileFinding) -> None:
        """Add a finding; of each kind the first ones are kept."""
        before = len(self._every.kept)
        self._every.add(item.finding)
        if len(self._every.kept) > before:
            self.found.append(item)

    def add_omitted(self, found: Findings) -> None:
        """Add the counts of findings that were left out elsewhere."""
        self._every.counts.update(found.omitted())

    def reports(self) -> tuple[Report, ...]:
        """Return a report for every file with findings, in the order of the files."""
        locations = self._locations()
        grouped: defaultdict[int, list[Diagnostic]] = defaultdict(list)
        for file, finding, related in self.found:
            diagnostic = finding.diagnostic(
                locations[file, finding.span],
                tuple(locations[place] for place in related),
            )
            grouped[file].append(diagnostic)
        reports = [_report(self.files[at], grouped[at]) for at in sorted(grouped)]
        return tuple(_with_omitted(reports, self._every))

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


def _report(file: InputFile, diagnostics: list[Diagnostic]) -> Report:
    return Report(
        file=file.file,
        diagnostics=tuple(sorted(diagnostics, key=order_of)),
        counts=Counter((each.code, each.severity) for each in diagnostics),
        format=file.format,
        text=file.text,
    )


def _with_omitted(reports: list[Report], every: Findings) -> list[Report]:
    """Add the counts of omitted findings to the last report with the same code."""
    for (rule, severity), number in every.omitted().items():
        index = max(i for i, report in enumerate(reports) if rule.code in report.totals)
        omitted = Findings()
        omitted.omit(rule, number, severity)
        reports[index] = reports[index].with_findings(omitted)
    return reports
