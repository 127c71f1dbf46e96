"""Split a table into one table for each node, or take the table of some ranks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.cluster.argument import ArgumentError
from ranktable.schema.declare import LAYOUT_KEY
from ranktable.schema.formats import by_name
from ranktable.schema.plain_data import plain_data
from ranktable.schema.text import counted
from ranktable.schema.writing import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ranktable.schema.model import Node, RankTable

_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,200}")
"""Hosts that are safe as file names: no slash, and no dot or dash at the beginning."""


def file_names(table: RankTable) -> list[str]:
    """Return the file name for every node: its host, or its number.

    Numbers are used for all nodes if one has no host, a host that is not a safe file
    name, or the host of another node. They are padded, so that a shell sorts them.
    """
    hosts = [node.host for node in table.nodes]
    are_names = all(host is not None and _FILE_NAME.fullmatch(host) for host in hosts)
    if are_names and len(set(hosts)) == len(hosts):
        return [f"{host}.json" for host in hosts]
    width = len(str(len(hosts) - 1))
    return [f"node-{place:0{width}}.json" for place in range(len(hosts))]


def split_by_node(table: RankTable, *, renumber: bool) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of a file for every node.

    Args:
        table: A sound table.
        renumber: Whether the ranks of every file begin at 0. If not, they stay the
            same, and only the file with rank 0 is a sound table by itself.
    """
    format_ = by_name(table.format)
    for name, node in zip(file_names(table), table.nodes, strict=True):
        chosen = [_renumbered(node) if renumber else node]
        part = with_nodes(table, chosen, is_renumbered=renumber)
        yield name, encode(plain_data(part, format_))


def begins_at_zero(node: Node) -> bool:
    """Whether a node alone is a sound table."""
    return any(device.rank == 0 for device in node.devices)


def _renumbered(node: Node) -> Node:
    return structs.replace(
        node,
        devices=tuple(
            structs.replace(device, rank=rank)
            for rank, device in enumerate(node.devices)
        ),
    )


def subset(table: RankTable, ranks: Sequence[int]) -> RankTable:
    """Return the table of some ranks; the new rank is the index in the list.

    Raises:
        ArgumentError: A rank is not in the table, or is given twice.
    """
    places = {rank: place for place, rank in enumerate(ranks)}
    if len(places) != len(ranks):
        twice = next(rank for at, rank in enumerate(ranks) if places[rank] != at)
        raise ArgumentError(f"rank {twice} is given twice")
    beyond = [rank for rank in ranks if not 0 <= rank < table.world_size]
    if beyond:
        size = counted(table.world_size, "rank")
        raise ArgumentError(f"rank {beyond[0]} is not among the {size} of the table")
    parts = (_part(node, places) for node in table.nodes)
    kept = sorted(
        (node for node in parts if node.devices), key=lambda node: node.devices[0].rank
    )
    return with_nodes(table, kept, is_renumbered=True)


def _part(node: Node, places: dict[int, int]) -> Node:
    devices = [
        structs.replace(device, rank=places[device.rank])
        for device in node.devices
        if device.rank in places
    ]
    ordered = sorted(devices, key=lambda device: device.rank)
    return structs.replace(node, devices=tuple(ordered))


def with_nodes(
    table: RankTable, nodes: Sequence[Node], *, is_renumbered: bool
) -> RankTable:
    """Return a table with some of its nodes, and only the super pods of these.

    If the ranks are counted again, the layout and the spares of the whole job are left
    out. Parts that keep their ranks keep them too, for merge.
    """
    size = sum(len(node.devices) for node in nodes)
    if not is_renumbered or size == table.world_size:
        return table.with_changes(nodes=nodes)
    extra = without_job(table.extra)
    return table.with_changes(nodes=nodes, spares=(), extra=extra)


def without_job(extra: Mapping[str, object]) -> dict[str, object]:
    """Return the keys of a table without those that concern all ranks of a job."""
    return {k: v for k, v in extra.items() if k != LAYOUT_KEY}
