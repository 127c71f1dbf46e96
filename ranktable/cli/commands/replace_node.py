"""``ranktable replace-node``: replace one node of a table by another."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ranktable.cli.app import with_options
from ranktable.cli.change_output import ChangeOutput
from ranktable.cli.node_arguments import (
    NODES_HELP,
    New,
    is_file,
    node_like,
    one_host,
    read_node,
)
from ranktable.cli.options import LayoutOptions, SiteOptions
from ranktable.cli.parameters import TableArgument, flag
from ranktable.cli.table_input import table_with_gaps
from ranktable.layout.change.names import find_node, node_names
from ranktable.layout.change.replace import replace_node as change
from ranktable.layout.change.replace import stands_in_for
from ranktable.layout.change.spare_nodes import is_spare, named_table
from ranktable.layout.parallel import remembered
from ranktable.schema.diagnostic import printable


@with_options(layout_options=LayoutOptions, site=SiteOptions, result=ChangeOutput)
def replace_node(
    *,
    file: TableArgument,
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD",
            help="The node to replace: its host, or its number if it has no host.",
        ),
    ],
    new: Annotated[
        str, typer.Argument(metavar="NEW", help=f"The new node: {NODES_HELP}")
    ],
    new_host: New = False,
    to_spares: Annotated[
        bool, flag("Keep OLD in the table, as a spare.", "--to-spares")
    ] = False,
    layout_options: LayoutOptions,
    site: SiteOptions,
    result: ChangeOutput,
) -> None:
    """Replace one node by another; no other rank moves.

    A spare of the table keeps its own chips. With --new, any other host gets the chips
    of the old node, in their order. When a node that a spare has replaced comes back,
    or one that went to the spares, its replacement becomes a spare. A node with fewer
    chips is refused, and so is a node that is already in the table. Running it again
    changes nothing.

    Example: ranktable replace-node sccl_rank_table.json 0 n7 --new -o replaced.json
    """
    result.refuse_clash()
    read = table_with_gaps(file)
    table = named_table(read.table)
    node = read_node(new) if is_file(new) else one_host(new)
    if isinstance(node, str) and node not in node_names(table.nodes):
        place = find_node(table, old)
        gone = table.nodes[place]
        if not is_spare(table, node) and stands_in_for(gone) != node:
            node = node_like(table, gone, node, is_new=new_host)
    changed = change(table, old, node, to_spares=to_spares)
    layouts = None
    if layout_options.are_given or remembered(table) is not None:
        layout = layout_options.layout(table, world_size=table.rank_end)
        layouts = (layout, layout)
    result.put(read, changed, layouts, site=site.site(table), may_have_gaps=True)
    if old not in node_names(table.nodes):
        # Either the command was run before, or OLD is a typing mistake.
        host = node if isinstance(node, str) else str(node.host)
        sys.stderr.write(
            f"note: there is no node {printable(repr(old))}, and {printable(host)} is "
            "in the table already, so nothing was changed\n"
        )
