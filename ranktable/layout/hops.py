"""Groups inside a node as rings of the links between its chips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError
from ranktable.schema.messages import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import RankTable
    from ranktable.schema.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class RingRow:
    """The groups along some axes that lie inside nodes.

    Attributes:
        inside: Their number.
        closed: How many of them are closed rings of links.
        hops: Links on the way around all of them, None where there is no way.
    """

    inside: int
    closed: int
    hops: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RingRows:
    """The rings of a plan, for every axis.

    Attributes:
        before: Those of the table.
        after: Those of the better placement.
    """

    before: dict[str, RingRow]
    after: dict[str, RingRow]


def ring_rows(
    table: RankTable,
    layout: ParallelLayout,
    topology: Topology,
    axes: Iterable[str],
) -> dict[str, RingRow]:
    """Return for every axis how its groups inside nodes run over the links.

    Args:
        table: The table.
        layout: The layout.
        topology: The links of every host.
        axes: The axes.

    Raises:
        LayoutError: A chip is not among those of the topology.
    """
    chips = table.chip_map
    highest = max(chips)
    if highest >= topology.num_chips:
        raise LayoutError(
            f"chip {highest} is not one of the "
            f"{counted(topology.num_chips, 'chip')} of {topology.name}"
        )
    nodes = [table.node_rank_of(rank) for rank in range(table.world_size)]
    return {name: _row(layout.along(name), nodes, chips, topology) for name in axes}


def _row(
    groups: Iterable[list[int]],
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
