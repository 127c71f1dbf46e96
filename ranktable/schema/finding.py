"""A diagnostic before its line and column are known.

Rules say *where in the document* something is wrong; turning that into a line and a
column needs the text, and is done in one pass for the findings that will be shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ranktable.schema.diagnostic import Diagnostic

if TYPE_CHECKING:
    from ranktable.schema.diagnostic import Location
    from ranktable.schema.rules.rule import Rule

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """A place in a document.

    Attributes:
        path: Keys and indices from the root.
        part: The value, the key before it, the last repetition of that key, or the
            first key of that name with its value.
        span: Offsets of the first character and the end in the text, when a parser
            already knows them; they win over the path.
        label: What is there, for a related place.
    """

    path: Path = ()
    part: Literal["value", "key", "repeated key", "first member"] = "value"
    span: tuple[int, int] | None = None
    label: str | None = None

    @property
    def pointer(self) -> str | None:
        """JSON Pointer (RFC 6901) of the path, None for a place in broken syntax."""
        if self.span is not None and not self.path:
            return None
        return "".join(
            "/" + str(step).replace("~", "~0").replace("/", "~1") for step in self.path
        )


@dataclass(frozen=True, slots=True)
class Edit:
    """A safe repair of the text at a spot.

    Attributes:
        kind: Replace the value, remove the spot's text, or put text in front of it.
        text: The new text.
    """

    kind: Literal["replace", "remove", "insert", "remove member"]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A defect that a rule found.

    Attributes:
        rule: The rule, which knows code and severity.
        spot: The narrowest wrong place, or None when there is no document.
        message: What is wrong, with the value found.
        hint: What to do, when that is certain.
        related: Other places involved.
        edit: The safe repair at ``spot``, if there is one.
    """

    rule: Rule
    spot: SourceSpan | None
    message: str
    hint: str | None = None
    related: tuple[SourceSpan, ...] = ()
    edit: Edit | None = None

    def diagnostic(
        self, location: Location, related: tuple[Location, ...] = ()
    ) -> Diagnostic:
        """Return the diagnostic, once the places are known."""
        return Diagnostic(
            code=self.rule.code,
            severity=self.rule.severity,
            location=location,
            message=self.message,
            hint=self.hint,
            related=related,
            fixable=self.edit is not None,
        )
