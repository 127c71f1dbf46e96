"""``ranktable replace-node``: replace one node of a table by another."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

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
from ranktable.cli.options import CostOptions, LayoutOptions
from ranktable.cli.parameters import TableArgument, flag
from ranktable.cli.table_input import table_with_gaps
from ranktable.layout.change.nodes import find_node, is_spare, named_table, node_names
from ranktable.layout.change.operations import replace_node as change
from ranktable.layout.parallel import neighbouring_tp, remembered
from ranktable.schema.text import printable

if TYPE_CHECKING:
    from ranktable.schema.model import Node, RankTable


@with_options(layout_options=LayoutOptions, costs=CostOptions, result=ChangeOutput)
def replace_node(
    *,
    file: TableArgument,
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD",
            help="The node to replace: its host, or its index if it has no host.",
        ),
    ],
    new: Annotated[
        str | None,
        typer.Argument(
            metavar="[NEW]",
            help=f"The new node, by default a spare of the table: {NODES_HELP}",
        ),
    ] = None,
    new_host: New = False,
    to_spares: Annotated[
        bool, flag("Keep OLD in the table, as a spare.", "--to-spares")
    ] = False,
    layout_options: LayoutOptions,
    costs: CostOptions,
    result: ChangeOutput,
) -> None:
    """Replace one node by another; no other rank moves.

    Without NEW, the spare in the same rack is taken, or else any spare with enough
    chips. A spare keeps its own chips. With --new, any other host gets the chips of
    the old node, in their order. A node with fewer chips is refused, and so is a node
    that is already in the table. Running it again changes nothing.

    Example: ranktable replace-node sccl_rank_table.json 0 n7 --new -o replaced.json
    """
    result.refuse_clash()
    read = table_with_gaps(file)
    table = named_table(read.table)
    node = None if new is None else _new_node(table, old, new, is_new=new_host)
    layout = None
    if layout_options.are_given or remembered(table) is not None:
        layout = layout_options.layout(
            table, may_lack_ranks=True, world_size=table.rank_end
        )
    facts = costs.facts(table, [node] if node and not isinstance(node, str) else ())
    tp = 1 if layout is None else neighbouring_tp(layout)
    changed = change(table, old, node, to_spares=to_spares, facts=facts, tp=tp)
    layouts = None if layout is None else (layout, layout)
    result.put(read, changed, layouts, facts=facts, may_have_gaps=True)
    if old not in node_names(table.nodes):
        # Either the command was run before, or OLD is a typing mistake.
        host = node.host if node and not isinstance(node, str) else node
        sys.stderr.write(
            f"note: there is no node {printable(repr(old))}, and "
            f"{printable(str(host))} is in the table already, so nothing was changed\n"
        )


def _new_node(table: RankTable, old: str, new: str, *, is_new: bool) -> Node | str:
    if is_file(new):
        return read_node(new, table)
    host = one_host(new)
    if host in node_names(table.nodes) or is_spare(table, host):
        return host
    return node_like(table, table.nodes[find_node(table, old)], host, is_new=is_new)
