"""From chips to a rank table: ranks count over the nodes in the order given."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.schema.chip_order import compare_orders
from ranktable.schema.messages import counted
from ranktable.schema.model import Device, Node, RankTable
from ranktable.schema.rules.placement import suggest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.chip_order import ChipOrder
    from ranktable.schema.model import Layout
    from ranktable.schema.topology import Topology


def make_table(
    chips: Sequence[Sequence[int]],
    *,
    addresses: Sequence[Sequence[str | None]] | None = None,
    hosts: Sequence[str] | None = None,
    is_emulated: bool = False,
    layouts: Sequence[Sequence[Layout]] | None = None,
) -> RankTable:
    """Return the table whose ranks count over these chips.

    Args:
        chips: ``device_id`` of every chip, one sequence a node, in rank order.
        addresses: An address for every chip or None, in the same shape.
        hosts: The host of each node.
        is_emulated: Whether these are addresses of emulated devices.
        layouts: How to spell every device, in the same shape.
    """
    nodes = []
    rank = 0
    for node_rank, device_ids in enumerate(chips):
        devices = []
        for local_rank, device_id in enumerate(device_ids):
            devices.append(
                Device(
                    rank=rank,
                    device_id=device_id,
                    address=addresses[node_rank][local_rank] if addresses else None,
                    is_emulated=is_emulated,
                    layout=layouts[node_rank][local_rank] if layouts else None,
                )
            )
            rank += 1
        host = hosts[node_rank] if hosts else None
        nodes.append(Node(devices=tuple(devices), host=host))
    return RankTable(nodes=tuple(nodes))


def ring_order(device_ids: Sequence[int], topology: Topology) -> list[int]:
    """Return a node's chips in ring order, as they are if they are in it already.

    The ring begins with the first chip given and, of its two directions, goes to the
    smaller neighbour first.

    Raises:
        ArgumentError: These chips form no ring; the hint names those that do.
    """
    if not topology.broken_links(device_ids):
        return list(device_ids)
    rings = topology.rings(device_ids, limit=1)
    if not rings:
        listed = ",".join(map(str, device_ids))
        raise ArgumentError(
            f"the chips {listed} form no ring of {topology.name}",
            hint=suggest(device_ids, topology),
        )
    return list(rings[0])


def grouped_ring_order(
    device_ids: Sequence[int], topology: Topology, tp: int
) -> ChipOrder:
    """Return a node's chips in a ring order that closes the tensor parallel groups.

    Where no order does, it is one with the fewest hops around them; the chips stay as
    they are if no order is better.

    Args:
        device_ids: The chips.
        topology: The links of the host.
        tp: Size of the groups of consecutive ranks.

    Raises:
        ArgumentError: These chips form no ring, or the groups do not fill the node.
    """
    ordered = tuple(ring_order(device_ids, topology))
    size = len(ordered)
    if size % tp:
        fitting = ", ".join(str(d) for d in range(1, size + 1) if size % d == 0)
        raise ArgumentError(
            f"groups of {tp} do not fill a node of {counted(size, 'chip')}",
            hint=f"groups that do have {fitting} ranks",
        )
    here, best = compare_orders(topology, ordered, tp)
    if here is None or best is None:  # a ring has a way between any two of its chips
        raise AssertionError(ordered)
    return best if best.hops < here.hops else replace(here, is_proven=best.is_proven)
