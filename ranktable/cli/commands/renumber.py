"""``ranktable renumber``: ranks without gaps, after some were lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cli.app import with_options
from ranktable.cli.change_output import Again, ChangeOutput
from ranktable.cli.node_arguments import places_of, ranks_in
from ranktable.cli.options import CostOptions, LayoutOptions
from ranktable.cli.output import CommandError
from ranktable.cli.parameters import DropOption, DropRanksOption, TableArgument
from ranktable.cli.table_input import table_with_gaps
from ranktable.layout.change.nodes import named_table
from ranktable.layout.change.operations import renumber as change
from ranktable.layout.change.operations import with_dp_for as resized
from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.parallel import remembered, spelt
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import RankTable


@with_options(layout_options=LayoutOptions, costs=CostOptions, result=ChangeOutput)
def renumber(
    *,
    file: TableArgument,
    drop: DropOption = None,
    drop_ranks: DropRanksOption = None,
    layout_options: LayoutOptions,
    costs: CostOptions,
    again: Again = False,
    result: ChangeOutput,
) -> None:
    """Number ranks without gaps, after nodes or chips were lost.

    The order of the ranks stays. The gaps may be in the table, or come from --drop and
    --drop-ranks. Sizes such as --tp are checked: if they do not fit the remaining
    ranks, nothing is written, and shrink can find sizes that do. Running it again
    changes nothing.

    Example: ranktable renumber sccl_rank_table.json --drop-ranks 1,4-5
    """
    result.refuse_clash()
    read = table_with_gaps(file)
    table = named_table(read.table)
    lost = places_of(table, drop or [], again=again)
    ranks = [] if drop_ranks is None else ranks_in(drop_ranks)
    facts = costs.facts(table)
    found = change(table, nodes=lost, ranks=ranks, facts=facts)
    layouts = _layouts(layout_options, table, found.world_size)
    result.put(read, found, layouts, facts=facts)


def _layouts(
    options: LayoutOptions, table: RankTable, after: int
) -> tuple[ParallelLayout | None, ParallelLayout] | None:
    """Return the layouts before and after, None if they are not known.

    Sizes that are given may be those of the ranks that are left only.

    Raises:
        CommandError: The remaining ranks do not fit the layout of the table.
        LayoutError: They do not fit the given sizes.
    """
    known = remembered(table)
    if known is None:
        if not options.are_given:
            return None
        given = options.given_layout(after)
        try:
            return options.given_layout(table.rank_end), given
        except LayoutError:
            return None, given
    options.layout(table, may_lack_ranks=True)
    new = known if known.world_size == after else resized(known, after)
    if new is None:
        raise CommandError(
            f"{counted(after, 'rank')} would be left, which does not fit the layout of "
            f"the table, {spelt(known)}; shrink finds one that fits"
        )
    return known, new
