"""Findings: what a rule is, and what it says of a place in a file.

A check neither prints nor raises. A rule finds places and tells what is wrong there; a
finding has a path in the document. A diagnostic has line and column too.

Values are named tuples, and no module that every process of a job imports has
dataclasses, because importing these takes 9 ms.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ranktable._error import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ranktable.schema.document import Location, SourceSpan


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
    """The definition of a diagnostic code.

    What it says to people, with its examples, is in ``ranktable/report/pages``.

    A rule about a table has ``find`` and ``tell``: ``find`` yields the places that
    break it, cheap values such as the index of a device, and ``tell`` returns the
    finding of one place. ``tell`` is called only for the places that are shown, and the
    others are counted. Any other rule is reported by the reader that finds the defect,
    with ``finding``.

    Attributes:
        code: Stable, documented, never reused.
        name: The code in words, as SARIF shows it.
        summary: The defect in one line.
        fix: What to do about it.
        severity: The highest severity of its findings. Every process of a job runs the
            rules whose severity is an error.
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
        fix: str,
        severity: Severity = Severity.ERROR,
        find: Callable[[Any, Any], Iterable[Any]] | None = None,
        tell: Callable[[Any, Any], Finding] | None = None,
        severity_of: Callable[[Any, Any], Severity] | None = None,
    ) -> None:
        """Define a code; see the attributes."""
        self.code = code
        self.name = name
        self.summary = summary
        self.fix = fix
        self.severity = severity
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
        line = "" if location.line is None else f" (line {location.line})"
        hint = None if self.hint is None else self.hint.replace(ON_LINE, line)
        return Diagnostic(
            code=self.rule.code,
            severity=self.severity,
            location=location,
            message=self.message,
            hint=hint,
            related=related,
            span=self.span,
            edit=self.edit,
        )


ON_LINE: Final = "\0line"
"""Stands in a hint for the line of the finding, which is known when it is shown."""


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
