"""Ranks without gaps, after some were lost."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.layout.change.assign import Chip, Place, assign
from ranktable.layout.change.blocks import are_consecutive, assign_consecutive
from ranktable.layout.change.errors import ChangeError
from ranktable.layout.change.rebuilt import chips_of, with_nodes, with_ranks
from ranktable.layout.change.spares import spares_of, with_spares
from ranktable.layout.placing import is_free
from ranktable.schema.messages import counted, folded

if TYPE_CHECKING:
    from collections.abc import Collection

    from ranktable.schema.model import Node, RankTable


class Policy(str, Enum):
    """Which ranks move to where some are missing."""

    FILL = "fill"
    SHIFT = "shift"
    STABLE = "stable"


def without(
    table: RankTable, nodes: Collection[int] = (), ranks: Collection[int] = ()
) -> list[Node]:
    """Return the nodes of a table without some of them, and without some ranks.

    Raises:
        ChangeError: There is no such rank, or nothing would be left.
    """
    dead = set(ranks)
    unknown = dead - {device.rank for node in table.nodes for device in node.devices}
    if unknown:
        raise ChangeError(f"there is no rank {folded(sorted(unknown))} in the table")
    left = []
    for place, node in enumerate(table.nodes):
        if place in nodes:
            continue
        devices = tuple(d for d in node.devices if d.rank not in dead)
        if len(devices) == len(node.devices):
            left.append(node)
        elif devices:
            left.append(structs.replace(node, devices=devices))
    if not left:
        raise ChangeError("no node would be left")
    return left


def renumber(
    table: RankTable,
    policy: Policy,
    *,
    nodes: Collection[int] = (),
    ranks: Collection[int] = (),
) -> RankTable:
    """Return a table whose ranks have no gaps.

    ``fill`` lets the last nodes move into the gaps, so that as few ranks move as can
    be where the nodes are of one size, or few. ``shift`` keeps the order, so that all
    after the first gap move. With ``stable`` none moves, and the spares of the table
    fill the gaps.

    Args:
        table: The table; its ranks may have gaps already.
        policy: Who moves.
        nodes: The places of nodes that are lost.
        ranks: More ranks that are lost.

    Raises:
        ChangeError: Nothing would be left, there is no such rank, or the spares are
            too few.
    """
    world_size = 1 + max(d.rank for node in table.nodes for d in node.devices)
    left = without(table, nodes, ranks)
    if policy is Policy.STABLE:
        return _stable(table, left, world_size)
    chips = chips_of(left)
    if policy is Policy.SHIFT:
        carriers = sorted(range(len(chips)), key=lambda at: chips[at][1].rank)
    else:
        carriers = assign_consecutive(
            [Chip(rank=device.rank) for _, device in chips],
            [node for node, _ in chips],
            [Place()] * len(chips),
            is_free=is_free(table),
        )
    return with_nodes(table, with_ranks(left, chips, carriers)[0])


def _stable(table: RankTable, left: list[Node], world_size: int) -> RankTable:
    spares = spares_of(table)
    chips = chips_of([*left, *spares])
    own = sum(len(node.devices) for node in left)
    missing = world_size - own
    if missing > len(chips) - own:
        raise ChangeError(
            f"{counted(missing, 'lost rank')}, but the spares have "
            f"{counted(len(chips) - own, 'chip')}; fill and shift need none"
        )
    known = [Chip(rank=device.rank) for _, device in chips[:own]]
    new = [Chip()] * (len(chips) - own)
    carriers = assign([*known, *new], [Place()] * world_size)
    if not is_free(table) and not are_consecutive(carriers, [n for n, _ in chips]):
        raise ChangeError(
            "the ranks of a node would not be consecutive, because a spare has to take "
            "the place of a whole node; drop all of the node, or use --policy fill"
        )
    nodes, idle = with_ranks([*left, *spares], chips, carriers)
    found = with_nodes(table, nodes)
    return with_spares(found, idle) if spares else found
