"""A diagnostic before its line and column are known.

Rules say *where in the document* something is wrong; turning that into a line and a
column needs the text, and is done in one pass for the findings that will be shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ranktable.schema.diagnostic import Diagnostic

if TYPE_CHECKING:
    from ranktable.schema.diagnostic import Location, Severity
    from ranktable.schema.document import SourceSpan
    from ranktable.schema.rules.rule import Rule


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
