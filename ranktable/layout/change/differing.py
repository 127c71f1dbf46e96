"""What differs between two tables: nodes, ranks, roles, groups, bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.layout.change.names import node_names
from ranktable.layout.change.roles import role_axes
from ranktable.layout.change.site import Site, crossed
from ranktable.layout.change.touched import both_groups, touched_groups
from ranktable.layout.change.unmoved import unmoved

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ranktable.layout.change.site import Crossed
    from ranktable.layout.change.touched import ChipName, GroupChange, Kinds
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import Device, RankTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A chip of both tables that has another rank or another role.

    Attributes:
        node: Name of its node.
        device_id: Number of the chip there.
        before: Its rank in the first table.
        after: Its rank in the second.
        role_before: Its role there: coordinates, none without a layout.
        role_after: Its role here.
    """

    node: str
    device_id: int
    before: int
    after: int
    role_before: Mapping[str, int]
    role_after: Mapping[str, int]

    @property
    def is_role(self) -> bool:
        """Whether the chip has to load other weights."""
        return self.role_before != self.role_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What differs between two tables.

    Attributes:
        before: The first table.
        after: The second.
        nodes_out: Names of the nodes that only the first has.
        nodes_in: Names of those that only the second has.
        chips_out: Chips that only the first has, by rank there.
        chips_in: Chips that only the second has, by rank there.
        moves: Chips of both with another rank or role, by rank in the second.
        groups: What became of the groups, by kind; none without layouts.
        distinct: The same of distinct sets of chips, whatever their kind.
        crossed: Bytes of a step over every boundary, none without layouts.
        is_typical: Whether these are from typical bytes, as none were given.
        is_optimal: Whether every placement of the second was tried.
        others: What else differs, a sentence each.
    """

    before: RankTable
    after: RankTable
    nodes_out: tuple[str, ...]
    nodes_in: tuple[str, ...]
    chips_out: Mapping[int, ChipName]
    chips_in: Mapping[int, ChipName]
    moves: tuple[Move, ...]
    groups: Mapping[str, GroupChange]
    distinct: GroupChange | None
    crossed: tuple[Crossed, ...]
    is_typical: bool
    is_optimal: bool
    others: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether the tables say the same."""
        if self.chips_in or self.chips_out or self.others or self.rank_moves:
            return False  # a digest takes as long as all the rest
        return self.before.digest() == self.after.digest()

    @property
    def rank_moves(self) -> tuple[Move, ...]:
        """The chips that have another rank."""
        return tuple(move for move in self.moves if move.before != move.after)

    @property
    def role_moves(self) -> tuple[Move, ...]:
        """The chips that have another role."""
        return tuple(move for move in self.moves if move.is_role)

    @property
    def num_kept(self) -> int:
        """How many ranks are on the chip where they were."""
        moved = len(self.rank_moves)
        return self.after.world_size - len(self.chips_in) - moved


def difference(  # noqa: PLR0913 - each is a part of the question
    before: RankTable,
    after: RankTable,
    layouts: tuple[ParallelLayout, ParallelLayout] | None = None,
    *,
    groups: tuple[Kinds, Kinds] | Iterable[str] | None = None,
    bytes_of: Mapping[str, float] | None = None,
    site: Site | None = None,
    is_optimal: bool = False,
) -> Difference:
    """Return what differs between two tables.

    A chip is known by its node and its number there, a node by its host; nodes without
    one are told apart by their place.

    Args:
        before: The first table.
        after: The second.
        layouts: The layout of each.
        groups: The axes of each kind of group, by default every axis of more than one
            rank; or for each table the lists of ranks by kind.
        bytes_of: Bytes of a group and step for every axis; see ``given_flows``.
        site: The same, with racks; by default nothing is counted without ``bytes_of``.
        is_optimal: Whether every placement of the second table was tried.

    Raises:
        LayoutError: A layout has another number of ranks than its table.
    """
    chips = [_chips(table) for table in (before, after)]
    ranks = [{name: rank for rank, (name, _) in one.items()} for one in chips]
    names = [set(node_names(table.nodes)) for table in (before, after)]
    kinds: dict[str, GroupChange] = {}
    distinct: GroupChange | None = None
    if bytes_of:
        site = Site(sizes=bytes_of)
    sent: tuple[Crossed, ...] = ()
    if layouts is not None:
        if before.world_size == layouts[0].world_size:
            found = both_groups((before, after), layouts, groups)
            kinds, distinct = touched_groups(found, chips)
        if site is not None and before.world_size == layouts[0].world_size:
            sent = crossed((before, layouts[0]), (after, layouts[1]), site)
    return Difference(
        before=before,
        after=after,
        nodes_out=_only(before, names[1]),
        nodes_in=_only(after, names[0]),
        chips_out={r: n for r, (n, _) in chips[0].items() if n not in ranks[1]},
        chips_in={r: n for r, (n, _) in chips[1].items() if n not in ranks[0]},
        moves=tuple(_moves(ranks[0], chips[1], layouts)),
        groups=kinds,
        distinct=distinct,
        crossed=sent,
        is_typical=site is not None and site.sizes is None,
        is_optimal=is_optimal,
        others=tuple(unmoved(before, after, chips, ranks)),
    )


def _chips(table: RankTable) -> dict[int, tuple[ChipName, Device]]:
    """Return the chip of every rank."""
    found = {
        device.rank: ((name, device.device_id), device)
        for name, node in zip(node_names(table.nodes), table.nodes, strict=True)
        for device in node.devices
    }
    return dict(sorted(found.items()))


def _only(table: RankTable, others: set[str]) -> tuple[str, ...]:
    return tuple(name for name in node_names(table.nodes) if name not in others)


def _moves(
    ranks: Mapping[ChipName, int],
    chips: Mapping[int, tuple[ChipName, Device]],
    layouts: tuple[ParallelLayout, ParallelLayout] | None,
) -> Iterable[Move]:
    sides = [_roles_of(one) for one in layouts] if layouts is not None else []
    is_alike = not sides or sides[0][0] == sides[1][0]
    for after, (name, _) in chips.items():
        before = ranks.get(name)
        if before is None:
            continue
        is_still = before == after and is_alike
        if is_still and (not sides or sides[0][1][before] == sides[1][1][after]):
            continue
        ends = zip(sides, (before, after), strict=False)
        roles = [(axes, places[rank]) for (axes, places), rank in ends]
        if before != after or (roles and roles[0] != roles[1]):
            was, is_now = [dict(zip(*one, strict=True)) for one in roles] or ({}, {})
            yield Move(
                node=name[0],
                device_id=name[1],
                before=before,
                after=after,
                role_before=was,
                role_after=is_now,
            )


def _roles_of(layout: ParallelLayout) -> tuple[tuple[str, ...], list[tuple[int, ...]]]:
    """Return the axes that make a role, and the coordinates of every rank there."""
    axes = tuple(
        axis for axis in role_axes(layout) if layout.along(axis).group_size > 1
    )
    if not axes:
        return axes, [()] * layout.world_size
    places = [layout.along(axis).places() for axis in axes]
    return axes, list(zip(*places, strict=True))
