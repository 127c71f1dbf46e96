"""One table becomes several, one per node."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.cluster.subsetting import with_nodes
from ranktable.schema.formats import by_name
from ranktable.schema.writing import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.model import Node, RankTable

_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,200}")
"""Hosts that are safe as a name of a file: no slash, no leading dot or dash."""


def file_names(table: RankTable) -> list[str]:
    """Return the name of every node's file: its host, or its number.

    Numbers are used for all nodes where one has no host, or one that is not a name of a
    file; they are padded, so that a shell lists them in order.
    """
    hosts = [node.host for node in table.nodes]
    if all(host is not None and _FILE_NAME.fullmatch(host) for host in hosts):
        return [f"{host}.json" for host in hosts]
    width = len(str(len(hosts) - 1))
    return [f"node-{place:0{width}}.json" for place in range(len(hosts))]


def split_by_node(table: RankTable, *, renumber: bool) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of every node's file.

    Args:
        table: A sound table.
        renumber: Whether the ranks of every file begin at 0. If not, they stay as they
            are, and only the file with rank 0 is a sound table by itself.
    """
    format_ = by_name(table.format)
    for name, node in zip(file_names(table), table.nodes, strict=True):
        chosen = [_renumbered(node) if renumber else node]
        part = with_nodes(table, chosen, is_renumbered=renumber)
        yield name, encode(format_.write(part))


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
