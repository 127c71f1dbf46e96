"""The differences between two tables: nodes, ranks, roles, bytes."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import Struct

from ranktable.layout.change.facts import CostFacts, crossed
from ranktable.layout.change.nodes import node_names
from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.parallel import role_axes
from ranktable.schema.declare import SPARES_KEY
from ranktable.schema.formats import by_name
from ranktable.schema.plain_data import spelt_lists
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ranktable.layout.change.facts import Crossed
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import Device, Node, RankTable

    ChipName = tuple[str, int]
    """The name of a node, and a device_id there."""
    Chips = Mapping[int, tuple[ChipName, Device]]
    Named = Mapping[str, Sequence[Node]]
    Roles = tuple[Sequence[str], Sequence[tuple[int, ...]]]


class Move(Struct, frozen=True, kw_only=True):
    """A chip of both tables that has another rank or another role.

    Attributes:
        node: Name of the node.
        device_id: Number of the chip there.
        before: Its rank in the first table.
        after: Its rank in the second.
        role_before: Its coordinates in the first layout, empty without a layout.
        role_after: Its coordinates in the second.
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
        now_spares: Names of the hosts that are spares of the second only, and no nodes
            of it.
        spares_out: Names of the spares of the first that the second has nowhere.
        chips_out: Chips that only the first has, by rank there.
        chips_in: Chips that only the second has, by rank there.
        moves: Chips of both with another rank or role, by rank in the second.
        has_roles: Whether the layouts are known.
        crossed: Bytes of a step over every boundary, empty without layouts.
        had_gaps: Whether the first table lacks ranks of its layout.
        is_typical: Whether these are typical bytes, because none were given.
        others: Other differences, one sentence each.
    """

    before: RankTable
    after: RankTable
    nodes_out: tuple[str, ...]
    nodes_in: tuple[str, ...]
    now_spares: tuple[str, ...]
    spares_out: tuple[str, ...]
    chips_out: Mapping[int, ChipName]
    chips_in: Mapping[int, ChipName]
    moves: tuple[Move, ...]
    has_roles: bool
    crossed: tuple[Crossed, ...]
    had_gaps: bool
    is_typical: bool
    others: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether both tables are equal."""
        if self.chips_in or self.chips_out or self.others or self.rank_moves:
            return False  # a digest takes as long as everything else together
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
        """Number of ranks that are on the same chip as before."""
        moved = len(self.rank_moves)
        return self.after.world_size - len(self.chips_in) - moved


def difference(
    before: RankTable,
    after: RankTable,
    layouts: tuple[ParallelLayout, ParallelLayout] | None = None,
    *,
    facts: CostFacts | None = None,
) -> Difference:
    """Return what differs between two tables.

    A chip is identified by its node and its device_id, a node by its host, or by its
    place if it has no host.

    Args:
        before: The first table.
        after: The second.
        layouts: The layout of each.
        facts: Bytes and racks; by default no bytes are counted.

    Raises:
        LayoutError: A layout has another number of ranks than its table, unless the
            first table has gaps.
    """
    sides = [_named(table) for table in (before, after)]
    roles = [_roles(layout) for layout in layouts or ()]
    # After most changes most nodes are the same; their chips are not compared.
    still = _unchanged(sides, roles)
    first, second = (_chips(named, still) for named in sides)
    known = {name: rank for rank, (name, _) in first.items()}
    was = {rank: known.get(name) for rank, (name, _) in second.items()}
    kept = set(was.values())
    sent: tuple[Crossed, ...] = ()
    if layouts is not None:
        _refuse_other_sizes((before, after), layouts)
        if facts is not None:
            sent = crossed((before, layouts[0]), (after, layouts[1]), facts)
    old, new = (
        dict.fromkeys(spare.host for spare in table.spares if spare.host is not None)
        for table in (before, after)
    )
    return Difference(
        before=before,
        after=after,
        nodes_out=tuple(name for name in sides[0] if name not in sides[1]),
        nodes_in=tuple(name for name in sides[1] if name not in sides[0]),
        now_spares=tuple(n for n in new if n not in old and n not in sides[1]),
        spares_out=tuple(n for n in old if n not in new and n not in sides[1]),
        chips_out={r: n for r, (n, _) in first.items() if r not in kept},
        chips_in={r: second[r][0] for r, before in was.items() if before is None},
        moves=tuple(_moves(was, second, roles)),
        has_roles=layouts is not None,
        crossed=sent,
        had_gaps=layouts is not None and before.world_size < layouts[0].world_size,
        is_typical=facts is not None and facts.sizes is None,
        others=(
            *_others_of_chips(first, second, was),
            *_others_of_nodes(sides, _moved(second, was), still),
            *_others_at_the_top(before, after),
        ),
    )


def _refuse_other_sizes(
    tables: tuple[RankTable, RankTable], layouts: tuple[ParallelLayout, ParallelLayout]
) -> None:
    """Raise LayoutError if layouts are not those of tables.

    The first table may lack ranks of its layout, and then the second may, too.
    """
    may_lack = True
    for table, layout in zip(tables, layouts, strict=True):
        lacks = table.world_size < layout.world_size
        if table.rank_end > layout.world_size or (lacks and not may_lack):
            raise LayoutError(
                f"the layout is for {counted(layout.world_size, 'rank')}, but the "
                f"table has {table.world_size}"
            )
        may_lack = lacks


def _named(table: RankTable) -> dict[str, list[Node]]:
    found: defaultdict[str, list[Node]] = defaultdict(list)
    for name, node in zip(node_names(table.nodes), table.nodes, strict=True):
        found[name].append(node)
    return found


def _chips(named: Named, still: Collection[str]) -> dict[int, tuple[ChipName, Device]]:
    """Return the chip of every rank, except on nodes that are the same."""
    found = {
        device.rank: ((name, device.device_id), device)
        for name, own in named.items()
        if name not in still
        for node in own
        for device in node.devices
    }
    return dict(sorted(found.items()))


def _roles(layout: ParallelLayout) -> Roles:
    """Return the axes that form a role, and the coordinates of every rank on them."""
    axes = [axis for axis in role_axes(layout) if layout.along(axis).group_size > 1]
    places = zip(*[layout.along(axis).places() for axis in axes], strict=True)
    return axes, list(places) if axes else [()] * layout.world_size


def _unchanged(sides: Sequence[Named], roles: Sequence[Roles]) -> set[str]:
    """Return the names of nodes that have the same chips, ranks and roles."""
    same = {name for name, own in sides[1].items() if sides[0].get(name) == own}
    if not roles or roles[0] == roles[1]:
        return same
    (axes, before), (others, after) = roles
    return {
        name
        for name in (same if axes == others else ())
        for ranks in [[chip.rank for node in sides[1][name] for chip in node.devices]]
        if [before[rank] for rank in ranks] == [after[rank] for rank in ranks]
    }


def _moves(
    was: Mapping[int, int | None], chips: Chips, roles: Sequence[Roles]
) -> Iterator[Move]:
    """Yield the chips of both tables with another rank or role, by rank.

    Args:
        was: The old rank of every chip below, None for a new one.
        chips: The chips of the second table that may differ.
        roles: The roles in both layouts, if these are known.
    """
    for after, before in was.items():
        if before is None:
            continue
        both = [
            dict(zip(axes, places[rank], strict=True))
            for (axes, places), rank in zip(roles, (before, after), strict=False)
        ] or [{}, {}]
        if before != after or both[0] != both[1]:
            (node, device_id), _ = chips[after]
            yield Move(
                node=node,
                device_id=device_id,
                before=before,
                after=after,
                role_before=both[0],
                role_after=both[1],
            )


def _moved(chips: Chips, was: Mapping[int, int | None]) -> set[str]:
    """Return the names of nodes with a chip that has another rank."""
    return {
        chips[after][0][0]
        for after, before in was.items()
        if before != after and before is not None
    }


def _others_of_nodes(
    sides: Sequence[Named], moved: Collection[str], still: Collection[str]
) -> Iterator[str]:
    # A node that has moved is listed at its new place.
    orders = [
        [name for name in side if name in other and name not in moved]
        for side, other in zip(sides, reversed(sides), strict=True)
    ]
    if orders[0] != orders[1]:
        yield "the order of the nodes"
    changed = (name for name in sides[1] if name in sides[0] and name not in still)
    keys = sum(
        one.extra != other.extra
        for name in changed
        for one, other in zip(sides[0][name], sides[1][name], strict=False)
    )
    if keys:
        yield f"keys without a meaning, of {counted(keys, 'node')}"


def _others_of_chips(
    first: Chips, second: Chips, was: Mapping[int, int | None]
) -> Iterator[str]:
    addresses = extra = 0
    for after, before in was.items():
        if before is None:
            continue
        other, device = first[before][1], second[after][1]
        addresses += (
            other.address != device.address or other.is_emulated != device.is_emulated
        )
        extra += other.extra != device.extra
    if addresses:
        yield f"the address of {counted(addresses, 'chip')}"
    if extra:
        yield f"keys without a meaning, of {counted(extra, 'chip')}"


def _others_at_the_top(before: RankTable, after: RankTable) -> Iterator[str]:
    old, new = (
        {**table.extra, **spelt_lists(table, by_name(table.format))}
        for table in (before, after)
    )
    pairs = {key: (old.get(key), new.get(key)) for key in {*old, *new}}
    changed = sorted(key for key, (one, other) in pairs.items() if one != other)
    one, other = pairs.get(SPARES_KEY, (None, None))
    if SPARES_KEY in changed and _counted(one) == _counted(other):
        changed[changed.index(SPARES_KEY)] = f"the order of {SPARES_KEY}"
    if before.version != after.version:
        changed.insert(0, "version")
    if changed:
        yield f"at the top: {', '.join(changed)}"


def _counted(entries: object) -> Counter[str] | None:
    return Counter(map(repr, entries)) if isinstance(entries, list) else None
