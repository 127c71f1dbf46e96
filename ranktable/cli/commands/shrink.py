"""``ranktable shrink``: remove nodes, and find a layout that fits the others."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

from ranktable.cli.app import with_options
from ranktable.cli.change_output import Again, ChangeOutput, tell_sizes
from ranktable.cli.node_arguments import (
    New,
    hosts_in,
    is_file,
    node_like,
    places_of,
    ranks_in,
    read_nodes,
)
from ranktable.cli.options import CostOptions, LayoutOptions
from ranktable.cli.output import CommandError
from ranktable.cli.parameters import (
    DropOption,
    DropRanksOption,
    KeepOption,
    RanksOption,
    TableArgument,
    valued,
)
from ranktable.cli.table_input import table_with_gaps
from ranktable.layout.change.nodes import (
    add_spares,
    named_table,
    node_names,
    spares_of,
    with_spares,
)
from ranktable.layout.change.operations import shrink as change
from ranktable.layout.parallel import remembered
from ranktable.schema.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import Node, RankTable


@with_options(layout_options=LayoutOptions, costs=CostOptions, result=ChangeOutput)
def shrink(
    *,
    file: TableArgument,
    drop: DropOption = None,
    drop_ranks: DropRanksOption = None,
    nodes: Annotated[
        list[str] | None,
        valued(
            "NODES",
            "The nodes that are there, as --add of grow names them: all others are "
            "lost, and spares or new nodes take their place.",
        ),
    ] = None,
    new: New = False,
    keep: KeepOption = "tp,pp,cp",
    ranks: RanksOption = None,
    layout_options: LayoutOptions,
    costs: CostOptions,
    again: Again = False,
    result: ChangeOutput,
) -> None:
    """Remove nodes from a table, and keep the layout of the model.

    The sizes of --keep stay; dp becomes as large as the remaining nodes and the spares
    allow. If several tables are possible, this decides, in this order: closed rings of
    chips, tp groups inside their node, chips that keep their role, ranks that keep
    their number, bytes between racks, bytes between nodes. Chips that are not needed
    become spares. If no layout fits, nothing is written. Ranks that the file or its
    layout lacks are lost too, so a node may also be taken out of the file by hand.

    Example: ranktable gen --device-id '[[0..7],[0..7]]' --hosts a,b -o - |
    ranktable shrink - --drop b --tp 4 -o shrunk.json
    """
    result.refuse_clash()
    read = table_with_gaps(file)
    table = named_table(read.table)
    # If it was done before, dp is what is left now, not what it was at first.
    lost = places_of(table, drop or [], again=again)
    if nodes is not None:
        table, gone = _fitted(table, nodes, is_new=new)
        lost = sorted({*lost, *gone})
    single = [] if drop_ranks is None else ranks_in(drop_ranks)
    known = remembered(table)  # it tells where the last ranks are gone
    size = max(table.rank_end, 0 if known is None else known.world_size)
    is_lost = bool(lost or single)
    if known is None and not is_lost:
        size = layout_options.whole_copies(size)
    if not (is_lost or again or nodes or ranks is not None or size > table.world_size):
        raise CommandError("nothing is lost; give --drop NODES or --drop-ranks LIST")
    # If every lost chip is replaced, the ranks stay, whatever their layout is.
    is_known = known is not None or layout_options.are_given
    layout = layout_options.layout(
        table,
        with_dp=is_lost or not again,
        is_needed=nodes is None,
        may_lack_ranks=True,
        world_size=size,
    )
    facts = costs.facts(table)
    found = change(
        table,
        layout,
        lost,
        ranks=single,
        kept=keep.split(","),
        world_size=ranks,
        facts=facts,
    )
    if not is_known and found.layout != layout:
        layout_options.layout(table, is_needed=True)
    layouts = (layout, found.layout) if is_known else None
    result.put(read, found.table, layouts, facts=facts)
    tell_sizes(layout, found.layout)
    is_whole = layout.world_size == table.world_size  # else more ranks are missing
    if ranks is None and is_whole and found.layout.dp < layout.dp:
        _say_alternative(read.name, table, lost, single, layout)


def _fitted(
    table: RankTable, names: list[str], *, is_new: bool
) -> tuple[RankTable, list[int]]:
    """Return a table whose spares are in a list of nodes, and its nodes that are not.

    Raises:
        CommandError: A host is not known, and --new is missing.
    """
    described: dict[str | None, Node] = {}
    there: list[str | None] = []
    for text in names:
        if is_file(text):
            nodes = {node.host: node for node in read_nodes(text)}
            described |= nodes
            there += nodes
        else:
            there += hosts_in(text)
    own = node_names(table.nodes)
    spares = [spare for spare in spares_of(table) if spare.host in there]
    known = {*own, *(spare.host for spare in spares)}
    last = table.nodes[-1]
    new = [
        described.get(host) or node_like(table, last, str(host), is_new=is_new)
        for host in there
        if host not in known
    ]
    lost = [place for place, name in enumerate(own) if name not in there]
    return add_spares(with_spares(table, spares), new), lost


def _say_alternative(
    file: str,
    table: RankTable,
    lost: Sequence[int],
    ranks: Collection[int],
    layout: ParallelLayout,
) -> None:
    """Print how dp could be kept as it is."""
    single = set(ranks)
    nodes = [
        node
        for place, node in enumerate(table.nodes)
        if place in lost or any(device.rank in single for device in node.devices)
    ]
    steps = [
        f"ranktable replace-node {shlex.quote(file)} {shlex.quote(str(node.host))} NEW"
        for node in nodes[:2]
    ]
    if not nodes:
        return
    more = f", and {len(nodes) - 2} more such commands" if len(nodes) > 2 else ""
    chips = sum(len(node.devices) for node in nodes)
    sys.stderr.write(
        f"note: {counted(chips, 'chip')} on other nodes would keep dp {layout.dp}: "
        f"{printable('; '.join(steps))}{more}\n"
    )
