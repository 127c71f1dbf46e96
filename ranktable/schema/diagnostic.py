"""What a check says about a file: data, never printing and never raising."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ranktable._error import Error

if TYPE_CHECKING:
    from collections.abc import Iterable


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
