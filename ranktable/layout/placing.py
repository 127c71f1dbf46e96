"""A table with its ranks placed in another way, and its key for a free placement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ranktable.schema.format import FREE, PLACEMENT_KEY

if TYPE_CHECKING:
    from ranktable.layout.crossings import Owners
    from ranktable.schema.model import Node, RankTable


def is_free(table: RankTable) -> bool:
    """Whether RANK comes from the table, so that a node may hold any ranks."""
    return table.extra.get(PLACEMENT_KEY) == FREE


def place_ranks(table: RankTable, owners: Owners) -> RankTable:
    """Return a table whose nodes hold other ranks, the nodes in the order of ranks.

    Every node keeps the order of its chips, and has its ranks in increasing order. If
    the ranks of a node are not consecutive, the new table says so in a key; without the
    key, ``validate`` would report an error.

    Args:
        table: The table.
        owners: Node of every rank; each node has as many ranks as devices.
    """
    ranks: list[list[int]] = [[] for _ in table.nodes]
    for rank, node in enumerate(owners):
        ranks[node].append(rank)
    nodes = [_renumbered(n, own) for n, own in zip(table.nodes, ranks, strict=True)]
    nodes.sort(key=lambda node: node.devices[0].rank)
    extra = {key: value for key, value in table.extra.items() if key != PLACEMENT_KEY}
    if any(own[-1] - own[0] >= len(own) for own in ranks):
        extra[PLACEMENT_KEY] = FREE
    return table.with_changes(nodes=nodes, extra=extra)


def _renumbered(node: Node, ranks: list[int]) -> Node:
    devices = sorted(node.devices, key=lambda device: device.rank)
    return replace(
        node,
        devices=tuple(
            replace(device, rank=rank)
            for device, rank in zip(devices, ranks, strict=True)
        ),
    )
