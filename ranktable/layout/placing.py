"""A table whose nodes are in another order."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.model import RankTable


def reorder_nodes(table: RankTable, order: Sequence[int]) -> RankTable:
    """Return a table with its nodes in another order; each keeps that of its chips.

    Args:
        table: The table.
        order: The places of all nodes in their new order.
    """
    ranks = count()
    nodes = []
    for place in order:
        node = table.nodes[place]
        devices = sorted(node.devices, key=lambda device: device.rank)
        moved = tuple(replace(device, rank=next(ranks)) for device in devices)
        nodes.append(replace(node, devices=moved))
    return table.with_changes(nodes=nodes)
