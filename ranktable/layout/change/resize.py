"""Fewer or more ranks, in a layout that still fits; as little moves as can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.layout.change.assign import Chip, Place
from ranktable.layout.change.blocks import assign_consecutive
from ranktable.layout.change.errors import ChangeError
from ranktable.layout.change.fitting import fit_layout
from ranktable.layout.change.rebuilt import chips_of, with_nodes, with_ranks
from ranktable.layout.change.renumbering import without
from ranktable.layout.change.roles import KEPT, roles
from ranktable.layout.change.spares import refuse_present, spares_of, with_spares
from ranktable.layout.errors import LayoutError
from ranktable.layout.placing import is_free
from ranktable.layout.sizes import factors
from ranktable.schema.messages import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import Node, RankTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized:
    """A table with another number of ranks.

    Attributes:
        table: The table. What carries no rank in it any more is among its spares.
        layout: The layout that it has now.
    """

    table: RankTable
    layout: ParallelLayout


def shrink(
    table: RankTable,
    layout: ParallelLayout,
    drop: Collection[int],
    *,
    kept: Collection[str] = KEPT,
    world_size: int | None = None,
) -> Resized:
    """Return a table without some nodes, and the largest layout for what is left.

    A chip keeps its role where that is possible, then its rank where that is possible;
    both are done for as many as can be. Chips for which there is no place become
    spares.

    Args:
        table: The table.
        layout: The layout that it has.
        drop: The places of the nodes that are lost.
        kept: The sizes that stay as they are.
        world_size: The number of ranks that is wanted, by default as many as fit.

    Raises:
        ChangeError: No node would be left.
        LayoutError: The layout is of another size, or none fits what is left.
    """
    _refuse_other(table, layout)
    if not drop and world_size in (None, table.world_size):
        return Resized(table=table, layout=layout)
    left = without(table, drop)
    return _resized(table, layout, left, [], kept, world_size)


def grow(
    table: RankTable,
    layout: ParallelLayout,
    nodes: Sequence[Node],
    *,
    kept: Collection[str] = KEPT,
    world_size: int | None = None,
) -> Resized:
    """Return a table with more nodes, and the largest layout for all of them.

    As few chips as can be change their role or their rank; where dp counts slowest,
    none does. Chips for which there is no place become spares.

    Args:
        table: The table.
        layout: The layout that it has.
        nodes: The nodes; the chips of one that is there already join the others.
        kept: The sizes that stay as they are.
        world_size: The number of ranks that is wanted, by default as many as fit.

    Raises:
        ChangeError: A node is there already.
        LayoutError: The layout is of another size, or there are too few chips for a
            larger one.
    """
    _refuse_other(table, layout)
    if not nodes:
        return Resized(table=table, layout=layout)
    if world_size is not None and world_size <= table.world_size:
        raise LayoutError(
            f"{counted(world_size, 'rank')} {'is' if world_size == 1 else 'are'} no "
            f"more than the {table.world_size} that there are"
        )
    hosts = {node.host for node in spares_of(table)}
    for node in nodes:
        if node.host not in hosts:
            refuse_present(table, node)
    found = _resized(table, layout, table.nodes, nodes, kept, world_size)
    if found.layout.world_size <= table.world_size:
        more = sum(len(node.devices) for node in nodes)
        sizes = {name: getattr(layout, name) for name in kept}
        raise LayoutError(
            f"{counted(more, 'chip')} more {'is' if more == 1 else 'are'} too few for "
            f"another copy of the model, {factors(sizes) if sizes else 'of any size'}"
        )
    return found


def _refuse_other(table: RankTable, layout: ParallelLayout) -> None:
    if layout.world_size != table.world_size:
        raise LayoutError(
            f"the layout is one of {counted(layout.world_size, 'rank')}, and the table "
            f"has {table.world_size}"
        )


def _resized(  # noqa: PLR0913, PLR0917 - each is a part of the question
    table: RankTable,
    layout: ParallelLayout,
    left: Sequence[Node],
    new: Sequence[Node],
    kept: Collection[str],
    world_size: int | None,
) -> Resized:
    chips = chips_of([*left, *new])
    own = sum(len(node.devices) for node in left)
    above = table.world_size if new else 0  # grow makes more, not fewer
    fitting = fit_layout(layout, len(chips), kept, world_size=world_size, above=above)
    before, after = roles(layout, kept), roles(fitting, kept)
    known = [
        Chip(rank=d.rank, role=before[d.rank][0], copy=before[d.rank][1])
        for _, d in chips[:own]
    ]
    places = [Place(role=role, copy=copy) for role, copy in after]
    hosts: dict[str | int, int] = {}
    homes = [
        hosts.setdefault(place if node.host is None else node.host, place)
        for place, node in enumerate([*left, *new])
    ]
    carriers = assign_consecutive(
        [*known, *[Chip()] * (len(chips) - own)],
        [homes[node] for node, _ in chips],
        places,
        is_free=is_free(table),
    )
    nodes, idle = with_ranks([*left, *new], chips, carriers)
    taken = {node.host for node in new if node.host is not None}
    others = [node for node in spares_of(table) if node.host not in taken]
    found = with_nodes(table, _joined(nodes))
    if idle or len(others) != len(spares_of(table)):
        found = with_spares(found, _joined([*others, *idle]))
    return Resized(table=found, layout=fitting)


def _joined(nodes: Sequence[Node]) -> list[Node]:
    """Return nodes with those of one host together, in the order of their ranks."""
    found: list[Node] = []
    places: dict[str, int] = {}
    for node in nodes:
        place = None if node.host is None else places.get(node.host)
        if place is None:
            if node.host is not None:
                places[node.host] = len(found)
            found.append(node)
            continue
        devices = (*found[place].devices, *node.devices)
        ids = [device.device_id for device in devices]
        if len(set(ids)) < len(ids):
            raise ChangeError(f"{node.host} has a chip twice")
        ordered = tuple(sorted(devices, key=lambda device: device.rank))
        found[place] = structs.replace(found[place], devices=ordered)
    return found
