"""Findings about several files at once, and the reports of all."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ranktable.schema.check import Report
from ranktable.schema.diagnostic import Location, Severity
from ranktable.schema.locate import find_locations
from ranktable.schema.quota import Quota

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.schema.diagnostic import Diagnostic
    from ranktable.schema.document import SourceSpan
    from ranktable.schema.finding import Finding
    from ranktable.schema.rules.rule import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file of several.

    Attributes:
        file: Its name, as it is reported.
        text: Its text, None when it could not be read.
        format: Name of its format, None when it is no rank table.
        path: Its real path, None when it is no file.
    """

    file: str
    text: str | None = field(default=None, repr=False)
    format: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A spot in one of several files.

    Attributes:
        source: Index of the file.
        spot: Where in it, None for the file as a whole.
    """

    source: int
    spot: SourceSpan | None = None


@dataclass(frozen=True, slots=True)
class Remark:
    """A finding whose places may be in different files."""

    finding: Finding
    place: Place
    related: tuple[Place, ...]


class Remarks:
    """What was found so far, at most so many of each code.

    Attributes:
        found: The remarks, in the order in which they were made.
        quota: What is left of each code, and what was only counted.
    """

    def __init__(self, limit: int | None = None) -> None:
        """Keep this many remarks of each code, None for all."""
        self.found: list[Remark] = []
        self.quota = Quota(limit)

    def add(
        self,
        rule: Rule,
        place: Place,
        message: str,
        *,
        hint: str | None = None,
        related: tuple[Place, ...] = (),
    ) -> None:
        """Make a remark, unless there are enough of its rule."""
        self.take(rule.finding(place.spot, message, hint=hint), place, related)

    def take(
        self, finding: Finding, place: Place, related: tuple[Place, ...] = ()
    ) -> None:
        """Keep a finding, unless there are enough of its rule."""
        if not self.quota.is_spent(finding.rule):
            self.found.append(Remark(finding, place, related))

    def take_omitted(self, quota: Quota) -> None:
        """Count what was left out where the findings were made."""
        for rule, count in quota.omitted.values():
            self.quota.omit(rule, count)

    def count(self, severity: Severity) -> int:
        """Return the number of remarks of a severity, kept or not."""
        kept = sum(item.finding.rule.severity is severity for item in self.found)
        omitted = self.quota.omitted.values()
        return kept + sum(count for rule, count in omitted if rule.severity is severity)

    @property
    def has_errors(self) -> bool:
        """Whether any of them is an error."""
        return self.count(Severity.ERROR) > 0


def reports_of(sources: Sequence[Source], remarks: Remarks) -> tuple[Report, ...]:
    """Return a report for every file that a remark is about, in their order."""
    places = _locations(sources, remarks.found)
    grouped: defaultdict[int, list[tuple[Diagnostic, Finding]]] = defaultdict(list)
    for remark in remarks.found:
        diagnostic = remark.finding.diagnostic(
            places[remark.place], tuple(places[place] for place in remark.related)
        )
        grouped[remark.place.source].append((diagnostic, remark.finding))
    reports = [_report(sources[index], grouped[index]) for index in sorted(grouped)]
    return tuple(_with_omitted(reports, remarks.quota))


def _locations(
    sources: Sequence[Source], remarks: Iterable[Remark]
) -> dict[Place, Location]:
    spots: defaultdict[int, set[SourceSpan]] = defaultdict(set)
    wanted: set[Place] = set()
    for remark in remarks:
        wanted.update((remark.place, *remark.related))
    for place in wanted:
        if place.spot is not None:
            spots[place.source].add(place.spot)
    found = {
        (index, spot): location
        for index, of_file in spots.items()
        for spot, location in find_locations(
            sources[index].text or "", of_file, file=sources[index].file
        ).items()
    }
    return {
        place: Location(file=sources[place.source].file)
        if place.spot is None
        else found[place.source, place.spot]
        for place in wanted
    }


def _report(source: Source, pairs: list[tuple[Diagnostic, Finding]]) -> Report:
    pairs.sort(key=lambda pair: _order(pair[0]))
    return Report(
        file=source.file,
        diagnostics=tuple(diagnostic for diagnostic, _ in pairs),
        findings=tuple(finding for _, finding in pairs),
        totals=dict(sorted(Counter(d.code for d, _ in pairs).items())),
        by_severity=dict(Counter(d.severity for d, _ in pairs)),
        format=source.format,
        text=source.text,
    )


def _order(diagnostic: Diagnostic) -> tuple[int, int, str]:
    location = diagnostic.location
    return location.line or 0, location.column or 0, diagnostic.code


def _with_omitted(reports: list[Report], quota: Quota) -> list[Report]:
    """Count what was left out of each code in the last report that has the code."""
    for code, (rule, count) in quota.omitted.items():
        index = max(i for i, report in enumerate(reports) if code in report.totals)
        report = reports[index]
        weight = rule.severity
        reports[index] = replace(
            report,
            totals={**report.totals, code: report.totals[code] + count},
            by_severity={**report.by_severity, weight: report.count(weight) + count},
        )
    return reports
