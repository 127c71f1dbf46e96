"""``ranktable diff``: the differences between two tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.app import with_options
from ranktable.cli.options import CostOptions, LayoutOptions
from ranktable.cli.output import (
    COULD_NOT_JUDGE,
    DEFECTS_FOUND,
    Color,
    CommandError,
    style_of,
    write,
)
from ranktable.cli.parameters import ColorOption, OutputFormatOption
from ranktable.cli.table_input import sound_table
from ranktable.layout.change.comparison import difference
from ranktable.layout.change.nodes import node_names
from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.parallel import remembered, spelt
from ranktable.report.diff_renderers import render_diff, render_diff_json

if TYPE_CHECKING:
    from ranktable.cli.table_input import TableFile
    from ranktable.layout.parallel import ParallelLayout


@with_options(layout_options=LayoutOptions, costs=CostOptions)
def diff(
    *,
    first: Annotated[
        str, typer.Argument(metavar="A", help="Rank table, or - for standard input.")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="The second rank table.")],
    layout_options: LayoutOptions,
    costs: CostOptions,
    format: OutputFormatOption = "text",
    color: ColorOption = Color.AUTO,
) -> None:
    """Show the differences between two tables.

    A rank has moved when its chip has another rank now. A role has changed when a chip
    has other coordinates along tp, cp, pp or the experts: it must load other weights.
    Sizes such as --tp hold for both tables; dp is computed for each table, from its
    number of ranks and the other sizes.

    Exit status: 0 no differences, 1 differences, 2 could not judge.

    Example: ranktable diff sccl_rank_table.json sccl_rank_table.json --tp 4
    """
    before, after = (_judgeable(file) for file in (first, second))
    has_facts = costs.bytes_ is not None or costs.racks is not None
    tables = before.table, after.table
    is_remembered = None not in map(remembered, tables)
    layouts = None
    if layout_options.are_given or has_facts or is_remembered:
        layouts = _layouts(layout_options, before, after)
    facts = (
        costs.facts(before.table, node_names(after.table.nodes)) if has_facts else None
    )
    found = difference(*tables, layouts, facts=facts)
    names = before.name, after.name
    if format == "json":
        write(render_diff_json(names, found))
    else:
        write(render_diff(names, found, style_of(color)))
    if not found.is_same:
        raise typer.Exit(DEFECTS_FOUND)


def _judgeable(file: str) -> TableFile:
    """Return the table of a file."""
    try:
        return sound_table(file)
    except CommandError as error:
        raise CommandError(str(error), COULD_NOT_JUDGE) from None


def _layouts(
    layout_options: LayoutOptions, before: TableFile, after: TableFile
) -> tuple[ParallelLayout, ParallelLayout]:
    """Return the layouts of both tables; raise CommandError if one has none."""

    def laid_out(read: TableFile) -> ParallelLayout:
        try:
            return layout_options.layout(read.table)
        except (CommandError, LayoutError) as error:
            raise CommandError(f"{read.name}: {error}") from None

    found = laid_out(before), laid_out(after)
    known = [remembered(read.table) for read in (before, after)]
    if not layout_options.are_given and known.count(None) == 1:
        without, other = (before, after) if known[0] is None else (after, before)
        said = spelt(found[known[0] is None])
        raise CommandError(
            f"{without.name} remembers no layout, and {other.name} remembers {said}; "
            "give the sizes that both have, such as --tp 8"
        )
    return found
