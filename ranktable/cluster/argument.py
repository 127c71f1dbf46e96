"""A mistake in an argument of the command line, shown at its place."""

from __future__ import annotations

from ranktable._error import Error

_SHOWN_AROUND = 36
"""Characters of a long argument that are shown before and after the mistake."""


class ArgumentError(Error, ValueError):
    """An argument cannot be used; the text shows the place of the mistake.

    Attributes:
        reason: What is wrong.
        text: The argument.
        position: Offset of the mistake, None if it concerns the whole argument.
        hint: What to write instead, if that is certain.
    """

    def __init__(
        self,
        reason: str,
        *,
        text: str = "",
        position: int | None = None,
        hint: str | None = None,
    ) -> None:
        """Store the parts."""
        self.reason = reason
        self.text = text
        self.position = position
        self.hint = hint
        super().__init__(reason)

    def __str__(self) -> str:
        """Return the reason, the argument with a caret below the mistake, the hint."""
        lines = [self.reason]
        if self.position is not None:
            lines += _excerpt(self.text, self.position)
        if self.hint is not None:
            lines.append(f"help: {self.hint}")
        return "\n".join(lines)


def _excerpt(text: str, position: int) -> list[str]:
    start = max(0, position - _SHOWN_AROUND)
    end = position + _SHOWN_AROUND
    before = "..." if start else ""
    after = "..." if end < len(text) else ""
    # A blank for each control character keeps the caret in its place.
    shown = "".join(c if c.isprintable() else " " for c in text[start:end])
    caret = " " * (len(before) + position - start) + "^"
    return [f"  {before}{shown}{after}", f"  {caret}"]
