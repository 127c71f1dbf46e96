"""``ranktable replace-node``: another node in the place of one."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ranktable.cli.change_output import ChangeOutput
from ranktable.cli.files import sound_table
from ranktable.cli.new_nodes import NODES_HELP, is_file, one_host, read_node
from ranktable.cli.options import with_options
from ranktable.layout.change.names import named, node_names
from ranktable.layout.change.replace import replace_node as change
from ranktable.schema.messages import printable


@with_options(result=ChangeOutput)
def replace_node(
    *,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Rank table, or - for standard input.")
    ],
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD",
            help="The node that goes: its host, or its number where it has none.",
        ),
    ],
    new: Annotated[
        str, typer.Argument(metavar="NEW", help=f"The node that comes: {NODES_HELP}")
    ],
    result: ChangeOutput,
) -> None:
    """Put another node in the place of one; no other rank moves.

    A host that is a spare of the table has the chips of the spare, any other the chips
    of the old node, in their order. A node with fewer chips is refused, and so is one
    that is in the table already. Done again, it changes nothing, and says so.

    Example: ranktable replace-node sccl_rank_table.json 0 n7 -o replaced.json
    """
    result.prepare()
    read = sound_table(file)
    table = read.table
    node = read_node(new) if is_file(new) else one_host(new)
    changed = change(named(table), old, node)
    result.put(read, changed)
    if old not in node_names(table.nodes):
        # The command was done before, or OLD is a slip of the pen: who knows.
        host = node if isinstance(node, str) else str(node.host)
        sys.stderr.write(
            f"note: there is no node {printable(repr(old))}, and {printable(host)} is "
            "in the table already, so nothing was changed\n"
        )
