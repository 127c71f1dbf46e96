"""What a check says about a file: data, never printing and never raising.

A rule yields findings, which say where in the document something is wrong. Line and
column need the text; a diagnostic has them, for the findings that will be shown.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal

from ranktable._error import Error
from ranktable.schema.files import DEFAULT_MAX_SIZE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ranktable.schema.columns import Columns
    from ranktable.schema.document import SourceSpan
    from ranktable.schema.format import Format
    from ranktable.schema.table_readers import TableReader
    from ranktable.schema.topology import Topology

    Check = Callable[[Columns, "Options"], "Iterator[Finding]"]


class Severity(str, Enum):
    """How much a diagnostic weighs; only an error makes a table unsound."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A place in a file.

    Lines and columns are 1-based and columns count code points. The end is exclusive.
    All four are None when the place has no position, such as a file that is missing.

    Attributes:
        file: Name of the file as the user gave it.
        pointer: JSON Pointer (RFC 6901) of the value, None for a syntax error.
        line: Line of the first character.
        column: Column of the first character.
        end_line: Line of the end.
        end_column: Column after the last character.
        label: What is there, for a related location: ``first use``.
    """

    file: str
    pointer: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    label: str | None = None

    def __str__(self) -> str:
        """Return ``file:line:column``, as far as it is known."""
        if self.line is None:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One defect, with its place and what to do about it.

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
    """A rank table that cannot be used.

    Attributes:
        diagnostics: Everything found, in the order of the file.
    """

    SHOWN = 20  # a log line per rank of a broken table of 100,000 helps nobody

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Keep the diagnostics; their concise forms are the text of the exception."""
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        """Return one line a diagnostic, hints included, at most ``SHOWN`` of them."""
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
    """What a check is told beside the file.

    Attributes:
        chips_per_node: Number of chips of every host, None when unknown.
        npu: Ascend's generation of the chips, such as ``A2``, None when unknown.
        topology: Links between the chips of every host, None when unknown.
        tp: Size of the tensor parallel groups, None when unknown.
        format: Format the file must have, None to detect it.
        reader: The program that will read the file, None when unknown.
        max_size_bytes: Limit of the file.
        limit: Diagnostics of each code to place and show, None for all.
    """

    chips_per_node: int | None = None
    npu: str | None = None
    topology: Topology | None = None
    tp: int | None = None
    format: Format | None = None
    reader: TableReader | None = None
    max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES
    limit: int | None = None


class Refusal(str):
    """What a reader says when it refuses a table, or that it waits in vain."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The one home of a diagnostic code; ``ranktable explain`` prints it.

    Attributes:
        code: Stable, documented, never reused.
        name: The code in words, as SARIF shows it.
        summary: The defect in one line.
        why: What goes wrong and where the rule comes from.
        fix: What to do about it.
        severity: Weight of the diagnostics it yields.
        readers: What each vendor library does with this mistake, a ``Refusal`` where
            it does not go on. ``HCCL`` is its source of August 2026.
        seen_as: Texts under which users meet it and will search for it.
        bad: A smallest file with the defect, None when no content has it.
        good: Its nearest sound neighbour.
        options: Options of ``command`` that the two files need.
        command: The command that finds it: ``validate``, ``convert``, ``merge`` or
            ``mesh``.
        beside: A file that goes before either, where the defect is between two files.
        keys: Keys at the top, of which a table has at least one that breaks the rule.
        check: Yields what breaks the rule in a table; None where a reader finds it.
        is_fast: Whether every process of a job runs the check; what other rules ask
            is compared at once there, see ``fast_decode.is_surely_sound``.
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
    check: Check | None = None
    is_fast: bool = False

    def finding(  # noqa: PLR0913 - the parts of a finding, by name
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
        kind: Replace the value, remove the span's text, or put text in front of it.
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
        weight: Its severity where that is not the one of the rule.
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
        """How bad it is."""
        return self.weight or self.rule.severity

    def diagnostic(
        self, location: Location, related: tuple[Location, ...] = ()
    ) -> Diagnostic:
        """Return the diagnostic, once the places are known."""
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
    """What is left to build for each rule, and how many were left out.

    Attributes:
        omitted: Number of findings of each code that were counted only, with one
            of the rules of that code.
    """

    def __init__(self, limit: int | None = None) -> None:
        """Allow this many findings of each code, None for all."""
        self.limit = limit
        self.built: Counter[str] = Counter()
        self.omitted: dict[str, tuple[Rule, int]] = {}

    def is_used_up(self, rule: Rule) -> bool:
        """Whether findings of a rule are being left out already."""
        return rule.code in self.omitted

    def is_spent(self, rule: Rule) -> bool:
        """Whether the next finding of a rule is to be left out; it is counted."""
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
        """Count findings of a rule that somebody else has left out."""
        _, before = self.omitted.get(rule.code, (rule, 0))
        self.omitted[rule.code] = (rule, before + count)
