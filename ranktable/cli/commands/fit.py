"""``ranktable fit``: a table for the hosts that are there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.app import with_options
from ranktable.cli.change_output import ChangeOutput
from ranktable.cli.node_arguments import (
    NODES_HELP,
    chips_in,
    hosts_in,
    hosts_of_file,
    named_or_read,
)
from ranktable.cli.options import CostOptions, LayoutOptions
from ranktable.cli.parameters import TableArgument, flag, number, valued
from ranktable.cli.table_input import table_with_gaps
from ranktable.layout.change.fitting import fit as change
from ranktable.layout.change.sizes import factor_names, fit_layout
from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.parallel import remembered
from ranktable.schema.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.layout.change.fitting import Change
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import RankTable

_Names = list[str] | None


@with_options(layout_options=LayoutOptions, costs=CostOptions, result=ChangeOutput)
def fit(
    *,
    file: TableArgument,
    hosts: Annotated[
        _Names, valued("HOSTS", "The hosts that are there; all others are lost.")
    ] = None,
    hosts_from: Annotated[
        str | None,
        valued(
            "FILE", "The same from a file, such as a host file; - is standard input."
        ),
    ] = None,
    lost: Annotated[
        _Names,
        valued("NODES", "Nodes or spares that are lost; without a host, by index."),
    ] = None,
    with_: Annotated[
        _Names,
        valued("NODES", f"New nodes, used before the spares: {NODES_HELP}", "--with"),
    ] = None,
    spare: Annotated[
        _Names, valued("NODES", "Nodes that shall carry no rank, as --with names them.")
    ] = None,
    lost_chips: Annotated[
        _Names, valued("NODE:CHIPS", "Single chips that are lost: n3:2,5.")
    ] = None,
    grow: Annotated[
        bool, flag("Allow more ranks than before: dp becomes larger.", "--grow")
    ] = False,
    keep: Annotated[str, valued("LIST", "Sizes that stay as they are.")] = "tp,pp,cp",
    ranks: Annotated[
        int | None,
        number("N", "Ranks that are wanted; by default as many as fit.", min=1),
    ] = None,
    pod: Annotated[
        str | None,
        valued("NAME", "Super pod of the new hosts, if no file names it."),
    ] = None,
    layout_options: LayoutOptions,
    costs: CostOptions,
    result: ChangeOutput,
) -> None:
    """Fit a table to the hosts that are there.

    Lost nodes are replaced by new nodes and by spares; if these are too few, dp becomes
    smaller. Healthy nodes are left alone, and chips that are not needed become spares.
    A new host that only has a name gets the chips of the node that it replaces. If
    several tables are possible, this decides, in this order: closed rings of chips, tp
    groups inside their node, chips that keep their role, ranks that keep their number,
    bytes between racks, bytes between nodes.

    Example: ranktable gen --device-id '[[0..7],[0..7]]' --hosts a,b -o - |
    ranktable fit - --lost b --with c -o fitted.json
    """
    result.refuse_clash()
    read = table_with_gaps(file)
    table = read.table
    there = None if hosts is None else [one for text in hosts for one in hosts_in(text)]
    if hosts_from is not None:
        there = [*(there or ()), *hosts_of_file(hosts_from)]
    using, resting = named_or_read(with_ or ()), named_or_read(spare or ())
    given = [one if isinstance(one, str) else str(one.host) for one in using + resting]
    done = change(
        table,
        _layout(table, layout_options),
        hosts=there,
        lost=[one for text in lost or () for one in hosts_in(text)],
        using=using,
        spare=resting,
        lost_chips=chips_in(lost_chips or ()),
        grow=grow,
        kept=keep.split(","),
        world_size=ranks,
        super_pod=pod,
        facts=costs.facts(table, [*(there or ()), *given]),
    )
    status = result.put(read, done)
    sys.stderr.writelines(_layout_lines(done))
    notes = [*done.notes, *_of_size(done, keep.split(","), ranks, is_grown=grow)]
    sys.stderr.writelines(f"note: {printable(note)}\n" for note in notes)
    raise typer.Exit(status)


def _layout(table: RankTable, options: LayoutOptions) -> ParallelLayout | None:
    """Return the layout of a table, None if it is not known."""
    known = remembered(table)
    if known is None and not options.are_given:
        return None
    size = max(table.rank_end, 0 if known is None else known.world_size)
    size = options.whole_copies(size)
    return options.layout(table, may_lack_ranks=True, world_size=size)


def _layout_lines(done: Change) -> Iterator[str]:
    """Yield which sizes have changed."""
    if done.layouts is None:
        return
    before, after = done.layouts
    sizes = [
        f"{axis} {getattr(before, axis)} -> {getattr(after, axis)}"
        for axis in factor_names(before)
        if getattr(before, axis) != getattr(after, axis)
    ]
    if sizes:
        yield f"layout: {', '.join(sizes)}\n"


def _of_size(
    done: Change, kept: Sequence[str], ranks: int | None, *, is_grown: bool
) -> Iterator[str]:
    """Yield how more chips would make dp larger, or keep it."""
    if done.layouts is None or ranks is not None:
        return
    before, after = done.layouts
    size = after.world_size
    idle = sum(len(spare.devices) for spare in done.table.spares)
    copy = size // after.dp
    if is_grown and after == before and idle:
        yield f"{counted(idle, 'chip')} are too few for another copy ({copy})"
    if after.dp < before.dp:
        lacks = before.world_size - size - idle
        if lacks > 0:
            yield (
                f"{counted(lacks, 'chip')} more would keep dp {before.dp}: --with NODES"
            )
        return
    larger = None if is_grown else _larger(after, size + idle, kept)
    if larger is not None and larger.dp > after.dp:
        spares = counted(len(done.table.spares), "spare")
        yield f"{spares} would be enough for dp {larger.dp}: --grow"


def _larger(
    layout: ParallelLayout, chips: int, kept: Sequence[str]
) -> ParallelLayout | None:
    try:
        return fit_layout(layout, chips, kept)
    except LayoutError:
        return None
