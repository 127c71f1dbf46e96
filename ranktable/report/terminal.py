"""Findings and tables as text for people, with colours and lines on a terminal."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ranktable.report.finding_lines import code_of, concise_line, help_line
from ranktable.schema.document import Lines
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import RenderableType

    from ranktable.schema.document import Location
    from ranktable.schema.finding import Diagnostic
    from ranktable.schema.model import RankTable
    from ranktable.schema.report import Report

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
    """How text is shown.

    Attributes:
        is_coloured: Whether to use escape sequences for colours.
        width: Columns of the terminal.
        is_drawn: Whether to draw tables with lines, as on a terminal.
    """

    is_coloured: bool = False
    width: int = 100
    is_drawn: bool = False

    def mark(self, text: str, kind: str) -> str:
        """Return text in the colour for a kind of text."""
        if not self.is_coloured:
            return text
        return f"\x1b[{_CODES[kind]}m{text}\x1b[0m"


MAX_DRAWN_ROWS = 500
"""Most rows of a table that is drawn, because rich takes 0.1 ms for each cell."""

_GAP = 2
_DRAWN_GAP = 3
"""Columns between cells that rich draws; it has one at each edge, too."""
_CONTINUED = "\n    "

Row = tuple[str, ...]


def table_lines(
    rows: Sequence[Row],
    style: Style,
    *,
    right: Sequence[int] = (),
    is_head_marked: bool = True,
    wrong: Sequence[int] = (),
) -> Iterator[str]:
    """Yield a table; the first row is its head.

    Args:
        rows: The cells, as many in every row.
        style: How to show it.
        right: Columns of numbers, which are aligned at the right.
        is_head_marked: Whether the head is bold if no lines are drawn.
        wrong: Rows that are shown as errors.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    is_narrow = sum(widths) + _DRAWN_GAP * len(widths) - 1 <= style.width
    if style.is_drawn and is_narrow and len(rows) <= MAX_DRAWN_ROWS:
        yield _drawn(rows, style, right, wrong)
        return
    breaks = _breaks(widths, style.width) if style.is_drawn else ()
    for number, row in enumerate(rows):
        line = ""
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            gap = _CONTINUED if column in breaks else " " * _GAP * (column > 0)
            line += gap + (cell.rjust(width) if column in right else cell.ljust(width))
        line = "\n".join(part.rstrip() for part in line.split("\n"))
        if number in wrong:
            line = style.mark(line, "error")
        elif is_head_marked and number == 0:
            line = style.mark(line, "bold")
        yield f"{line}\n"


def _breaks(widths: Sequence[int], room: int) -> set[int]:
    """Return the columns before which a row goes on in a line of its own.

    A terminal would break a number or a name where its line ends.
    """
    found: set[int] = set()
    at = widths[0]
    for column, width in enumerate(widths[1:], 1):
        at += _GAP + width
        if at > room:
            found.add(column)
            at = len(_CONTINUED) - 1 + width
    return found


def _drawn(
    rows: Sequence[Row], style: Style, right: Sequence[int], wrong: Sequence[int]
) -> str:
    # 0.1 s, which a pipe and a training process do not pay for.
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column, head in enumerate(rows[0]):
        justify = "right" if column in right else "left"
        table.add_column(Text(head), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for number, row in enumerate(rows[1:], 1):
        of_row = "bold red" if number in wrong else None
        table.add_row(
            *map(Text, row), style=of_row
        )  # a bracket in a text marks nothing
    return _printed(table, style)


def table_size(table: RankTable) -> str:
    """Return the size of a table in words."""
    nodes = counted(len(table.nodes), "node")
    return f"{nodes}, {counted(table.world_size, 'rank')}"


class Branch(NamedTuple):
    """A line of a tree, and the lines below it."""

    text: str
    leaves: tuple[str | Branch, ...] = ()


def tree_lines(head: str, lines: Iterable[str | Branch], style: Style) -> Iterator[str]:
    """Yield a line and the lines below it: a tree on a terminal, otherwise indented.

    Args:
        head: The line.
        lines: The lines below it.
        style: The style of the output.
    """
    root = Branch(head, tuple(lines))
    if not style.is_drawn or _num_lines(root) > MAX_DRAWN_ROWS:
        yield from _indented(root, "")
        return
    from rich.text import Text
    from rich.tree import Tree

    def drawn(branch: Branch) -> Tree:
        tree = Tree(Text.from_ansi(branch.text))
        tree.children = [drawn(leaf) for leaf in _branches(branch)]
        return tree

    yield _printed(drawn(root), style)


def _branches(branch: Branch) -> Iterator[Branch]:
    for leaf in branch.leaves:
        yield Branch(leaf) if isinstance(leaf, str) else leaf


def _num_lines(branch: Branch) -> int:
    return 1 + sum(map(_num_lines, _branches(branch)))


def _indented(branch: Branch, indent: str) -> Iterator[str]:
    yield f"{indent}{branch.text}\n"
    for leaf in _branches(branch):
        yield from _indented(leaf, f"{indent}  ")


def _printed(drawing: RenderableType, style: Style) -> str:
    """Return what rich draws as text, without blank lines."""
    from rich.console import Console

    text = io.StringIO()
    colours = "standard" if style.is_coloured else None
    console = Console(
        file=text,
        force_terminal=True,
        width=style.width,
        color_system=colours,  # type: ignore[arg-type]
        no_color=not style.is_coloured,
        highlight=False,
    )
    console.print(drawing)
    lines = (line.rstrip() for line in text.getvalue().split("\n"))
    return "\n".join(line for line in lines if line) + "\n"


def severities(reports: Sequence[Report]) -> Counter[Severity]:
    """Return the number of errors, warnings and notes, shown or not."""
    found: Counter[Severity] = Counter()
    for report in reports:
        for (_, severity), number in report.counts.items():
            found[severity] += number
    return found


def summary(reports: Sequence[Report]) -> str:
    """Return one sentence: how many files, what was found, and what is left out."""
    found = severities(reports)
    parts = [
        counted(found[severity], severity.value)
        for severity in Severity
        if found[severity]
    ]
    total = sum(found.values())
    shown = sum(len(report.diagnostics) for report in reports)
    fixable = sum(d.fixable for report in reports for d in report.diagnostics)
    listed = ", ".join([*parts[:-2], " and ".join(parts[-2:])])
    text = f"found {listed}" if parts else "no defects"
    if len(reports) > 1:
        text += f" in {counted(len(reports), 'file')}"
    text += ignored_text(reports)
    if shown < total:
        text += f"; {shown} of {total} are shown (--max-errors 0 shows all)"
    if fixable:
        text += f"; {fixable} can be repaired with --fix"
    return text


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
            sound = style.mark(_sound(report), "help")
            yield f"{name}: {sound}{kind}{ignored_text([report], ', with ')}\n"
    if any(report.totals for report in reports):
        yield summary(reports) + "\n"


def _sound(report: Report) -> str:
    """Return what a report without errors says: it may be by leaving them out."""
    is_left = any(severity is Severity.ERROR for _, severity in report.ignored)
    return "no errors left" if is_left else "sound"


def ignored_text(reports: Sequence[Report], before: str = "; ") -> str:
    """Return how many findings were left out by an option; empty for none."""
    number = sum(sum(report.ignored.values()) for report in reports)
    return f"{before}{counted(number, 'finding')} ignored" if number else ""


_MAX_RELATED = 3
"""Most related places of a finding that are shown; the others are counted."""


def _diagnostic(diagnostic: Diagnostic, lines: Lines, style: Style) -> str:
    message = style.mark(printable(diagnostic.message), "bold")
    out = [f"{code_of(diagnostic, style)}: {message}"]
    places = (diagnostic.location, *diagnostic.related)
    gutter = max(len(str(place.line or "")) for place in places)
    for place in places[: 1 + _MAX_RELATED]:
        # The text of another file is not known here.
        text = lines if place.file == diagnostic.location.file else _NO_LINES
        out += _place(place, text, gutter, style, is_first=place is places[0])
    if (left := len(diagnostic.related) - _MAX_RELATED) > 0:
        edge = style.mark(f"{' ' * gutter}:::", "gutter")
        out.append(f"{edge} and {counted(left, 'more place')}")
    if diagnostic.hint is not None:
        edge = style.mark(f"{' ' * gutter} =", "gutter")
        out.append(help_line(diagnostic.hint, style, f"{edge} ").rstrip("\n"))
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
    """Return a line that fits, and the place and the width of the caret in it.

    Most blanks at the beginning are dropped, a long line is cut around the caret, and a
    character that a terminal cannot print becomes a question mark.
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


def render_concise(reports: Sequence[Report], style: Style) -> Iterator[str]:
    """Yield a line for each diagnostic, and a last line with the totals."""
    for report in reports:
        for diagnostic in report.diagnostics:
            yield concise_line(diagnostic, style)
        if report.ok and not report.totals:
            name = style.mark(printable(report.file), "place")
            yield f"{name}: {_sound(report)}{ignored_text([report], ', with ')}\n"
    if any(report.totals for report in reports):
        yield summary(reports) + "\n"
