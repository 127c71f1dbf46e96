"""Fit a table to the hosts that are there: the one change of a table.

Healthy nodes are left alone. What is lost is replaced by spares or by new hosts; if
they are too few, dp becomes smaller. Chips without a rank are spares.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ranktable.layout.change.available import (
    DoneAlreadyError,
    FitRequest,
    available,
)
from ranktable.layout.change.comparison import difference
from ranktable.layout.change.facts import CostFacts
from ranktable.layout.change.nodes import (
    joined,
    listed,
    named_table,
    refuse_same_ids,
    unnamed_table,
)
from ranktable.layout.change.placement import placed
from ranktable.layout.change.sizes import fit_layout
from ranktable.layout.layout_errors import ChangeError, LayoutError
from ranktable.layout.parallel import KEPT, ParallelLayout, remembered, remembering
from ranktable.schema.formats import by_name
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ranktable.layout.change.available import Available
    from ranktable.layout.change.comparison import Difference, Move
    from ranktable.schema.model import Node, RankTable

    Layouts = tuple[ParallelLayout, ParallelLayout]


@dataclass(frozen=True, kw_only=True)
class Change:
    """A table that was fitted to its hosts.

    Attributes:
        before: The table as it was.
        named: Both tables; a node without a host has its old index as a host.
        layouts: Its layouts before and after, None if they are not known.
        facts: Traffic, racks and links of the chips.
        notes: What was concluded about new hosts, one sentence each.
    """

    before: RankTable
    named: tuple[RankTable, RankTable] = field(repr=False)
    layouts: Layouts | None
    facts: CostFacts
    notes: tuple[str, ...] = ()

    @cached_property
    def table(self) -> RankTable:
        """The table now; it stores its layout if that is known."""
        return unnamed_table(self.named[1])

    @cached_property
    def diff(self) -> Difference:
        """What differs between the two tables."""
        found = difference(*self.named, self.layouts, facts=self.facts)
        return replace(found, before=self.before, after=self.table)

    @property
    def moves(self) -> tuple[Move, ...]:
        """The chips of both tables with another rank or role."""
        return self.diff.moves


def fit(
    table: RankTable,
    layout: ParallelLayout | None = None,
    *,
    hosts: Iterable[str] | None = None,
    lost: Iterable[str] = (),
    using: Iterable[str | Node] = (),
    spare: Iterable[str | Node] = (),
    lost_chips: Mapping[str, Collection[int]] | None = None,
    grow: bool = False,
    kept: Collection[str] = KEPT,
    world_size: int | None = None,
    super_pod: str | None = None,
    facts: CostFacts | None = None,
) -> Change:
    """Fit a table to the hosts that are there.

    Args:
        table: The table; ranks that it or its layout lacks are lost too.
        layout: Its layout, by default the one that it stores. It is not needed if every
            lost chip is replaced.
        hosts: The hosts that are there: all others are lost, and unknown ones are new.
        lost: Nodes and spares that are lost.
        using: New nodes, by name or with their chips; they come before the spares.
        spare: Nodes that carry no rank.
        lost_chips: The device_id of each lost chip, by node.
        grow: Whether there may be more ranks than before.
        kept: The sizes that stay as they are.
        world_size: The number of ranks, by default as many as fit.
        super_pod: The super pod of new hosts that name none.
        facts: Traffic, racks and links of the chips.

    Raises:
        ChangeError: A name is not known, or the chips of a new host are not; or more
            than half of the nodes are lost, and ``world_size`` is not given. It is not
            needed where ``lost`` names them and every lost chip is replaced.
        LayoutError: No layout fits.
    """
    before, facts = named_table(table), facts or CostFacts()
    layout = remembered(table) if layout is None else layout
    if layout is not None:
        _refuse_other(table, layout)
    request = FitRequest(
        hosts=hosts,
        lost=tuple(lost),
        using=tuple(using),
        spare=tuple(spare),
        lost_chips=lost_chips or {},
        super_pod=super_pod,
    )
    try:
        there = available(before, request)
    except DoneAlreadyError as error:
        both = None if layout is None else (layout, layout)
        return Change(
            before=table,
            named=(before, before),
            layouts=both,
            facts=facts,
            notes=(str(error),),
        )
    now = max(table.rank_end, 0 if layout is None else layout.world_size)
    layouts = _sizes(there, layout, now, kept, world_size=world_size, grow=grow)
    size = layouts[1].world_size
    if world_size is None and (hosts is not None or size < now):
        _refuse_halving(there, size)
    nodes, idle = _nodes(before, there, layouts, kept, facts, grow=grow)
    spares, lost_spares = _spares(before, [*there.resting, *idle])
    after = before.with_changes(nodes=nodes, spares=spares)
    refuse_same_ids(before, after)
    _refuse_podless(before, after)
    if layout is not None:
        after = remembering(after, layouts[1])
    return Change(
        before=table,
        named=(before, after),
        layouts=None if layout is None else layouts,
        facts=facts,
        notes=(*there.notes, *lost_spares),
    )


def size_on(
    table: RankTable,
    layout: ParallelLayout,
    *,
    hosts: Iterable[str] | None = None,
    lost: Iterable[str] = (),
    using: Iterable[str | Node] = (),
    grow: bool = False,
) -> tuple[int, int]:
    """Return how many nodes are lost, and how many ranks ``fit`` would leave.

    Raises:
        ChangeError: No host is in the table, or the chips of a new host are not known.
        LayoutError: No layout fits.
    """
    request = FitRequest(
        hosts=hosts,
        lost=tuple(lost),
        using=tuple(using),
        spare=(),
        lost_chips={},
        super_pod=None,
    )
    there = available(named_table(table), request)
    now = max(table.rank_end, layout.world_size)
    _, after = _sizes(there, layout, now, KEPT, world_size=None, grow=grow)
    return there.num_lost, after.world_size


def _sizes(
    there: Available,
    layout: ParallelLayout | None,
    now: int,
    kept: Collection[str],
    *,
    world_size: int | None,
    grow: bool,
) -> Layouts:
    """Return the layouts before and after; dp alone if the layout is not known.

    Args:
        there: The chips that are there.
        layout: The layout now.
        now: Number of ranks that the table or its layout has.
        kept: The sizes that stay as they are.
        world_size: The number of ranks that is wanted.
        grow: Whether there may be more ranks than now.

    Raises:
        ChangeError: The number of ranks has to change, and the layout is not known.
        LayoutError: No layout fits.
    """
    room = _num_first(there) + _num_chips(there.waiting)
    if not room:
        raise ChangeError("no node would be left")
    if world_size is not None and world_size > now and not grow:
        raise ChangeError(
            f"{counted(world_size, 'rank')} are more than the {now} that there are; "
            "add --grow"
        )
    if layout is not None:
        most = room if grow else min(room, now)
        return layout, fit_layout(layout, most, kept, world_size=world_size)
    is_larger = grow and room > now
    if room < now or is_larger or world_size not in (None, now):
        raise ChangeError(
            f"{counted(room, 'chip')} {'is' if room == 1 else 'are'} there for "
            f"{counted(now, 'rank')}, and the layout of the ranks is not known; give "
            "the sizes, such as --tp 8 --pp 4, or --dp -1 where every rank holds the "
            "whole model"
        )
    return ParallelLayout(dp=now), ParallelLayout(dp=now)


def _nodes(
    table: RankTable,
    there: Available,
    layouts: Layouts,
    kept: Collection[str],
    facts: CostFacts,
    *,
    grow: bool,
) -> tuple[Sequence[Node], Sequence[Node]]:
    """Return the nodes with ranks, and those without."""
    size = layouts[1].world_size
    is_whole = sum(map(len, there.left)) == table.world_size == table.rank_end
    if is_whole and size == table.world_size:
        return table.nodes, [*there.using, *there.waiting]
    is_offered = grow or _num_first(there) < size
    more = [*there.using, *(there.waiting if is_offered else ())]
    nodes, idle = placed(table, there.left, more, layouts, kept, facts)
    return nodes, idle if is_offered else [*there.waiting, *idle]


def _spares(
    table: RankTable, nodes: Iterable[Node]
) -> tuple[Sequence[Node], Sequence[str]]:
    """Return the spares, old ones first, and a note if a table cannot have any."""
    order = {node.host: at for at, node in enumerate(table.spares)}
    spares = sorted(joined(nodes), key=lambda one: order.get(one.host, len(order)))
    if not spares or not by_name(table.format).keeps_document:
        return spares, ()
    names = listed([str(spare.host) for spare in spares])
    return (), (f"{names}: not kept, because {table.format} cannot have spares",)


def _num_first(there: Available) -> int:
    """Return how many chips carry ranks before the waiting ones."""
    return sum(map(len, there.left)) + _num_chips(there.using)


def _num_chips(nodes: Iterable[Node]) -> int:
    return sum(len(node.devices) for node in nodes)


def _refuse_other(table: RankTable, layout: ParallelLayout) -> None:
    """Raise LayoutError if a layout is that of another number of ranks.

    The table may lack ranks of it: gaps, or the last ranks, up to a copy of the model.
    """
    may_lack = table.rank_end > table.world_size or remembered(table) == layout
    lacks = layout.world_size - table.world_size
    is_less_than_a_copy = lacks < layout.world_size // layout.dp
    if layout.world_size < table.rank_end or not (may_lack or is_less_than_a_copy):
        raise LayoutError(
            f"the layout is for {counted(layout.world_size, 'rank')}, but the table "
            f"has {table.world_size}"
        )


def _refuse_halving(there: Available, size: int) -> None:
    """Raise ChangeError if most nodes are lost, because a list may be truncated.

    Args:
        there: The chips that are there.
        size: Number of ranks that would be left.
    """
    num_nodes = len(there.left)
    if 2 * there.num_lost > num_nodes:
        raise ChangeError(
            f"{there.num_lost} of {counted(num_nodes, 'node')} would be lost; if they "
            "are, and the list of hosts is complete, say how many ranks shall be left: "
            f"--ranks {size}"
        )


def _refuse_podless(before: RankTable, after: RankTable) -> None:
    """Raise ChangeError if the super pod of a new node is not known."""
    if not any(node.super_pod for node in before.nodes):
        return
    old = {node.host for node in before.nodes}
    for node in after.nodes:
        if node.super_pod is None and node.host not in old:
            raise ChangeError(
                f"the super pod of {node.host} is not known; give --pod NAME, or a "
                "rank table 1.2 of it"
            )
