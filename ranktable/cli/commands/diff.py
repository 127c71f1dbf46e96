"""``ranktable diff``: the differences between two tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.app import with_options
from ranktable.cli.options import GroupName, LayoutOptions, SiteOptions
from ranktable.cli.output import (
    COULD_NOT_JUDGE,
    DEFECTS_FOUND,
    Color,
    CommandError,
    OutputFormat,
    style,
)
from ranktable.cli.parameters import ColorOption, OutputFormatOption, valued
from ranktable.cli.table_input import STANDARD_INPUT, show_each, sound_tables
from ranktable.layout.change.differing import difference
from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.parallel import remembered, spelt
from ranktable.report.diff_renderers import render_diff, render_diff_json
from ranktable.schema.diagnostic import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ranktable.cli.table_input import TableFile
    from ranktable.layout.change.differing import Difference
    from ranktable.layout.parallel import ParallelLayout

    Shown = tuple[bool, Iterator[str]]
    """Whether two tables are equal, and the output about them."""


@with_options(layout_options=LayoutOptions, site=SiteOptions)
def diff(
    *,
    first: Annotated[
        str, typer.Argument(metavar="A", help="Rank table, or - for standard input.")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="The second rank table.")],
    layout_options: LayoutOptions,
    groups: Annotated[
        str | None, valued("LIST", "Groups to compare: tp,dp-cp; by default all.")
    ] = None,
    server_group: GroupName = None,
    site: SiteOptions,
    format: OutputFormatOption = OutputFormat.TEXT,
    color: ColorOption = Color.AUTO,
) -> None:
    """Show the differences between two tables: nodes, ranks, roles, groups and bytes.

    A rank has moved when its chip has another rank now. A role has changed when a chip
    has other coordinates along tp, cp, pp or the experts: it must load other weights.
    Sizes such as --tp hold for both tables; dp is computed for each table, from its
    number of ranks and the other sizes.

    Exit status: 0 no differences, 1 differences, 2 could not judge.

    Example: ranktable diff sccl_rank_table.json sccl_rank_table.json --tp 4
    """
    if first == second == STANDARD_INPUT:
        raise CommandError("standard input can be read once")
    befores, afters = (_judgeable(file, server_group) for file in (first, second))
    has_site = site.bytes_ is not None or site.topology is not None
    kinds = None if groups is None else groups.split(",")

    def compared(before: TableFile, after: TableFile) -> Difference:
        tables = before.table, after.table
        is_remembered = None not in map(remembered, tables)
        layouts = None
        if layout_options.are_given or groups is not None or has_site or is_remembered:
            layouts = _layouts(layout_options, before, after)
        where = site.site(before.table) if has_site else None
        return difference(*tables, layouts, groups=kinds, site=where)

    def shown(before: TableFile, after: TableFile) -> Shown:
        found = compared(before, after)
        names = before.name, after.name
        if format is OutputFormat.JSON:
            return found.is_same, render_diff_json(names, found)
        return found.is_same, render_diff(names, found, style(color))

    texts = _compared(befores, afters, shown, format)
    if server_group is None and all(is_same for is_same, _ in texts.values()):
        texts |= _outside_groups(befores, afters, format)
    show_each({name: text for name, (_, text) in texts.items()}, format)
    if not all(is_same for is_same, _ in texts.values()):
        raise typer.Exit(DEFECTS_FOUND)


def _compared(
    befores: dict[str, TableFile],
    afters: dict[str, TableFile],
    shown: Callable[[TableFile, TableFile], Shown],
    form: OutputFormat,
) -> dict[str, Shown]:
    """Return the output for every group of either table."""
    if len(befores) == len(afters) == 1:  # the names of the groups do not matter
        afters = dict(zip(befores, afters.values(), strict=True))
    texts: dict[str, Shown] = {}
    for name, read in {**afters, **befores}.items():
        before, after = befores.get(name), afters.get(name)
        if before is None or after is None:
            texts[name] = False, _only_in(read.name, form)
        else:
            texts[name] = shown(before, after)
    return texts


def _judgeable(file: str, group: str | None) -> dict[str, TableFile]:
    """Return the table of a file, or of each of its groups, by name of the group."""
    try:
        return {read.group: read for read in sound_tables(file, group)}
    except CommandError as error:
        raise CommandError(str(error), COULD_NOT_JUDGE) from None


def _outside_groups(
    befores: dict[str, TableFile], afters: dict[str, TableFile], form: OutputFormat
) -> dict[str, Shown]:
    """Return output if the tables also differ outside the groups with chips."""
    before, after = (next(iter(one.values())).whole for one in (befores, afters))
    if before is None or after is None or before.digest() == after.digest():
        return {}
    text = "also differs: servers without chips, or keys beside the groups\n"
    if form is OutputFormat.JSON:
        text = json.dumps({"same": False})
    return {"others": (False, iter([text]))}


def _only_in(name: str, form: OutputFormat) -> Iterator[str]:
    """Yield the output for a group that only one of the tables has."""
    if form is OutputFormat.JSON:
        yield json.dumps({"same": False, "only_in": name})
    else:
        yield f"{printable(name)}: only there\n"


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
