"""Groups inside a node as rings of chip links, and the best chip order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.megatron import groups_named
from ranktable.schema.text import counted
from ranktable.schema.topology import best_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import RankTable
    from ranktable.schema.topology import ChipOrder, Topology


def ring_orders(
    topology: Topology, chips: Sequence[int], limit: int = 4
) -> list[tuple[int, ...]]:
    """Return the closed rings of links through exactly these chips.

    All rotations and both directions of a ring are legal too. Only the one that begins
    with the first chip is returned.

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
        axes: Axes of the groups that must be rings.
        first_rank: Rank of the first process of the node.

    Returns:
        The order, None if there is none; ``is_ring`` says whether it is a closed
        ring of all chips, as SCCL requires.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RingRow:
    """The groups along some axes that lie inside nodes.

    Attributes:
        inside: Number of groups inside nodes.
        closed: How many of these are closed rings of links.
        hops: Number of links on the way around all of them, None if there is no way.
    """

    inside: int
    closed: int
    hops: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RingRows:
    """The ring rows of a plan, for every axis.

    Attributes:
        before: The rows with the placement of the table.
        after: The rows with the better placement.
    """

    before: dict[str, RingRow]
    after: dict[str, RingRow]


def ring_rows(
    table: RankTable,
    layout: ParallelLayout,
    topology: Topology,
    axes: Iterable[str],
) -> dict[str, RingRow]:
    """Return for every axis the ring row of its groups inside nodes.

    Args:
        table: The table.
        layout: The layout.
        topology: The links of every host.
        axes: The axes, or names of groups of ``groups_named``.

    Raises:
        LayoutError: A chip is not in the topology.
    """
    chips = table.chip_map
    highest = max(chips)
    if highest >= topology.num_chips:
        raise LayoutError(
            f"chip {highest} is not one of the "
            f"{counted(topology.num_chips, 'chip')} of {topology.name}"
        )
    nodes = table.node_ranks
    groups = {name: groups_named(layout, name) for name in axes}
    return {name: _row(of, nodes, chips, topology) for name, of in groups.items()}


def _row(
    groups: Iterable[Sequence[int]],
    nodes: Sequence[int],
    chips: Sequence[int],
    topology: Topology,
) -> RingRow:
    known: dict[tuple[int, ...], tuple[bool, int | None]] = {}
    found = []
    for ranks in groups:
        if len({nodes[rank] for rank in ranks}) == 1:
            order = tuple(chips[rank] for rank in ranks)
            if order not in known:  # most nodes of a cluster are alike
                known[order] = (
                    not topology.broken_links(order),
                    _hops(order, topology),
                )
            found.append(known[order])
    hops = [way for _, way in found]
    return RingRow(
        inside=len(found),
        closed=sum(is_closed for is_closed, _ in found),
        hops=None if None in hops else sum(way or 0 for way in hops),
    )


def _hops(order: tuple[int, ...], topology: Topology) -> int | None:
    after = (*order[1:], order[0])
    steps = [
        topology.distances_from(one).get(other)
        for one, other in zip(order, after, strict=True)
    ]
    return None if None in steps else sum(step or 0 for step in steps)
