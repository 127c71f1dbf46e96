"""The chips of a node in an order that makes rings of the groups inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError
from ranktable.schema.chip_order import best_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.chip_order import ChipOrder
    from ranktable.schema.topology import Topology


def ring_orders(
    topology: Topology, chips: Sequence[int], limit: int = 4
) -> list[tuple[int, ...]]:
    """Return the closed rings of links through exactly these chips.

    Every rotation of one and either direction is legal too; the one that begins with
    the first chip stands for all of them.

    Args:
        topology: The links of the host.
        chips: Distinct chips.
        limit: Number of rings after which the search stops.
    """
    return topology.rings(chips, limit)


def best_chip_order(
    topology: Topology,
    chips: Sequence[int],
    layout: ParallelLayout,
    *,
    axes: str = "tp",
    first_rank: int = 0,
) -> ChipOrder | None:
    """Return the order of a node's chips with the fewest hops around its groups.

    Args:
        topology: The links of the host.
        chips: Distinct chips of the node.
        layout: The layout.
        axes: Axes of the groups that are to be rings.
        first_rank: Rank of the first process of the node.

    Returns:
        The order, None where there is none; ``is_ring`` says whether it is a closed
        ring of all chips, as SCCL needs it.

    Raises:
        LayoutError: A group leaves the node.
    """
    here = range(first_rank, first_rank + len(chips))
    groups = layout.along(axes)
    inside: dict[int, list[int]] = {}
    for rank in here:
        index = groups.index_of(rank)
        if index not in inside:
            inside[index] = groups[index]
    for index, ranks in inside.items():
        if not all(rank in here for rank in ranks):
            raise LayoutError(
                f"group {index} of {axes} {groups.group_size} leaves the node of "
                f"{len(chips)} chips with ranks {here[0]} to {here[-1]}, so it can be "
                "no ring of its links"
            )
    places = [[rank - first_rank for rank in ranks] for ranks in inside.values()]
    return best_order(topology, chips, places)
