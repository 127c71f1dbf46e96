"""Fewer or more ranks, in a layout that still fits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import starmap
from typing import TYPE_CHECKING

from ranktable.layout.change.arrange import ArrangementRequest, arrange
from ranktable.layout.change.assign import Chip, Place
from ranktable.layout.change.fitting import fit_layout
from ranktable.layout.change.rebuilt import (
    joined,
    left_of,
    with_nodes,
    with_pods,
    with_ranks,
)
from ranktable.layout.change.roles import KEPT, roles
from ranktable.layout.change.site import Site
from ranktable.layout.change.spare_nodes import (
    refuse_present,
    spares_of,
    standing_in,
    with_spares,
    without_lost,
)
from ranktable.layout.crossings import CostModel
from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.parallel import remembered
from ranktable.layout.placing import is_free
from ranktable.layout.sizes import factors
from ranktable.schema.diagnostic import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import Device, Node, RankTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized:
    """A table with another number of ranks.

    Attributes:
        table: The table. Chips that no longer carry a rank are among its spares.
        layout: Its new layout.
        is_optimal: Whether every placement was considered.
    """

    table: RankTable
    layout: ParallelLayout
    is_optimal: bool = field(default=False, compare=False)


def shrink(
    table: RankTable,
    layout: ParallelLayout,
    drop: Collection[int],
    *,
    ranks: Collection[int] = (),
    kept: Collection[str] = KEPT,
    world_size: int | None = None,
    site: Site | None = None,
) -> Resized:
    """Return a table without some nodes, with the largest layout for the other nodes.

    The spares of the table are used, but the number of ranks does not grow. ``arrange``
    lists the priorities. Chips that are not needed become spares.

    Args:
        table: The table.
        layout: Its layout now.
        drop: The places of the lost nodes.
        ranks: The ranks of single lost chips.
        kept: The sizes that stay as they are.
        world_size: The number of ranks, by default as many as fit.
        site: Traffic, racks and links of the chips.

    Raises:
        ChangeError: No node would be left.
        LayoutError: The layout has another number of ranks, or none fits the rest.
    """
    _refuse_other(table, layout)
    is_whole = layout.world_size == table.world_size
    if not drop and not ranks and is_whole and world_size in (None, table.world_size):
        return Resized(table=table, layout=layout)
    table = without_lost(table, drop)
    spares = spares_of(table)
    left = left_of(table, drop, ranks)
    room = sum(map(len, left)) + sum(len(node.devices) for node in spares)
    most = min(room, layout.world_size)
    fitting = fit_layout(layout, most, kept, world_size=world_size)
    return _resized(table, (layout, fitting), left, spares, kept, site or Site())


def grow(
    table: RankTable,
    layout: ParallelLayout,
    nodes: Sequence[Node],
    *,
    kept: Collection[str] = KEPT,
    world_size: int | None = None,
    site: Site | None = None,
) -> Resized:
    """Return a table with more nodes, and the largest layout for all of them.

    ``arrange`` lists the priorities. If dp is the slowest axis, no chip changes its
    role or its rank. Chips that are not needed become spares.

    Args:
        table: The table.
        layout: Its layout now.
        nodes: The new nodes; if a host is in the table already, its new chips join it.
        kept: The sizes that stay as they are.
        world_size: The number of ranks, by default as many as fit.
        site: Traffic, racks and links of the chips.

    Raises:
        ChangeError: A node is there already.
        LayoutError: The layout has another number of ranks, or there are too few chips
            for a larger one.
    """
    _refuse_other(table, layout)
    if not nodes:
        return Resized(table=table, layout=layout)
    if world_size is not None and world_size <= table.world_size:
        raise LayoutError(
            f"{counted(world_size, 'rank')} {'is' if world_size == 1 else 'are'} not "
            f"more than the {table.world_size} that there are"
        )
    hosts = {node.host for node in spares_of(table)}
    for node in nodes:
        if node.host not in hosts:
            refuse_present(table, node.host)
    more = sum(len(node.devices) for node in nodes)
    fitting = fit_layout(
        layout,
        table.world_size + more,
        kept,
        world_size=world_size,
        above=table.world_size,
    )
    if fitting.world_size <= table.world_size:
        sizes = {name: getattr(layout, name) for name in kept}
        experts = {"etp": layout.etp, "ep": layout.ep}
        where = f", where {factors(experts)} divides tp x cp x dp"
        raise LayoutError(
            f"{counted(more, 'chip')} more {'is' if more == 1 else 'are'} too few for "
            f"another copy of the model, {factors(sizes) if sizes else 'of any size'}"
            f"{where if layout.ep > 1 else ''}"
        )
    left = left_of(table)
    return _resized(table, (layout, fitting), left, nodes, kept, site or Site())


def _refuse_other(table: RankTable, layout: ParallelLayout) -> None:
    has_gaps = table.rank_end > table.world_size or remembered(table) == layout
    is_same = layout.world_size == table.world_size
    if layout.world_size < table.rank_end or not (is_same or has_gaps):
        raise LayoutError(
            f"the layout is for {counted(layout.world_size, 'rank')}, but the table "
            f"has {table.world_size}"
        )


def _resized(
    table: RankTable,
    layouts: tuple[ParallelLayout, ParallelLayout],
    left: Sequence[Sequence[Device]],
    more: Sequence[Node],
    kept: Collection[str],
    site: Site,
) -> Resized:
    before, after = (roles(layout, kept) for layout in layouts)
    places = list(starmap(Place, after))
    found, is_optimal = rearranged(
        table, left, more, before, places, site=site, layout=layouts[1]
    )
    return Resized(table=found, layout=layouts[1], is_optimal=is_optimal)


def rearranged(
    table: RankTable,
    left: Sequence[Sequence[Device]],
    more: Sequence[Node],
    before: Sequence[tuple[Hashable, int]],
    places: Sequence[Place],
    *,
    site: Site,
    layout: ParallelLayout | None,
) -> tuple[RankTable, bool]:
    """Return a table with the best chip for each rank, and whether all were tried.

    Args:
        table: The table.
        left: The devices of each of its nodes, without the lost ones.
        more: Nodes that may carry ranks too: spares, or new ones.
        before: Role and copy of every rank now; empty if they are not known.
        places: Role and copy of every rank afterwards.
        site: Traffic, racks and links of the chips.
        layout: The layout afterwards, None if it is not known.
    """
    every = [*table.nodes, *more]
    home = homes(every)
    devices = [*left, *(node.devices for node in more)]
    chips = [(place, device) for place, own in enumerate(devices) for device in own]
    own = sum(map(len, left))
    held: Sequence[tuple[Hashable, int | None]]
    held = before or [(None, None)] * table.rank_end
    known = [
        Chip(device.rank, *held[device.rank], home[place], device.device_id)
        for place, device in chips[:own]
    ]
    known += [
        Chip(None, None, None, home[place], device.device_id)
        for place, device in chips[own:]
    ]
    costs = None
    if layout is not None:
        costs = CostModel(layout, site.flows(layout), site.boundaries(table, every))
    found = arrange(
        ArrangementRequest(
            chips=known,
            places=places,
            costs=costs,
            is_free=is_free(table),
            links=site.links_of(table),
        )
    )
    nodes, idle = with_ranks(every, chips, found.carriers)
    spares = spares_of(table)
    given = {node.host for node in more}
    waiting = [node for node in spares if node.host not in given]
    was_spare = {node.host for node in spares}
    idle.sort(key=lambda node: node.host not in was_spare)
    times = Counter(node.host for node in table.nodes)
    shared = {host for host, count in times.items() if count > 1}
    after = with_nodes(table, standing_in(table, joined(nodes, shared)))
    rest = joined([*waiting, *with_pods(table, idle)])
    return with_spares(after, rest) if rest != spares else after, found.is_optimal


def homes(nodes: Sequence[Node]) -> list[int]:
    """Return for every node the place of the first one that has its host."""
    places: dict[str | int, int] = {}
    return [
        places.setdefault(place if node.host is None else node.host, place)
        for place, node in enumerate(nodes)
    ]
