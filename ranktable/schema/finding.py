"""Findings: what a rule is, what it says of a place in a file, and the report of all.

A check neither prints nor raises. A rule finds places and tells what is wrong there; a
finding has a path in the document. A diagnostic has line and column too, which are
computed from the text, only for the findings that are shown.

Values are named tuples, and no module that every process of a job imports has
dataclasses, because importing these takes 9 ms.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ranktable._error import Error
from ranktable.schema.document import Location, find_locations
from ranktable.schema.files import DEFAULT_MAX_SIZE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ranktable.schema.columns import Columns
    from ranktable.schema.declare import Format
    from ranktable.schema.document import SourceSpan
    from ranktable.schema.model import RankTable
    from ranktable.schema.table_readers import TableReader
    from ranktable.schema.topology import Topology


class Severity(str, Enum):
    """How serious a diagnostic is; only an error makes a table unsound."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Edit(NamedTuple):
    """A safe repair of the text at a span.

    Attributes:
        kind: Replace the value, remove the text of the span, insert text before it, or
            remove the first member of that name.
        text: The new text.
    """

    kind: Literal["replace", "remove", "insert", "remove member"]
    text: str = ""


class Diagnostic(NamedTuple):
    """One defect, with its place and a hint.

    Attributes:
        code: Stable code such as ``RT202``; ``ranktable explain`` documents it.
        severity: Error, warning or note.
        location: The narrowest wrong value.
        message: What is wrong, with the value found; one sentence, readable alone.
        hint: What to do, when that is certain.
        related: Other places involved, such as the first use of a duplicated rank.
        span: The place in the document, None if there is no document.
        edit: The safe repair at ``span``, None if there is none.
    """

    code: str
    severity: Severity
    location: Location
    message: str
    hint: str | None = None
    related: tuple[Location, ...] = ()
    span: SourceSpan | None = None
    edit: Edit | None = None

    @property
    def fixable(self) -> bool:
        """Whether ``ranktable validate --fix`` repairs it."""
        return self.edit is not None

    def __str__(self) -> str:
        """Return the concise form: ``file:line:column: CODE message``."""
        return f"{self.location}: {self.code} {self.message}"


class RankTableError(Error, ValueError):
    """A rank table that cannot be used; its text is one line for each diagnostic.

    Attributes:
        diagnostics: Everything found, in the order of the file.
    """

    SHOWN = 20  # 100,000 lines in the log of every rank would not help

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Store the diagnostics."""
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        """Return one line for each diagnostic and its hint, at most ``SHOWN`` lines."""
        lines = []
        for diagnostic in self.diagnostics[: self.SHOWN]:
            lines.append(str(diagnostic))
            if diagnostic.hint is not None:
                lines.append(f"  help: {diagnostic.hint}")
        left_out = len(self.diagnostics) - self.SHOWN
        if left_out > 0:
            lines.append(f"... and {left_out} more")
        return "\n".join(lines)


class Rule:
    """The definition of a diagnostic code; ``ranktable explain`` prints it.

    A rule about a table has ``find`` and ``tell``: ``find`` yields the places that
    break it, cheap values such as the index of a device, and ``tell`` returns the
    finding of one place. ``tell`` is called only for the places that are shown, and the
    others are counted. Any other rule is reported by the reader that finds the defect,
    with ``finding``.

    Attributes:
        code: Stable, documented, never reused.
        name: The code in words, as SARIF shows it.
        summary: The defect in one line.
        why: What goes wrong and where the rule comes from.
        fix: What to do about it.
        severity: The highest severity of its findings. Every process of a job runs the
            rules whose severity is an error.
        readers: What each vendor library does with this mistake. ``HCCL`` is its
            source of August 2026.
        seen_as: Messages that users see and will search for.
        bad: A smallest file with the defect, None if no content has it.
        good: The most similar sound file.
        options: Options of ``command`` that the two files need.
        command: The command that finds it: ``validate``, ``convert``, ``merge`` or
            ``mesh``.
        beside: A file that is given before the other, if the defect is between two.
        find: Yields the places that break it, given ``Columns`` and ``Options``. It
            compares whole lists first, so that 100,000 sound ranks take a millisecond.
        tell: Returns the finding of one place, given ``Columns`` and the place; None if
            ``find`` yields the findings themselves, because there are few.
        severity_of: Returns the severity of one place, if they differ.
    """

    def __init__(
        self,
        *,
        code: str,
        name: str,
        summary: str,
        why: str,
        fix: str,
        severity: Severity = Severity.ERROR,
        readers: Mapping[str, str] = {},
        seen_as: tuple[str, ...] = (),
        bad: bytes | None = None,
        good: bytes | None = None,
        options: Mapping[str, str] = {},
        command: str = "validate",
        beside: bytes | None = None,
        find: Callable[[Any, Any], Iterable[Any]] | None = None,
        tell: Callable[[Any, Any], Finding] | None = None,
        severity_of: Callable[[Any, Any], Severity] | None = None,
    ) -> None:
        """Define a code; see the attributes."""
        self.code = code
        self.name = name
        self.summary = summary
        self.why = why
        self.fix = fix
        self.severity = severity
        self.readers = readers
        self.seen_as = seen_as
        self.bad = bad
        self.good = good
        self.options = options
        self.command = command
        self.beside = beside
        self.find = find
        self.tell = tell
        self.severity_of = severity_of

    def __repr__(self) -> str:
        """Return the code and the name."""
        return f"Rule({self.code} {self.name})"

    def finding(
        self,
        span: SourceSpan | None,
        message: str,
        *,
        hint: str | None = None,
        related: tuple[SourceSpan, ...] = (),
        edit: Edit | None = None,
        severity: Severity | None = None,
    ) -> Finding:
        """Return a finding of this rule, with its severity if no other is given."""
        severity = severity or self.severity
        return Finding(self, span, message, hint, related, edit, severity)


class Finding(NamedTuple):
    """A defect that a rule found.

    Attributes:
        rule: The rule.
        span: The narrowest wrong place, or None when there is no document.
        message: What is wrong, with the value found.
        hint: What to do, when that is certain.
        related: Other places involved.
        edit: The safe repair at ``span``, if there is one.
        severity: Its severity.
    """

    rule: Rule
    span: SourceSpan | None
    message: str
    hint: str | None
    related: tuple[SourceSpan, ...]
    edit: Edit | None
    severity: Severity

    def diagnostic(
        self, location: Location, related: tuple[Location, ...] = ()
    ) -> Diagnostic:
        """Return the diagnostic, given the locations."""
        return Diagnostic(
            code=self.rule.code,
            severity=self.severity,
            location=location,
            message=self.message,
            hint=self.hint,
            related=related,
            span=self.span,
            edit=self.edit,
        )


class Findings:
    """The findings of a check: the first of each kind, and how many there are.

    A kind is a rule with a severity. What is more than the limit is only counted.

    Attributes:
        kept: The findings to show, in the order in which they were added.
        counts: Number of findings of each kind, also of those that are not kept.
        limit: Most findings of each kind to keep, None for all.
    """

    def __init__(
        self, found: Iterable[Finding] = (), *, limit: int | None = None
    ) -> None:
        """Start with some findings."""
        self.kept: list[Finding] = []
        self.counts: Counter[tuple[Rule, Severity]] = Counter()
        self.limit = limit
        self.add(*found)

    def __bool__(self) -> bool:
        """Whether anything was found."""
        return bool(self.counts)

    def __iter__(self) -> Iterator[Finding]:
        """Return an iterator over the findings that are kept."""
        return iter(self.kept)

    @property
    def has_errors(self) -> bool:
        """Whether one of the findings is an error, kept or not."""
        return any(severity is Severity.ERROR for _, severity in self.counts)

    def add(self, *found: Finding) -> None:
        """Add findings; of each kind the first ones are kept."""
        for finding in found:
            if self._is_kept(finding.rule, finding.severity):
                self.kept.append(finding)

    def tell(
        self,
        rule: Rule,
        tell: Callable[..., Finding],
        *place: object,
        severity: Severity | None = None,
    ) -> None:
        """Add a finding, which ``tell(*place)`` makes only if it is kept.

        Args:
            rule: The rule.
            tell: Makes the finding.
            place: What it needs to know.
            severity: Its severity, if that is not the one of the rule.
        """
        severity = severity or rule.severity
        if self._is_kept(rule, severity):
            finding = tell(*place)
            if finding.severity is not severity:
                finding = finding._replace(severity=severity)
            self.kept.append(finding)

    def omit(self, rule: Rule, number: int, severity: Severity | None = None) -> None:
        """Count findings that nobody has made."""
        if number:
            self.counts[rule, severity or rule.severity] += number

    def extend(self, other: Findings) -> None:
        """Add the findings of another collection and what it has only counted."""
        self.add(*other.kept)
        self.counts.update(other.omitted())

    def omitted(self) -> Counter[tuple[Rule, Severity]]:
        """Return how many findings of each kind are counted and not kept."""
        kept = Counter((finding.rule, finding.severity) for finding in self.kept)
        return self.counts - kept

    def weighed(self, weigh: Callable[[Rule, Severity], Severity]) -> Findings:
        """Return these findings with the severities that a function gives them."""
        weighed = Findings(limit=self.limit)
        for finding in self.kept:
            severity = weigh(finding.rule, finding.severity)
            weighed.kept.append(finding._replace(severity=severity))
        for (rule, severity), number in self.counts.items():
            weighed.counts[rule, weigh(rule, severity)] += number
        return weighed

    def _is_kept(self, rule: Rule, severity: Severity) -> bool:
        """Count a finding of a kind, and return whether it is kept."""
        self.counts[rule, severity] += 1
        return self.limit is None or self.counts[rule, severity] <= self.limit


class Options(NamedTuple):
    """Options of a check.

    Attributes:
        chips_per_node: Number of chips of every host, None if it is not known.
        npu: Ascend's generation of the chips, such as ``A2``, None if it is not known.
        topology: Links between the chips of every host, None if they are not known.
        tp: Size of the tensor parallel groups, None if it is not known.
        format: Format the file must have, None to detect it.
        reader: The program that will read the file, None if it is not known.
        max_size_bytes: Largest file to read.
        limit: Most diagnostics of each code and severity to locate and show, None for
            all.
        is_table_wanted: Whether only the table is needed. If it has no errors, other
            findings are left out, because it takes long to locate them in a large file.
    """

    chips_per_node: int | None = None
    npu: str | None = None
    topology: Topology | None = None
    tp: int | None = None
    format: Format | None = None
    reader: TableReader | None = None
    max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES
    limit: int | None = None
    is_table_wanted: bool = False


_UNREADABLE = {"RT001", "RT002", "RT003", "RT004", "RT008"}


class _ReportFields(NamedTuple):
    file: str
    diagnostics: tuple[Diagnostic, ...] = ()
    counts: Mapping[tuple[str, Severity], int] = {}
    format: str | None = None
    data: bytes | None = None
    text: str | None = None
    columns: Columns | None = None
    num_ignored: int = 0
    key: str = ""


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
        num_ignored: Number of defects that are left out by a setting.
        key: Key of the ConfigMap in which the table is; empty for a file of its own.
    """

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
        return not self.ok and self.text is None and self.totals.keys() <= _UNREADABLE

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

    def sound_table(self) -> RankTable:
        """Return the table.

        Raises:
            RankTableError: The table has errors.
        """
        if self.table is None:
            raise RankTableError(
                diagnostic
                for diagnostic in self.diagnostics
                if diagnostic.severity is Severity.ERROR
            )
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
