"""``ranktable renumber``: ranks without gaps, after some were lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli import CommandError
from ranktable.cli.app import with_options
from ranktable.cli.change_output import Again, ChangeOutput
from ranktable.cli.commands.shrink import (
    DROP_RANKS_HELP,
    places_of,
    ranks_in,
    table_with_gaps,
)
from ranktable.cli.options import GroupName, LayoutOptions, SiteOptions
from ranktable.layout.change.fitting import with_dp_for as resized
from ranktable.layout.change.rebuilt import left_of
from ranktable.layout.change.renumbering import Policy
from ranktable.layout.change.renumbering import renumbered as change
from ranktable.layout.change.spares import named_table
from ranktable.layout.errors import LayoutError
from ranktable.layout.parallel import remembered, spelt
from ranktable.schema.diagnostic import counted
from ranktable.schema.format import NotExpressibleError
from ranktable.schema.formats import by_name

if TYPE_CHECKING:
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import RankTable


@with_options(layout_options=LayoutOptions, site=SiteOptions, result=ChangeOutput)
def renumber(
    *,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Rank table, or - for standard input.")
    ],
    policy: Annotated[
        Policy,
        typer.Option(
            help="fill: the last nodes move into the gaps, so that few ranks move; "
            "shift: the order stays, all after the first gap move; stable: none "
            "moves, spares fill the gaps."
        ),
    ],
    drop: Annotated[
        list[str] | None,
        typer.Option(
            "--drop",
            metavar="NODES",
            help="Nodes that are lost: hosts such as n[03-05], or numbers of nodes "
            "that have none.",
        ),
    ] = None,
    drop_ranks: Annotated[
        str | None,
        typer.Option(metavar="LIST", help=DROP_RANKS_HELP),
    ] = None,
    server_group: GroupName = None,
    layout_options: LayoutOptions,
    site: SiteOptions,
    again: Again = False,
    result: ChangeOutput,
) -> None:
    """Number the ranks of a table without gaps, after nodes or chips were lost.

    The gaps may be in the table, or come from --drop and --drop-ranks. Sizes such as
    --tp are checked: if they do not fit the remaining ranks, nothing is written, and
    shrink can find sizes that do. Running it again changes nothing.

    Example: ranktable renumber sccl_rank_table.json --policy fill --drop-ranks 1,4-5
    """
    result.refuse_clash()
    read = table_with_gaps(file, server_group)
    table = named_table(read.table)
    lost = places_of(table, drop or [], again=again)
    ranks = [] if drop_ranks is None else ranks_in(drop_ranks)
    where = site.site(table)
    size = 1 + max(device.rank for node in table.nodes for device in node.devices)
    left = size
    if policy is not Policy.STABLE:
        left = sum(map(len, left_of(table, lost, ranks)))
    layouts = _layouts(layout_options, table, size, left)
    found, is_optimal = change(
        table, policy, nodes=lost, ranks=ranks, layouts=layouts, site=where
    )
    try:
        result.put(read, found, layouts, site=where, is_optimal=is_optimal)
    except NotExpressibleError as error:
        if policy is Policy.SHIFT or by_name(table.format).has_written_ranks:
            raise
        hint = "--policy shift keeps the order of the ranks"
        raise CommandError(f"{error}\nhelp: {hint}") from None


def _layouts(
    options: LayoutOptions, table: RankTable, before: int, after: int
) -> tuple[ParallelLayout, ParallelLayout] | None:
    """Return the layouts of so many ranks, None where none is known.

    Raises:
        CommandError: The ranks that are left do not fit the layout of the table.
        LayoutError: They do not fit the sizes that are given.
    """
    known = remembered(table)
    if known is None:
        if not options.are_given:
            return None
        given = options.given_layout(after)
        try:
            return options.given_layout(before), given
        except LayoutError:
            return given, given
    options.layout(table)
    new = known if known.world_size == after else resized(known, after)
    if new is None:
        raise CommandError(
            f"{counted(after, 'rank')} would be left, which does not fit the layout of "
            f"the table, {spelt(known)}; shrink finds one that fits"
        )
    return known, new
