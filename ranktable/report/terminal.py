"""Tables: drawn with rich on a terminal, aligned with blanks anywhere else."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.report.style import Style

MAX_DRAWN_ROWS = 500
"""Rows up to which a table is drawn; rich takes 0.1 ms for a cell."""

Row = tuple[str, ...]


def table_lines(
    rows: Sequence[Row],
    look: Style,
    *,
    right: Sequence[int] = (),
    is_head_marked: bool = True,
) -> Iterator[str]:
    """Yield a table; the first row is its head.

    Args:
        rows: The cells, as many in every row.
        look: How to show it.
        right: Columns of numbers, which end in one line.
        is_head_marked: Whether the head is bold where nothing is drawn.
    """
    if look.is_drawn and len(rows) <= MAX_DRAWN_ROWS:
        yield _drawn(rows, look, right)
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(cells).rstrip()
        is_bold = is_head_marked and number == 0
        yield (look.mark(line, "bold") if is_bold else line) + "\n"


def _drawn(rows: Sequence[Row], look: Style, right: Sequence[int]) -> str:
    # 0.1 s, which a pipe and a training process do not pay for.
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column, head in enumerate(rows[0]):
        justify = "right" if column in right else "left"
        table.add_column(Text(head), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows[1:]:
        table.add_row(*map(Text, row))  # text: a bracket in it marks nothing
    text = io.StringIO()
    colours = "standard" if look.is_coloured else None
    console = Console(
        file=text,
        force_terminal=True,
        width=look.width,
        color_system=colours,  # type: ignore[arg-type]
        no_color=not look.is_coloured,
        highlight=False,
    )
    console.print(table)
    lines = (line.rstrip() for line in text.getvalue().split("\n"))
    return "\n".join(line for line in lines if line) + "\n"
