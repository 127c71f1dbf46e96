"""``ranktable grow``: more nodes, and a layout that uses them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from ranktable.cli.app import with_options
from ranktable.cli.change_output import Again, ChangeOutput, tell_sizes
from ranktable.cli.node_arguments import (
    NODES_HELP,
    New,
    hosts_in,
    is_file,
    lacking_nodes,
    node_like,
    with_pods,
)
from ranktable.cli.options import CostOptions, LayoutOptions
from ranktable.cli.output import CommandError
from ranktable.cli.parameters import (
    KeepOption,
    RanksOption,
    TableArgument,
    flag,
    valued,
)
from ranktable.cli.table_input import table_with_gaps
from ranktable.cluster.host_lists import fold_hosts
from ranktable.layout.change.nodes import named_table, node_names, spares_of
from ranktable.layout.change.operations import grow as change
from ranktable.layout.layout_errors import ChangeError
from ranktable.schema.declare import SUPER_POD_KEY
from ranktable.schema.super_pods import PODS, servers_of
from ranktable.schema.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.model import Node, RankTable


@with_options(layout_options=LayoutOptions, costs=CostOptions, result=ChangeOutput)
def grow(
    *,
    file: TableArgument,
    add: Annotated[
        list[str] | None,
        valued("NODES", f"Nodes to add; hosts such as n[08-09], each {NODES_HELP}"),
    ] = None,
    spares: Annotated[bool, flag("Add all spares of the table.", "--spares")] = False,
    keep: KeepOption = "tp,pp,cp",
    ranks: RanksOption = None,
    layout_options: LayoutOptions,
    costs: CostOptions,
    pod: Annotated[
        str | None,
        valued("NAME", "Super pod of the new nodes, if their files do not name it."),
    ] = None,
    new: New = False,
    again: Again = False,
    result: ChangeOutput,
) -> None:
    """Add nodes to a table, and extend the layout of the model.

    The sizes of --keep stay; dp becomes as large as the nodes allow. If dp is the last
    axis of --order, no rank moves; otherwise the table is chosen as in shrink. A spare
    of the table keeps its own chips. With --new, any other host gets the chips of the
    last node. Chips that are not needed become spares.

    Example: ranktable gen --device-id '[[0..7]]' --hosts a -o - |
    ranktable grow - --add b --new --tp 4 -o grown.json
    """
    result.refuse_clash()
    if not add and not spares:
        raise CommandError("nothing to add; give --add NODES or --spares")
    read = table_with_gaps(file)
    table = named_table(read.table)
    nodes = _nodes(table, add or [], with_spares=spares, again=again, is_new=new)
    nodes = _in_pods(table, nodes, pod)
    layout = layout_options.layout(
        table,
        with_dp=bool(nodes) or not again,
        is_needed=True,
        may_lack_ranks=True,
        world_size=layout_options.whole_copies(table.rank_end),
    )
    facts = costs.facts(table, nodes)
    found = change(
        table, layout, nodes, kept=keep.split(","), world_size=ranks, facts=facts
    )
    layouts = (layout, found.layout)
    result.put(read, found.table, layouts, facts=facts, may_have_gaps=not nodes)
    tell_sizes(layout, found.layout)
    _say_spares(table, nodes)


def _say_spares(table: RankTable, used: Sequence[Node]) -> None:
    """Say which spares were there and not added."""
    added = {node.host for node in used}
    names = [name for name in node_names(spares_of(table)) if name not in added]
    if names:
        sys.stderr.write(
            f"note: --spares adds {printable(fold_hosts(names))} too, which the table "
            "declares\n"
        )


def _in_pods(table: RankTable, nodes: Sequence[Node], pod: str | None) -> list[Node]:
    """Return new nodes that name their super pods, if the table has super pods.

    Raises:
        CommandError: The super pod of a node is not known.
    """
    if PODS not in table.extra:
        if pod is not None:
            raise CommandError("--pod: the table has no super pods")
        return [*nodes]
    found = with_pods(nodes, [node.extra.get(SUPER_POD_KEY, pod) for node in nodes])
    listed = servers_of(table.extra[PODS])
    for node in found:
        if SUPER_POD_KEY not in node.extra and node.host not in listed:
            raise CommandError(
                f"the super pod of {node.host} is not known; give --pod NAME, or "
                "a rank table 1.2 of it"
            )
    return [*found]


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
            found += lacking_nodes(text, there, again=again)
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
