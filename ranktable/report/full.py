"""Diagnostics for reading: the place, the line with a caret, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.report.renderer import summary
from ranktable.schema.document import Lines
from ranktable.schema.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.report.style import Style
    from ranktable.schema.check_report import Report
    from ranktable.schema.diagnostic import Diagnostic, Location

_NO_LINES = Lines("")


def render_full(reports: Sequence[Report], style: Style) -> Iterator[str]:
    """Yield each diagnostic with an excerpt, and a last line with the totals."""
    for report in reports:
        lines = Lines(report.text or "")
        for diagnostic in report.diagnostics:
            yield _diagnostic(diagnostic, lines, style) + "\n"
        if report.ok:
            kind = f" ({report.format})" if report.format else ""
            name = style.mark(printable(report.file), "bold")
            yield f"{name}: {style.mark('sound', 'help')}{kind}\n"
    if any(report.totals for report in reports):
        yield summary(reports) + "\n"


def _diagnostic(diagnostic: Diagnostic, lines: Lines, style: Style) -> str:
    kind = diagnostic.severity.value
    head = style.mark(f"{kind}[{diagnostic.code}]", kind)
    out = [f"{head}: {style.mark(printable(diagnostic.message), 'bold')}"]
    places = (diagnostic.location, *diagnostic.related)
    gutter = max(len(str(place.line or "")) for place in places)
    for place in places:
        # Of another file there is no text to show.
        text = lines if place.file == diagnostic.location.file else _NO_LINES
        out += _place(place, text, gutter, style, is_first=place is places[0])
    if diagnostic.hint is not None:
        edge = style.mark(f"{' ' * gutter} =", "gutter")
        out.append(f"{edge} {style.mark('help', 'help')}: {printable(diagnostic.hint)}")
    return "\n".join(out) + "\n"


def _place(
    place: Location, lines: Lines, gutter: int, style: Style, *, is_first: bool
) -> list[str]:
    blank = " " * gutter
    arrow = style.mark(f"{blank}{'-->' if is_first else ':::'}", "gutter")
    label = f" ({place.label})" if place.label else ""
    out = [f"{arrow} {printable(str(place))}{label}"]
    if place.line is None or place.column is None or not lines.text:
        return out
    line = lines.get(place.line)
    width = 1
    if place.end_column is not None and place.end_line == place.line:
        width = max(1, place.end_column - place.column)
    elif place.end_line is not None and place.end_line > place.line:
        width = max(1, len(line) - place.column + 1)
    shown, at, width = _crop(line, place.column - 1, width, style.width - gutter - 3)
    bar = style.mark("|", "gutter")
    number = style.mark(f"{place.line:>{gutter}}", "gutter")
    caret = style.mark("^" * width, "error" if is_first else "note")
    return [
        *out,
        f"{blank} {bar}",
        f"{number} {bar} {shown}",
        f"{blank} {bar} {' ' * at}{caret}",
    ]


def _crop(line: str, at: int, width: int, room: int) -> tuple[str, int, int]:
    """Return a line that fits, the place of the caret in it and the caret's width.

    Blanks at the beginning are dropped beyond a few, a long line is cut around the
    caret, and what a terminal cannot print becomes a question mark of one column.
    """
    room = max(room, 20)
    indent = len(line) - len(line.lstrip(" \t"))
    start = min(indent, at)
    if at + min(width, room) - start > room:
        start = max(start, at - room // 3)
    end = min(len(line), start + room)
    before = "..." if start > indent else ""
    after = "..." if end < len(line) else ""
    shown = "".join(c if c.isprintable() else "?" for c in line[start:end])
    at_shown = at - start + len(before)
    return before + shown + after, at_shown, max(1, min(width, end - at))
