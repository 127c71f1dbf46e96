"""Replace one node by another; every rank keeps its number and its role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.layout.change.names import find_node, node_names
from ranktable.layout.change.rebuilt import joined, with_nodes, with_pods
from ranktable.layout.change.spare_nodes import (
    is_spare,
    refuse_present,
    spares_of,
    take_spare,
    with_spares,
    without_lost,
)
from ranktable.layout.change.twin import twin_of
from ranktable.layout.layout_errors import ChangeError
from ranktable.schema.diagnostic import counted
from ranktable.schema.format import STANDS_IN_KEY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ranktable.schema.model import Node, RankTable


def replace_node(
    table: RankTable, old: str, new: str | Node, *, to_spares: bool = False
) -> RankTable:
    """Return a table in which another node carries the ranks of one.

    A spare remembers the node that it replaces, and becomes a spare again when that
    node returns. With ``to_spares`` any new node does. A second call changes nothing,
    because the old node is no longer there and the new one is.

    Args:
        table: The table.
        old: Name of the node: its host, or its number where it has none.
        new: A node, or the name of a host: a spare of the table, or a host with the
            same chips as the old one.
        to_spares: Whether the old node still works and becomes a spare.

    Raises:
        ChangeError: There is no such node, the new one is in the table already, or it
            has fewer chips.
    """
    host = new if isinstance(new, str) else new.host
    names = node_names(table.nodes)
    if old not in names and host is not None and host in names:
        return table
    place = find_node(table, old)
    gone = table.nodes[place]
    if new == gone.host:
        return table
    is_back = stands_in_for(gone) == host
    if not (to_spares or is_back):
        table = without_lost(table, [place])
    was_spare = host is not None and is_spare(table, host)
    if host is not None and was_spare:
        spare, table = take_spare(table, host)
        node = spare if isinstance(new, str) else new
    else:
        node = twin_of(gone, new, name=old) if isinstance(new, str) else new
    if (was_spare or to_spares) and not is_back:
        node = structs.replace(node, extra={**node.extra, STANDS_IN_KEY: old})
    if node.host is None or node.host != gone.host:
        refuse_present(table, node.host)
    nodes = list(table.nodes)
    nodes[place] = _in_place_of(gone, node, old)
    used = {device.device_id for device in nodes[place].devices}
    idle = [_without(node, used)] if was_spare else []
    if to_spares or is_back:
        idle += with_pods(table, [_without(gone, ())])
    renamed = {gone.host: node.host} if gone.host and node.host else None
    return _with_more_spares(with_nodes(table, nodes, renamed), idle)


def stands_in_for(node: Node) -> object:
    """Return the name of the node that a spare replaces, None if there is none."""
    return node.extra.get(STANDS_IN_KEY)


def _without(node: Node, used: Collection[int]) -> Node:
    """Return a node as a spare, without some of its chips."""
    idle = tuple(one for one in node.devices if one.device_id not in used)
    return structs.replace(node, devices=idle)


def _with_more_spares(table: RankTable, idle: Iterable[Node]) -> RankTable:
    """Return a table with more spares; chips of one host form one spare."""
    found = [node for node in idle if node.devices]
    return with_spares(table, joined([*spares_of(table), *found])) if found else table


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
    # If the chips are the same in the same order, a ring stays a ring.
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
