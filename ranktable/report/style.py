"""Colour for terminals that want it; without it, the same text."""

from __future__ import annotations

from dataclasses import dataclass

_CODES = {
    "bold": "1",
    "error": "1;31",
    "warning": "1;33",
    "note": "1;36",
    "help": "1;32",
    "place": "36",
    "gutter": "34",
    "removed": "31",
    "added": "32",
}


@dataclass(frozen=True, slots=True)
class Style:
    """How to mark text.

    Attributes:
        is_coloured: Whether escape sequences are wanted.
        width: Columns of the terminal.
        is_drawn: Whether a terminal shows it, where tables have lines.
    """

    is_coloured: bool = False
    width: int = 100
    is_drawn: bool = False

    def mark(self, text: str, kind: str) -> str:
        """Return text in the colour of a kind."""
        if not self.is_coloured:
            return text
        return f"\x1b[{_CODES[kind]}m{text}\x1b[0m"
