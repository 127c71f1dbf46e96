"""The report of what a check found in a file.

Line and column of a finding are computed from the text here, only for the findings that
are shown.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ranktable.schema.document import Location, find_locations
from ranktable.schema.finding import Diagnostic, Findings, RankTableError, Severity
from ranktable.schema.options import Options as Options  # noqa: PLC0414 - one import for callers of a check
from ranktable.schema.rules.shape import OTHER_VENDOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ranktable.schema.columns import Columns
    from ranktable.schema.finding import Finding
    from ranktable.schema.model import RankTable


_UNREADABLE = {"RT001", "RT002", "RT003", "RT004", "RT008"}


class _ReportFields(NamedTuple):
    file: str
    diagnostics: tuple[Diagnostic, ...] = ()
    counts: Mapping[tuple[str, Severity], int] = {}
    format: str | None = None
    data: bytes | None = None
    text: str | None = None
    columns: Columns | None = None
    ignored: Mapping[tuple[str, Severity], int] = {}
    key: str = ""
    beside: tuple[str, ...] = ()


class Report(_ReportFields):
    """What was found in a file.

    Attributes:
        file: Name of the file.
        diagnostics: The defects by place and code; of each code and severity at most
            the limit.
        counts: Number of defects of each code and severity, shown or not.
        format: Name of the format, None when the file is not a rank table.
        data: The bytes that were judged, None when they could not be read.
        text: The text that was judged, None when it could not be read.
        columns: The table, as far as it can be read.
        ignored: Number of defects of each code and severity that an option or a setting
            leaves out.
        key: Key of the ConfigMap in which the table is; empty for a file of its own.
        beside: What else is in the same ConfigMaps and was not judged, by its name.
    """

    def __repr__(self) -> str:
        """Return one line: the bytes and the columns would fill many screens."""
        found = ", ".join(f"{code}: {number}" for code, number in self.totals.items())
        return (
            f"<Report of {self.file!r}: {'sound' if self.ok else 'not sound'}, "
            f"{self.format or 'no format'}, {{{found}}}>"
        )

    @classmethod
    def of(
        cls,
        diagnostics: Iterable[Diagnostic],
        *,
        file: str,
        text: str | None = None,
        format: str | None = None,
        ignored: Mapping[tuple[str, Severity], int] | None = None,
    ) -> Report:
        """Return the report of diagnostics that have their places already."""
        found = tuple(diagnostics)
        return cls(
            file=file,
            diagnostics=found,
            counts=Counter((each.code, each.severity) for each in found),
            format=format,
            text=text,
            ignored=ignored or {},
        )

    @property
    def totals(self) -> dict[str, int]:
        """Number of defects of each code, shown or not."""
        totals: Counter[str] = Counter()
        for (code, _), number in sorted(self.counts.items()):
            totals[code] += number
        return dict(totals)

    @property
    def is_unreadable(self) -> bool:
        """Whether nothing could be judged, because the file is missing or too large."""
        errors = {code for code, each in self.counts if each is Severity.ERROR}
        return bool(errors) and self.text is None and errors <= _UNREADABLE

    @property
    def ok(self) -> bool:
        """Whether the table has no errors; it may have warnings and notes."""
        return self.count(Severity.ERROR) == 0

    def count(self, severity: Severity) -> int:
        """Return the number of defects of a severity, shown or not."""
        return sum(n for (_, each), n in self.counts.items() if each is severity)

    @cached_property
    def table(self) -> RankTable | None:
        """The table if it is sound, else None."""
        if not self.ok or self.columns is None:
            return None
        from ranktable.schema.model import RankTable

        return RankTable.from_columns(self.columns)

    @property
    def is_placeholder(self) -> bool:
        """Whether the file is sound and has no table yet, as RT262 says."""
        return self.ok and self.columns is None and "RT262" in self.totals

    def where_needed(self) -> Report:
        """Return this report where the table is needed: no table is an error then."""
        if not self.is_placeholder:
            return self
        return self._replace(
            diagnostics=tuple(
                each._replace(severity=Severity.ERROR) for each in self.diagnostics
            ),
            counts={(code, Severity.ERROR): n for (code, _), n in self.counts.items()},
        )

    def sound_table(self) -> RankTable:
        """Return the table.

        Raises:
            RankTableError: The table has errors, or there is none yet.
        """
        if self.table is None:
            errors = [
                diagnostic
                for diagnostic in self.where_needed().diagnostics
                if diagnostic.severity is Severity.ERROR
            ]
            message = "this file is sound for its reader, and is not the table of a job"
            other = OTHER_VENDOR.finding(None, message)
            raise RankTableError(errors or [other.diagnostic(Location(self.file))])
        return self.table

    def with_findings(self, found: Findings) -> Report:
        """Return this report with more findings."""
        diagnostics = [*self.diagnostics, *located(found.kept, self.text, self.file)]
        counts = Counter(self.counts)
        counts.update(_by_code(found))
        return self._replace(
            diagnostics=tuple(sorted(diagnostics, key=order_of)),
            counts=dict(counts),
        )

    def only(self, is_wanted: Callable[[str], bool]) -> Report:
        """Return this report with only the codes for which a function is true."""
        return self._replace(
            diagnostics=tuple(d for d in self.diagnostics if is_wanted(d.code)),
            counts={key: n for key, n in self.counts.items() if is_wanted(key[0])},
        )


def make_report(
    found: Findings | Iterable[Finding],
    *,
    file: str,
    text: str | None = None,
    data: bytes | None = None,
    format_name: str | None = None,
    columns: Columns | None = None,
) -> Report:
    """Return the report of findings.

    Args:
        found: The findings.
        file: Name to report.
        text: The text, None if it could not be read.
        data: The bytes, None if they could not be read.
        format_name: Name of the format, None if it is not known.
        columns: The table, as far as it can be read.
    """
    if not isinstance(found, Findings):
        found = Findings(found)
    return Report(
        file=file,
        diagnostics=tuple(located(found.kept, text, file)),
        counts=_by_code(found),
        format=format_name,
        text=text,
        data=data,
        columns=columns,
    )


def _by_code(found: Findings) -> dict[tuple[str, Severity], int]:
    return {(rule.code, weight): n for (rule, weight), n in found.counts.items()}


def located(found: list[Finding], text: str | None, file: str) -> list[Diagnostic]:
    """Return findings as diagnostics with their place in a text, by place and code."""
    if not found:
        return []
    spans = {span for f in found for span in (f.span, *f.related) if span is not None}
    locations = find_locations(text or "", spans, file=file)
    diagnostics = [
        finding.diagnostic(
            Location(file=file) if finding.span is None else locations[finding.span],
            tuple(locations[span] for span in finding.related),
        )
        for finding in found
    ]
    return sorted(diagnostics, key=order_of)


def order_of(diagnostic: Diagnostic) -> tuple[int, int, str]:
    """Return the sort key of a diagnostic in its report: by place and code."""
    location = diagnostic.location
    return location.line or 0, location.column or 0, diagnostic.code
