"""``ranktable grow``: more nodes, and a layout that uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli import CommandError
from ranktable.cli.app import with_options
from ranktable.cli.change_output import Again, ChangeOutput
from ranktable.cli.commands.shrink import (
    KEEP_HELP,
    RANKS_HELP,
    say_sizes,
    table_with_gaps,
)
from ranktable.cli.new_nodes import (
    NODES_HELP,
    New,
    hosts_in,
    is_file,
    node_like,
    read_nodes,
)
from ranktable.cli.options import LayoutOptions
from ranktable.cli.site_options import SiteOptions
from ranktable.layout.change.errors import ChangeError
from ranktable.layout.change.resize import grow as change
from ranktable.layout.change.spares import named_table, spares_of

if TYPE_CHECKING:
    from ranktable.schema.model import Node, RankTable


@with_options(layout_options=LayoutOptions, site=SiteOptions, result=ChangeOutput)
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
    site: SiteOptions,
    new: New = False,
    again: Again = False,
    result: ChangeOutput,
) -> None:
    """Add nodes to a table, and extend the layout of the model to them.

    The sizes are those that the table has now. dp becomes as large as the nodes allow.
    What comes first is as in shrink; where dp counts slowest, no rank moves. A host
    that is a spare of the table has the chips of the spare; with --new any other has
    those of the last node. Chips that there is no place for become spares.

    Example: ranktable gen --device-id '[[0..7]]' --hosts a -o - | ranktable grow -
    --add b --new --tp 4 -o grown.json
    """
    result.refuse_clash()
    if not add and not spares:
        raise CommandError("nothing to add; give --add NODES or --spares")
    read = table_with_gaps(file)
    table = named_table(read.table)
    nodes = _nodes(table, add or [], with_spares=spares, again=again, is_new=new)
    layout = layout_options.layout(
        table, with_dp=bool(nodes) or not again, is_needed=True
    )
    where = site.site(table)
    found = change(
        table, layout, nodes, kept=keep.split(","), world_size=ranks, site=where
    )
    result.put(
        read,
        found.table,
        (layout, found.layout),
        site=where,
        is_optimal=found.is_optimal,
    )
    say_sizes(layout, found.layout)


def _nodes(
    table: RankTable,
    added: list[str],
    *,
    with_spares: bool,
    again: bool,
    is_new: bool,
) -> list[Node]:
    spares = spares_of(table)
    by_host = {node.host: node for node in spares}
    there = {node.host for node in table.nodes}
    found: list[Node] = []
    for text in added:
        if is_file(text):
            found += read_nodes(text)
            continue
        hosts = [host for host in hosts_in(text) if not (again and host in there)]
        found += [
            by_host.get(host) or node_like(table, table.nodes[-1], host, is_new=is_new)
            for host in hosts
        ]
    if with_spares:
        found += [node for node in spares if node not in found]
    if again:
        found = [
            node for node in found if node.host in by_host or node.host not in there
        ]
    hosts = [node.host for node in found if node.host is not None]
    for host in hosts:
        if hosts.count(host) > 1:
            raise ChangeError(f"the node {host!r} is given twice")
    return found
