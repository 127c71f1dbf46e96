"""``ranktable shrink``: fewer nodes, and a layout that fits them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.change_output import Again, ChangeOutput
from ranktable.cli.files import sound_table
from ranktable.cli.new_nodes import hosts_in
from ranktable.cli.options import LayoutOptions, with_options
from ranktable.layout.change.fitting import factor_names
from ranktable.layout.change.names import find_nodes, named, node_names
from ranktable.layout.change.resize import shrink as change

if TYPE_CHECKING:
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import RankTable

KEEP_HELP = "Sizes that stay as they are."
RANKS_HELP = "Ranks that are wanted; by default as many as fit."


@with_options(layout_options=LayoutOptions, result=ChangeOutput)
def shrink(
    *,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Rank table, or - for standard input.")
    ],
    drop: Annotated[
        list[str],
        typer.Option(
            "--drop",
            metavar="NODES",
            help="Nodes that are lost: hosts such as n[03-05], or numbers of nodes "
            "that have none.",
        ),
    ],
    keep: Annotated[str, typer.Option(metavar="LIST", help=KEEP_HELP)] = "tp,pp,cp",
    ranks: Annotated[
        int | None, typer.Option(min=1, metavar="N", help=RANKS_HELP)
    ] = None,
    layout_options: LayoutOptions,
    again: Again = False,
    result: ChangeOutput,
) -> None:
    """Take nodes out of a table, and lay out what is left with the same model.

    The sizes are those that the table has now. dp becomes as large as what is left
    allows. As few chips as can be get another role, and so load other weights; then, as
    few as can be get another rank. Chips that there is no place for become spares.
    Where no such layout fits, nothing is written.

    Example: ranktable gen --device-id '[[0..7],[0..7]]' --hosts a,b -o - | ranktable
    shrink - --drop b --tp 4 -o shrunk.json
    """
    result.prepare()
    read = sound_table(file)
    table = read.table
    # Done again, dp is what is left by now, whatever it was at first.
    lost = places_of(table, drop, again=again)
    layout = layout_options.layout(table.world_size, with_dp=bool(lost) or not again)
    found = change(named(table), layout, lost, kept=keep.split(","), world_size=ranks)
    result.put(read, found.table, (layout, found.layout))
    say_sizes(layout, found.layout)


def places_of(table: RankTable, names: list[str], *, again: bool) -> list[int]:
    """Return the places of nodes; with ``again``, of those that are still there.

    Raises:
        ArgumentError: A list of hosts is malformed.
        ChangeError: There is no such node, or one is given twice.
    """
    wanted = [host for text in names for host in hosts_in(text)]
    if again:
        there = set(node_names(table.nodes))
        wanted = [name for name in wanted if name in there]
    return find_nodes(table, wanted)


def say_sizes(before: ParallelLayout, after: ParallelLayout) -> None:
    """Say on standard error which sizes have changed."""
    sizes = [
        f"{axis} {getattr(before, axis)} -> {getattr(after, axis)}"
        for axis in factor_names(before)
        if getattr(before, axis) != getattr(after, axis)
    ]
    if sizes:
        sys.stderr.write(f"layout: {', '.join(sizes)}\n")
