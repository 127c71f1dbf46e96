"""``ranktable grow``: more nodes, and a layout that uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli import CommandError
from ranktable.cli.change_output import Again, ChangeOutput
from ranktable.cli.commands.shrink import KEEP_HELP, RANKS_HELP, say_sizes
from ranktable.cli.files import sound_table
from ranktable.cli.new_nodes import NODES_HELP, hosts_in, is_file, read_nodes
from ranktable.cli.options import LayoutOptions, with_options
from ranktable.layout.change.errors import ChangeError
from ranktable.layout.change.names import named
from ranktable.layout.change.resize import grow as change
from ranktable.layout.change.spares import spares_of
from ranktable.layout.change.twin import twin_of

if TYPE_CHECKING:
    from ranktable.schema.model import Node, RankTable


@with_options(layout_options=LayoutOptions, result=ChangeOutput)
def grow(
    *,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Rank table, or - for standard input.")
    ],
    add: Annotated[
        list[str] | None,
        typer.Option(
            "--add",
            metavar="NODES",
            help=f"Nodes that come; hosts such as n[08-09], each {NODES_HELP}",
        ),
    ] = None,
    spares: Annotated[
        bool, typer.Option("--spares", help="Add all spares of the table.")
    ] = False,
    keep: Annotated[str, typer.Option(metavar="LIST", help=KEEP_HELP)] = "tp,pp,cp",
    ranks: Annotated[
        int | None, typer.Option(min=1, metavar="N", help=RANKS_HELP)
    ] = None,
    layout_options: LayoutOptions,
    again: Again = False,
    result: ChangeOutput,
) -> None:
    """Add nodes to a table, and lay the model out over all of them.

    The sizes are those that the table has now. dp becomes as large as the nodes allow;
    as few chips as can be get another role or another rank, none where dp counts
    slowest. A host that is a spare of the table has the chips of the spare, any other
    those of the last node. Chips that there is no place for become spares.

    Example: ranktable gen --device-id '[[0..7]]' --hosts a -o - | ranktable grow -
    --add b --tp 4 -o grown.json
    """
    result.prepare()
    if not add and not spares:
        raise CommandError("nothing to add; give --add NODES or --spares")
    read = sound_table(file)
    table = read.table
    nodes = _nodes(table, add or [], with_spares=spares, again=again)
    layout = layout_options.layout(table.world_size, with_dp=bool(nodes) or not again)
    found = change(named(table), layout, nodes, kept=keep.split(","), world_size=ranks)
    result.put(read, found.table, (layout, found.layout))
    say_sizes(layout, found.layout)


def _nodes(
    table: RankTable, added: list[str], *, with_spares: bool, again: bool
) -> list[Node]:
    spares = spares_of(table)
    by_host = {node.host: node for node in spares}
    found: list[Node] = []
    for text in added:
        if is_file(text):
            found += read_nodes(text)
            continue
        last = table.nodes[-1]
        label = last.host or f"node {len(table.nodes) - 1}"
        found += [
            by_host.get(host) or twin_of(last, host, name=label)
            for host in hosts_in(text)
        ]
    if with_spares:
        found += [node for node in spares if node not in found]
    if again:
        there = {node.host for node in table.nodes if node.host is not None}
        found = [
            node for node in found if node.host in by_host or node.host not in there
        ]
    hosts = [node.host for node in found if node.host is not None]
    for host in hosts:
        if hosts.count(host) > 1:
            raise ChangeError(f"the node {host!r} is given twice")
    return found
