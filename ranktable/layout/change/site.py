"""What is known beside a table when it changes: traffic, racks, links of chips."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.layout.boundaries import node_boundary, smallest_first, super_pods
from ranktable.layout.change.rebuilt import with_nodes
from ranktable.layout.crossings import CostModel, lower_bound
from ranktable.layout.errors import LayoutError
from ranktable.layout.traffic import given_flows
from ranktable.schema.topology import SOPHGO_8

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ranktable.layout.boundaries import Boundary
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
"""Bytes of a group and step where nothing is said, in the order of most models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What decides about a change beside the table.

    Attributes:
        sizes: Bytes of a group and step by axes; ``TYPICAL_BYTES`` if None.
        racks: Returns what holds the nodes of a table, the smallest first.
        links: The links of the chips of a host; those of the published box where every
            node of a table is one of its rings.
    """

    sizes: Mapping[str, float] | None = None
    racks: Callable[[RankTable], Sequence[Boundary]] | None = None
    links: Topology | None = None

    def flows(self, layout: ParallelLayout) -> tuple[Flow, ...]:
        """Return what is sent along the axes of a layout that have partners."""
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
        """Return the boundaries of nodes, of which the first are those of a table."""
        every = with_nodes(table, nodes)
        beyond: list[Boundary] = []
        try:
            pods = super_pods(every)
        except LayoutError:
            pods = None  # of a new node is not known which one it is in
        if pods is not None:
            beyond.append(pods)
        if self.racks is not None:
            beyond += self.racks(every)
        beyond.sort(key=lambda boundary: -len(boundary.labels))
        return (node_boundary(every), *smallest_first(beyond))

    def links_of(self, table: RankTable) -> Topology | None:
        """Return the links of the chips, as far as they are known."""
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
    """What crosses one kind of boundary before and after a change.

    Attributes:
        name: What is crossed: ``node``, ``rack``.
        before: Bytes of a step before.
        after: Bytes of a step after.
        bound: Bytes that the new layout needs at least on these nodes.
    """

    name: str
    before: float
    after: float
    bound: float


def crossed(
    before: tuple[RankTable, ParallelLayout],
    after: tuple[RankTable, ParallelLayout],
    site: Site,
) -> tuple[Crossed, ...]:
    """Return what crosses nodes, racks and the like before and after a change."""
    sides = []
    for table, layout in (before, after):
        boundaries = site.boundaries(table, table.nodes)
        owners = [0] * table.world_size
        for at, node in enumerate(table.nodes):
            for device in node.devices:
                owners[device.rank] = at
        costs = CostModel(layout, site.flows(layout), boundaries)
        bounds = [
            lower_bound(layout, costs.flows, Counter(domain_of).values())
            for domain_of in costs.domains(owners)
        ]
        names = [boundary.name for boundary in boundaries]
        totals = costs.totals(owners)
        sides.append(dict(zip(names, zip(totals, bounds, strict=True), strict=True)))
    first, second = sides
    return tuple(
        Crossed(
            name=name,
            before=first.get(name, (0.0, 0.0))[0],
            after=second.get(name, (0.0, 0.0))[0],
            bound=second.get(name, (0.0, 0.0))[1],
        )
        for name in dict.fromkeys((*first, *second))
    )
