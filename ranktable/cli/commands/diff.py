"""``ranktable diff``: what differs between two tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli import (
    COLOR_HELP,
    COULD_NOT_JUDGE,
    DEFECTS_FOUND,
    Color,
    CommandError,
    OutputFormat,
    style,
    write,
)
from ranktable.cli.app import with_options
from ranktable.cli.files import STANDARD_INPUT, sound_table
from ranktable.cli.options import GroupName, LayoutOptions
from ranktable.cli.site_options import SiteOptions
from ranktable.layout.change.differing import difference
from ranktable.layout.errors import LayoutError
from ranktable.layout.remembered import remembered
from ranktable.report.diff import render_diff, render_diff_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import RankTable


@with_options(layout_options=LayoutOptions, site=SiteOptions)
def diff(
    *,
    first: Annotated[
        str, typer.Argument(metavar="A", help="Rank table, or - for standard input.")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="The other one.")],
    layout_options: LayoutOptions,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Groups to compare: tp,dp-cp; by default all."
        ),
    ] = None,
    server_group: GroupName = None,
    site: SiteOptions,
    format: Annotated[  # noqa: A002 - the name of the option
        OutputFormat, typer.Option(help="Form of the output.")
    ] = OutputFormat.TEXT,
    color: Annotated[Color, typer.Option(help=COLOR_HELP)] = Color.AUTO,
) -> None:
    """Show the differences between two tables: nodes, ranks, roles, groups and bytes.

    A rank has moved when its chip has another rank now. A role has changed when the
    coordinates of a chip along tp, cp, pp or the experts have: it must load other
    weights. Sizes such as --tp hold for both tables; dp is what the other sizes leave
    of each.

    Exit status: 0 no differences, 1 differences, 2 could not judge.

    Example: ranktable diff sccl_rank_table.json sccl_rank_table.json --tp 4
    """
    if first == second == STANDARD_INPUT:
        raise CommandError("standard input can be read once")
    (name, before), (other, after) = (
        _judgeable(file, server_group) for file in (first, second)
    )
    layouts = None
    is_remembered = None not in (remembered(before), remembered(after))
    has_site = site.bytes_ is not None or site.topology is not None
    if layout_options.are_given or groups is not None or has_site or is_remembered:
        layouts = _layouts(layout_options, [(name, before), (other, after)])
    kinds = None if groups is None else groups.split(",")
    where = site.site(before) if has_site else None
    found = difference(before, after, layouts, groups=kinds, site=where)
    if format is OutputFormat.JSON:
        write(render_diff_json((name, other), found))
    else:
        write(render_diff((name, other), found, style(color)))
    if not found.is_same:
        raise typer.Exit(DEFECTS_FOUND)


def _judgeable(file: str, group: str | None) -> tuple[str, RankTable]:
    try:
        read = sound_table(file, group=group)
    except CommandError as error:
        raise CommandError(str(error), COULD_NOT_JUDGE) from None
    return read.name, read.table


def _layouts(
    layout_options: LayoutOptions, tables: Iterable[tuple[str, RankTable]]
) -> tuple[ParallelLayout, ParallelLayout]:
    """Return the layout of both tables, or raise CommandError for the one it misses."""

    def laid_out(name: str, table: RankTable) -> ParallelLayout:
        try:
            return layout_options.layout(table)
        except (CommandError, LayoutError) as error:
            raise CommandError(f"{name}: {error}") from None

    first, second = (laid_out(name, table) for name, table in tables)
    return first, second
