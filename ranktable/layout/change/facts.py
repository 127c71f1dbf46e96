"""Facts besides the table that decide about a change: traffic, racks, chip links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.layout.boundaries import (
    boundaries_of,
    node_boundary,
    smallest_first,
    super_pods,
)
from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.traffic import LOST, CostModel, given_flows
from ranktable.schema.topology import SOPHGO_8

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.layout.boundaries import Boundary, Hierarchy
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.layout.traffic import Flow
    from ranktable.schema.model import Node, RankTable
    from ranktable.schema.topology import Topology

_MIB = 1024**2
TYPICAL_BYTES: Mapping[str, float] = {
    "tp": 16384 * _MIB,
    "cp": 4096 * _MIB,
    "ep": 4096 * _MIB,
    "dp": 2304 * _MIB,
    "pp": 256 * _MIB,
}
"""Bytes of a group and step if none are given; their order is that of most models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostFacts:
    """Facts besides the table that decide about a change.

    Attributes:
        sizes: Bytes of a group and step by axes; ``TYPICAL_BYTES`` if None.
        racks: The groups of nodes, by the names of the nodes.
        racks_file: The name of their file, for messages.
        links: The links of the chips of a host; by default those of the published
            8-chip box, if every node of the table is one of its rings.
    """

    sizes: Mapping[str, float] | None = None
    racks: Hierarchy | None = None
    racks_file: str = ""
    links: Topology | None = None

    def flows(self, layout: ParallelLayout) -> tuple[Flow, ...]:
        """Return what is sent along every axis of more than one rank."""
        sizes = TYPICAL_BYTES if self.sizes is None else self.sizes
        known = {*layout.axes}
        return given_flows(
            {
                axes: size
                for axes, size in sizes.items()
                if known.issuperset(axes.split("-"))
                and layout.along(axes).group_size > 1
            },
            layout,
        )

    def boundaries(
        self, table: RankTable, nodes: Sequence[Node]
    ) -> tuple[Boundary, ...]:
        """Return the boundaries of nodes, which begin with those of a table."""
        every = table if nodes is table.nodes else table.with_changes(nodes=nodes)
        beyond: list[Boundary] = []
        try:
            pods = super_pods(every)
        except LayoutError:
            pods = None  # it is not known in which super pod a new node is
        if pods is not None:
            beyond.append(pods)
        if self.racks is not None:
            beyond += boundaries_of(self.racks, every.hosts, file=self.racks_file)
        beyond.sort(key=lambda boundary: -len(boundary.labels))
        return (node_boundary(every), *smallest_first(beyond))

    def links_of(self, table: RankTable) -> Topology | None:
        """Return the links of the chips, None if they are not known."""
        if self.links is not None:
            return self.links
        orders = {tuple(d.device_id for d in node.devices) for node in table.nodes}
        is_ring = all(
            max(order) < SOPHGO_8.num_chips and not SOPHGO_8.broken_links(order)
            for order in orders
        )
        is_sorted = all(list(order) == sorted(order) for order in orders)
        return SOPHGO_8 if is_ring and not is_sorted else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossed:
    """Bytes over one kind of boundary before and after a change.

    Attributes:
        name: Name of the boundary: ``node``, ``rack``.
        before: Bytes of a step before.
        after: Bytes of a step after.
        bound: Lower bound of the bytes of the new layout on these nodes, 0 if unknown.
    """

    name: str
    before: float
    after: float
    bound: float


def crossed(
    before: tuple[RankTable, ParallelLayout],
    after: tuple[RankTable, ParallelLayout],
    facts: CostFacts,
) -> tuple[Crossed, ...]:
    """Return the bytes that cross nodes, racks and so on, before and after a change.

    In a table with gaps, only the bytes between ranks that it has are counted.
    """
    sides = []
    bounds: dict[str, float] = {}
    for table, layout in (before, after):
        boundaries = facts.boundaries(table, table.nodes)
        owners = [LOST] * layout.world_size
        for at, node in enumerate(table.nodes):
            for device in node.devices:
                owners[device.rank] = at
        costs = CostModel(layout, facts.flows(layout), boundaries)
        names = [boundary.name for boundary in boundaries]
        sides.append(dict(zip(names, costs.totals(owners), strict=True)))
    if LOST not in owners:
        sizes = [len(node.devices) for node in table.nodes]
        bounds = dict(zip(names, costs.bounds(sizes), strict=True))
    first, second = sides
    return tuple(
        Crossed(
            name=name,
            before=first[name],
            after=total,
            bound=bounds.get(name, 0.0),
        )
        for name, total in second.items()
        if name in first
    )
