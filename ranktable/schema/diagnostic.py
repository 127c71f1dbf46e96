"""Findings, diagnostics and reports: a check neither prints nor raises.

A rule yields findings, which have a path in the document. A diagnostic also has line
and column; these are computed from the text, for the findings that will be shown. The
report of a file has both. The functions at the end format values for messages.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from ranktable._error import Error
from ranktable.schema.files import DEFAULT_MAX_SIZE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ranktable.schema.columns import Columns
    from ranktable.schema.document import SourceSpan
    from ranktable.schema.format import Format
    from ranktable.schema.model import RankTable
    from ranktable.schema.table_readers import TableReader
    from ranktable.schema.topology import Topology

    Check = Callable[[Columns, "Options"], "Iterator[Finding]"]


class Severity(str, Enum):
    """How serious a diagnostic is; only an error makes a table unsound."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A place in a file.

    Lines and columns are 1-based and columns count code points. The end is exclusive.
    All four are None if there is no position, for example if the file is missing.

    Attributes:
        file: Name of the file as the user gave it.
        pointer: JSON Pointer (RFC 6901) of the value, None for a syntax error.
        line: Line of the first character.
        column: Column of the first character.
        end_line: Line of the end.
        end_column: Column after the last character.
        label: A short description, for a related location: ``first use``.
    """

    file: str
    pointer: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    label: str | None = None

    def __str__(self) -> str:
        """Return ``file:line:column``, or as much of it as is known."""
        if self.line is None:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One defect, with its place and a hint.

    Attributes:
        code: Stable code such as ``RT202``; ``ranktable explain`` documents it.
        severity: Error, warning or note.
        location: The narrowest wrong value.
        message: What is wrong, with the value found; one sentence, readable alone.
        hint: What to do, when that is certain.
        related: Other places involved, such as the first use of a duplicated rank.
        fixable: Whether ``ranktable validate --fix`` repairs it.
    """

    code: str
    severity: Severity
    location: Location
    message: str
    hint: str | None = None
    related: tuple[Location, ...] = ()
    fixable: bool = False

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


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a check.

    Attributes:
        chips_per_node: Number of chips of every host, None if it is not known.
        npu: Ascend's generation of the chips, such as ``A2``, None if it is not known.
        topology: Links between the chips of every host, None if they are not known.
        tp: Size of the tensor parallel groups, None if it is not known.
        format: Format the file must have, None to detect it.
        reader: The program that will read the file, None if it is not known.
        max_size_bytes: Largest file to read.
        limit: Most diagnostics of each code to locate and show, None for all.
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

    @property
    def describe_hosts(self) -> bool:
        """Whether they describe the hosts, so that a table may contradict them."""
        said = (self.chips_per_node, self.npu, self.topology, self.tp)
        return said != (None, None, None, None)


class Refusal(str):
    """What a reader does with a defect if it refuses the table or waits forever."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The definition of a diagnostic code; ``ranktable explain`` prints it.

    Attributes:
        code: Stable, documented, never reused.
        name: The code in words, as SARIF shows it.
        summary: The defect in one line.
        why: What goes wrong and where the rule comes from.
        fix: What to do about it.
        severity: Severity of the diagnostics that it yields.
        readers: What each vendor library does with this mistake; a ``Refusal`` if it
            stops there. ``HCCL`` is its source of August 2026.
        seen_as: Messages that users see and will search for.
        bad: A smallest file with the defect, None if no content has it.
        good: The most similar sound file.
        options: Options of ``command`` that the two files need.
        command: The command that finds it: ``validate``, ``convert``, ``merge`` or
            ``mesh``.
        beside: A file that is given before the other, if the defect is between two.
        keys: Keys at the top; a table that breaks the rule has at least one of them.
        column: A part of ``Columns`` that is empty if a table keeps the rule.
        check: Yields what breaks the rule in a table; None if a reader finds it.
        is_fast: Whether every process of a job runs the check. The other rules are
                tested there by one comparison, see ``Columns.is_surely_sound``.
    """

    code: str
    name: str
    summary: str
    why: str
    fix: str
    severity: Severity = Severity.ERROR
    readers: Mapping[str, str] = field(default_factory=dict)
    seen_as: tuple[str, ...] = ()
    bad: bytes | None = None
    good: bytes | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    command: str = "validate"
    beside: bytes | None = None
    keys: tuple[str, ...] = ()
    column: str = ""
    check: Check | None = None
    is_fast: bool = False

    @property
    def is_advice(self) -> bool:
        """Whether it is about placement; it is then never an error."""
        return self.code.startswith("RT5") and self.severity is not Severity.ERROR

    def finding(
        self,
        span: SourceSpan | None,
        message: str,
        *,
        hint: str | None = None,
        related: tuple[SourceSpan, ...] = (),
        edit: Edit | None = None,
        weight: Severity | None = None,
    ) -> Finding:
        """Return a finding of this rule."""
        return Finding(self, span, message, hint, related, edit, weight)


@dataclass(frozen=True, slots=True)
class Edit:
    """A safe repair of the text at a span.

    Attributes:
        kind: Replace the value, remove the text of the span, or insert text before it.
        text: The new text.
    """

    kind: Literal["replace", "remove", "insert", "remove member"]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A defect that a rule found.

    Attributes:
        rule: The rule, which knows code and severity.
        span: The narrowest wrong place, or None when there is no document.
        message: What is wrong, with the value found.
        hint: What to do, when that is certain.
        related: Other places involved.
        edit: The safe repair at ``span``, if there is one.
        weight: Its severity, if it is not the one of the rule.
    """

    rule: Rule
    span: SourceSpan | None
    message: str
    hint: str | None = None
    related: tuple[SourceSpan, ...] = ()
    edit: Edit | None = None
    weight: Severity | None = None

    @property
    def severity(self) -> Severity:
        """Severity of the finding."""
        return self.weight or self.rule.severity

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
            fixable=self.edit is not None,
        )


class Quota:
    """How many findings of each rule are built, and how many are left out.

    Attributes:
        omitted: Number of findings of each code that were only counted, with one rule
            of that code.
    """

    def __init__(self, limit: int | None = None) -> None:
        """Allow this many findings of each code, None for all."""
        self.limit = limit
        self.built: Counter[str] = Counter()
        self.omitted: dict[str, tuple[Rule, int]] = {}

    def is_used_up(self, rule: Rule) -> bool:
        """Whether the next finding of a rule would be left out."""
        return rule.code in self.omitted

    def is_spent(self, rule: Rule) -> bool:
        """Count a finding of a rule, and return whether it is left out."""
        if self.limit is None:
            return False
        code = rule.code
        if self.built[code] < self.limit:
            self.built[code] += 1
            return False
        _, count = self.omitted.get(code, (rule, 0))
        self.omitted[code] = (rule, count + 1)
        return True

    def omit(self, rule: Rule, count: int) -> None:
        """Count findings of a rule that were not built."""
        _, before = self.omitted.get(rule.code, (rule, 0))
        self.omitted[rule.code] = (rule, before + count)

    def spend(self, other: Quota) -> None:
        """Add the counts of another quota with the same limit."""
        self.built.update(other.built)
        for rule, count in other.omitted.values():
            self.omit(rule, count)


NO_QUOTA = Quota()
"""A quota without a limit; it counts nothing, so it can be shared."""


_UNREADABLE = {"RT001", "RT002", "RT003", "RT004"}


@dataclass(frozen=True, kw_only=True)
class Report:
    """The findings of a check.

    Attributes:
        file: Name of the file.
        diagnostics: The defects by place and code, of each code at most the limit.
        totals: Number of defects of each code, also of those that are not shown.
        format: Name of the format, None when the file is not a rank table.
        data: The bytes that were judged, None when they could not be read.
        text: The text that was judged, None when it could not be read.
        findings: The findings behind the diagnostics, in the same order.
        columns: The table, as far as it can be read.
        by_severity: Number of defects of each severity, also of those not shown.
        num_ignored: Number of defects that are left out by a setting.
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
        """Whether nothing could be judged, because the file is missing or too large."""
        return not self.ok and self.text is None and self.totals.keys() <= _UNREADABLE

    @property
    def ok(self) -> bool:
        """Whether the table has no errors; it may have warnings and notes."""
        return self.count(Severity.ERROR) == 0

    def count(self, severity: Severity) -> int:
        """Return the number of defects of a severity, also of those not shown."""
        return self.by_severity.get(severity, 0)

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

    def with_findings(self, rule: Rule, found: list[Finding], count: int) -> Report:
        """Return this report with findings of one more rule.

        Args:
            rule: The rule.
            found: The findings that are shown.
            count: How many there are.
        """
        pairs = _placed(found, self.text, self.file)
        pairs += zip(self.findings, self.diagnostics, strict=True)
        pairs.sort(key=lambda pair: order_of(pair[1]))
        report = replace(
            self,
            findings=tuple(finding for finding, _ in pairs),
            diagnostics=tuple(diagnostic for _, diagnostic in pairs),
        )
        return report.with_omitted(rule, count)

    def with_omitted(self, rule: Rule, count: int) -> Report:
        """Return this report with more findings of a rule, which are only counted."""
        code, severity = rule.code, rule.severity
        total = self.totals.get(code, 0) + count
        return replace(
            self,
            totals=dict(sorted({**self.totals, code: total}.items())),
            by_severity={**self.by_severity, severity: self.count(severity) + count},
        )


def make_report(
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
        found: The findings; of each code at least as many as the quota allows.
        file: Name to report.
        text: The text, None if it could not be read.
        data: The bytes, None if they could not be read.
        format_name: Name of the format, None if it is not known.
        columns: The table, as far as it can be read.
        quota: How many findings of each code to show, and how many were only counted.
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
    """Return the severity of findings that were only counted: that of shown ones."""
    shown = {finding.severity for finding in kept if finding.rule is rule}
    return shown.pop() if len(shown) == 1 else rule.severity


def _placed(
    found: list[Finding], text: str | None, file: str
) -> list[tuple[Finding, Diagnostic]]:
    """Return the findings as diagnostics, by place and code."""
    if not found:
        return []
    spans = {span for f in found for span in (f.span, *f.related) if span is not None}
    from ranktable.schema.document import find_locations

    locations = find_locations(text or "", spans, file=file)
    pairs = [(finding, _diagnostic(finding, locations, file)) for finding in found]
    pairs.sort(key=lambda pair: order_of(pair[1]))
    return pairs


def _diagnostic(
    finding: Finding, locations: Mapping[SourceSpan, Location], file: str
) -> Diagnostic:
    span = finding.span
    return finding.diagnostic(
        Location(file=file) if span is None else locations[span],
        tuple(locations[other] for other in finding.related),
    )


def order_of(diagnostic: Diagnostic) -> tuple[int, int, str]:
    """Return the sort key of a diagnostic in its report: by place and code."""
    location = diagnostic.location
    return location.line or 0, location.column or 0, diagnostic.code


MAX_VALUE_LENGTH = 60
"""Most characters of a value in a message; the excerpt shows the rest."""

_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def quoted(value: object) -> str:
    """Return a value as JSON, shortened, on one line and without control characters.

    >>> quoted("5"), quoted(5), quoted([1, 2]), quoted("x" * 99)[-8:]
    ('"5"', '5', 'a list', 'xxxx..."')
    """
    if isinstance(value, (dict, list)) or type(value) not in _KINDS:
        return _KINDS.get(type(value), "a number")
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > MAX_VALUE_LENGTH:
        text = text[:MAX_VALUE_LENGTH] + '..."'
    return printable(text)


def printable(text: str) -> str:
    r"""Return text in which everything that could control a terminal is escaped.

    Control characters, surrogates and invisible marks, such as those that change the
    direction of writing, are not printable in Python's sense.

    >>> printable("a\x1b[31mb\u202ec")
    'a\\x1b[31mb\\u202ec'
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )


def times(count: int) -> str:
    """Return ``twice``, ``3 times`` and so on."""
    return "twice" if count == 2 else f"{count} times"


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """Return ``1 node``, ``2 nodes``."""
    return f"{count} {singular if count == 1 else plural or plural_of(singular)}"


def plural_of(name: str) -> str:
    """Return ``racks``, ``switches`` or ``chassis``."""
    if name.endswith("s"):
        return name
    return f"{name}{'es' if name.endswith(('ch', 'sh', 'x')) else 's'}"


def fold_numbers(numbers: Iterable[int]) -> str:
    """Return numbers in their order, runs of three or more as ranges.

    >>> fold_numbers([0, 1, 2, 3]), fold_numbers([0, 2, 6, 7]), fold_numbers([3, 2, 1])
    ('0-3', '0,2,6,7', '3-1')
    """
    return ",".join(_runs(list(numbers)))


def folded(numbers: Iterable[int], limit: int = 8) -> str:
    """Return the first numbers for a sentence, with runs as ranges.

    >>> folded([0, 1, 2, 3, 5, 8, 9])
    '0-3, 5, 8, 9'
    """
    runs = list(_runs(list(numbers)))
    return ", ".join(runs[:limit]) + (", ..." if len(runs) > limit else "")


def named_ranks(ranks: list[int]) -> str:
    """Return ranks as the subject of a sentence: ``rank 3``, ``the ranks 3, 5``."""
    return f"{'rank' if len(ranks) == 1 else 'the ranks'} {folded(ranks)}"


def _runs(numbers: list[int]) -> Iterator[str]:
    """Yield runs that count up or down by one, and the numbers between them."""
    at = 0
    while at < len(numbers):
        ends = [_run_end(numbers, at, step) for step in (1, -1)]
        end = max(ends)
        if end - at > 1:
            yield f"{numbers[at]}-{numbers[end]}"
        else:
            end = at
            yield str(numbers[at])
        at = end + 1


def _run_end(numbers: list[int], at: int, step: int) -> int:
    while at + 1 < len(numbers) and numbers[at + 1] == numbers[at] + step:
        at += 1
    return at
