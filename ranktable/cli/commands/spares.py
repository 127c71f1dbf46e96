"""``ranktable spares``: nodes that can replace others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ranktable.cli.app import with_options
from ranktable.cli.change_output import Again, ChangeOutput
from ranktable.cli.node_arguments import (
    NODES_HELP,
    New,
    hosts_in,
    is_file,
    lacking_nodes,
    node_like,
)
from ranktable.cli.output import CommandError, OutputFormat, write
from ranktable.cli.parameters import FileArgument, valued
from ranktable.cli.sources import named_file
from ranktable.cli.table_input import table_with_gaps
from ranktable.layout.change.nodes import add_spares, named_table, spares_of, take_spare
from ranktable.report.json_document import json_document
from ranktable.schema.text import counted, fold_numbers, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.model import Node, RankTable


@with_options(result=ChangeOutput)
def spares(
    *,
    file: FileArgument = None,
    add: Annotated[
        list[str] | None,
        valued("NODES", f"Spares to add; hosts such as n[08-09], each {NODES_HELP}"),
    ] = None,
    remove: Annotated[
        list[str] | None, valued("NODES", "Spares to remove: hosts.")
    ] = None,
    new: New = False,
    again: Again = False,
    result: ChangeOutput,
) -> None:
    """Show, add or remove the spare nodes of a table.

    A spare has no rank. Spares are in the key spare_list, which no library reads;
    replace-node, shrink, grow and renumber use them. To add a host that no file
    describes, give --new: it gets the same chips as the last node.

    Example: ranktable spares sccl_rank_table.json --add n7 --new -o with_spare.json
    """
    read = table_with_gaps(named_file(file))
    table = read.table
    if not add and not remove:
        if result.in_place or result.output is not None:
            raise CommandError("nothing to write; give --add or --remove")
        _show(read.name, table, result.form)
        return
    result.refuse_clash()

    result.put(
        read,
        _changed(named_table(table), add or [], remove or [], again=again, is_new=new),
        may_have_gaps=True,
    )


def _changed(
    table: RankTable, added: list[str], removed: list[str], *, again: bool, is_new: bool
) -> RankTable:
    hosts = {node.host for node in spares_of(table)}
    for host in (host for text in removed for host in hosts_in(text)):
        if host in hosts or not again:
            table = take_spare(table, host)[1]
    known = {node.host for node in spares_of(table)}
    there = known | {node.host for node in table.nodes}
    new: list[Node] = []
    for text in added:
        if is_file(text):
            new += lacking_nodes(text, there, again=again)
            continue
        last = table.nodes[-1]
        new += [
            node_like(table, last, host, is_new=is_new or host in there)
            for host in hosts_in(text)
            if not (again and host in known)
        ]
    return add_spares(table, new)


def _show(name: str, table: RankTable, form: OutputFormat) -> None:
    nodes = spares_of(table)
    if form == "text":
        write(_lines(name, nodes))
        return
    write(_json(name, nodes))


def _json(name: str, nodes: list[Node]) -> Iterator[str]:
    """Yield the document, with one spare on each line."""
    chips = [[device.device_id for device in node.devices] for node in nodes]
    yield from json_document(
        {
            "file": name,
            "spares": (
                {"host": node.host, "device_ids": ids}
                for node, ids in zip(nodes, chips, strict=True)
            ),
            "totals": {"spares": len(nodes), "chips": sum(map(len, chips))},
        }
    )


def _lines(name: str, nodes: list[Node]) -> Iterator[str]:
    yield f"{printable(name)}: {counted(len(nodes), 'spare')}\n"
    for node in nodes:
        chips = fold_numbers([device.device_id for device in node.devices])
        name = node.host or "without a host"
        yield f"{printable(name)}: chips {chips}\n"
