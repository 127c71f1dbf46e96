"""Another node in the place of one; every rank stays where it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.layout.change.errors import ChangeError
from ranktable.layout.change.names import find_nodes, node_names
from ranktable.layout.change.rebuilt import with_nodes
from ranktable.layout.change.spares import is_spare, refuse_present, take_spare
from ranktable.layout.change.twin import twin_of
from ranktable.schema.messages import counted

if TYPE_CHECKING:
    from ranktable.schema.model import Node, RankTable


def replace_node(table: RankTable, old: str, new: str | Node) -> RankTable:
    """Return a table in which another node carries the ranks of one.

    Doing it again changes nothing: the old node is gone, and the new one is there.

    Args:
        table: The table.
        old: Name of the node: its host, or its number where it has none.
        new: A node; or the name of a host, which is a spare of the table, or has the
            chips that the old one has.

    Raises:
        ChangeError: There is no such node, the new one is in the table already, or it
            has fewer chips.
    """
    host = new if isinstance(new, str) else new.host
    names = node_names(table.nodes)
    if old not in names and host is not None and host in names:
        return table
    (place,) = find_nodes(table, [old])
    gone = table.nodes[place]
    if isinstance(new, str):
        if new == gone.host:
            return table
        if is_spare(table, new):
            node, table = take_spare(table, new)
        else:
            node = twin_of(gone, new, name=old)
    else:
        node = new
    if node.host is None or node.host != gone.host:
        refuse_present(table, node)
    nodes = list(table.nodes)
    nodes[place] = _in_place_of(gone, node, old)
    return with_nodes(table, nodes)


def _in_place_of(gone: Node, node: Node, old: str) -> Node:
    """Return a node that carries the ranks of another, its chips in the same order."""
    wanted = len(gone.devices)
    if len(node.devices) < wanted:
        name = "the new node" if node.host is None else node.host
        raise ChangeError(
            f"{name} has {counted(len(node.devices), 'chip')}, and {old} carries "
            f"{counted(wanted, 'rank')}"
        )
    by_id = {device.device_id: device for device in node.devices}
    ids = [device.device_id for device in gone.devices]
    # The same chips in the same order keep a ring a ring.
    chosen = (
        [by_id[one] for one in ids]
        if by_id.keys() >= set(ids)
        else list(node.devices[:wanted])
    )
    devices = tuple(
        structs.replace(device, rank=before.rank, layout=before.layout)
        for device, before in zip(chosen, gone.devices, strict=True)
    )
    return structs.replace(node, devices=devices, layout=gone.layout)
