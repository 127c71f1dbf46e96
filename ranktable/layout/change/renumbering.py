"""Ranks without gaps, after some were lost."""

from __future__ import annotations

from enum import Enum
from itertools import accumulate, groupby, islice, permutations, starmap
from typing import TYPE_CHECKING, NamedTuple

from ranktable.layout.arrangements import is_contiguous
from ranktable.layout.change.assign import Place
from ranktable.layout.change.rebuilt import (
    joined,
    left_of,
    with_nodes,
    with_pods,
    with_ranks,
)
from ranktable.layout.change.resize import homes, rearranged
from ranktable.layout.change.roles import roles
from ranktable.layout.change.site import Site
from ranktable.layout.change.spare_nodes import (
    spares_of,
    standing_in,
    with_spares,
    without_lost,
)
from ranktable.layout.crossings import CostModel
from ranktable.layout.layout_errors import ChangeError
from ranktable.layout.placing import is_free
from ranktable.schema.diagnostic import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import Device, Node, RankTable

_MOST_TRIED = 120
"""Ways to give spares to gaps that are compared."""


class Policy(str, Enum):
    """Which ranks move if some are missing; see ``renumbered``."""

    FILL = "fill"
    SHIFT = "shift"
    STABLE = "stable"


def renumber(
    table: RankTable,
    policy: Policy,
    *,
    nodes: Collection[int] = (),
    ranks: Collection[int] = (),
    layouts: tuple[ParallelLayout | None, ParallelLayout] | None = None,
    site: Site | None = None,
) -> RankTable:
    """Return the table of ``renumbered``."""
    return renumbered(
        table, policy, nodes=nodes, ranks=ranks, layouts=layouts, site=site
    )[0]


def renumbered(
    table: RankTable,
    policy: Policy,
    *,
    nodes: Collection[int] = (),
    ranks: Collection[int] = (),
    layouts: tuple[ParallelLayout | None, ParallelLayout] | None = None,
    site: Site | None = None,
) -> tuple[RankTable, bool]:
    """Return a table whose ranks have no gaps, and whether every placement was tried.

    ``fill`` lets chips move into the gaps as ``arrange`` decides. ``shift`` keeps the
    order, so that all ranks after the first gap change. With ``stable`` no rank
    changes: the spares of the table fill the gaps, and those in the same rack come
    first.

    Args:
        table: The table; its ranks may have gaps already.
        policy: Who moves.
        nodes: The places of nodes that are lost.
        ranks: More ranks that are lost.
        layouts: The layouts before and after, None if they are not known. If only that
            after is known, the ranks have no roles yet.
        site: Traffic, racks and links of the chips.

    Raises:
        ChangeError: Nothing would be left, there is no such rank, or the spares are
            too few.
    """
    site = site or Site()
    table = without_lost(table, nodes)
    left = left_of(table, nodes, ranks)
    if policy is Policy.STABLE:
        return _stable(table, left, layouts[0] if layouts else None, site), False
    if policy is Policy.SHIFT:
        chips = [(place, device) for place, own in enumerate(left) for device in own]
        order = sorted(range(len(chips)), key=lambda at: chips[at][1].rank)
        return with_nodes(table, with_ranks(table.nodes, chips, order)[0]), False
    before: list[tuple[Hashable, int]] = []
    after = None
    places = [Place()] * sum(map(len, left))
    if layouts is not None:
        known, after = layouts
        before = [] if known is None else roles(known)
        places = list(starmap(Place, roles(after)))
    return rearranged(table, left, [], before, places, site=site, layout=after)


def _stable(
    table: RankTable,
    left: Sequence[Sequence[Device]],
    layout: ParallelLayout | None,
    site: Site,
) -> RankTable:
    """Return a table whose gaps are filled by spares, and nothing else is changed."""
    spares = spares_of(table)
    every = [*table.nodes, *spares]
    alive = {device.rank for own in left for device in own}
    size = table.rank_end
    missing = [rank for rank in range(size) if rank not in alive]
    room = sum(len(node.devices) for node in spares)
    if len(missing) > room:
        raise ChangeError(
            f"{counted(len(missing), 'lost rank')}, but the spares have "
            f"{counted(room, 'chip')}; fill and shift need none"
        )
    home = homes(every)
    boundaries = site.boundaries(table, every)
    costs = None
    if layout is not None and layout.world_size == size:
        costs = CostModel(layout, site.flows(layout), boundaries)
    chips = [(place, device) for place, own in enumerate(left) for device in own]
    holder = {device.rank: at for at, (_, device) in enumerate(chips)}
    first = len(chips)
    starts = list(accumulate((len(s.devices) for s in spares), initial=first))
    chips += [
        (place, device)
        for place, node in enumerate(spares, len(table.nodes))
        for device in node.devices
    ]
    gaps = _gaps(table, missing)
    found: list[tuple[float, list[int]]] = []
    for order in _orders(gaps, spares, boundaries, len(table.nodes)):
        for taken in _ways(gaps, order, spares, starts):
            given = {**holder, **dict(zip(missing, taken, strict=False))}
            carriers = [given[rank] for rank in range(size)]
            owners = [home[chips[at][0]] for at in carriers]
            if is_free(table) or is_contiguous(owners):
                found.append((sum(costs.totals(owners)) if costs else 0, carriers))
                break
    if not found:
        raise ChangeError(
            "the ranks of a node would not be consecutive, because a spare has to take "
            "the place of a whole node; drop all of the node, or use --policy fill"
        )
    nodes, idle = with_ranks(every, chips, min(found, key=lambda one: one[0])[1])
    after = with_nodes(table, standing_in(table, joined(nodes)))
    return with_spares(after, joined(with_pods(table, idle))) if spares else after


class _Gap(NamedTuple):
    """Missing ranks of one node, and its place if it is still in the table."""

    ranks: list[int]
    node: int | None


def _gaps(table: RankTable, missing: Sequence[int]) -> list[_Gap]:
    """Return the missing ranks by node; for unknown nodes, in runs of a usual size."""
    node_of = {d.rank: at for at, n in enumerate(table.nodes) for d in n.devices}
    usual = max(len(node.devices) for node in table.nodes)
    found = []
    for _, run in groupby(enumerate(missing), lambda pair: pair[1] - pair[0]):
        for node, part in groupby((rank for _, rank in run), node_of.get):
            ranks = list(part)
            step = len(ranks) if node is not None else usual
            found += [
                _Gap(ranks[at : at + step], node) for at in range(0, len(ranks), step)
            ]
    return found


def _orders(
    gaps: Sequence[_Gap],
    spares: Sequence[Node],
    boundaries: Sequence[Boundary],
    first: int,
) -> Iterator[list[int]]:
    """Yield orders of the spares for the gaps: the nearest first, then any."""
    left = list(range(len(spares)))
    nearest = []
    for gap in gaps:
        if not left:
            break

        def distance(spare: int, gap: _Gap = gap) -> tuple[bool, int, int]:
            """Sort spares with enough chips first, then near ones, then small ones."""
            chips = len(spares[spare].devices)
            apart = sum(
                gap.node is not None
                and one.domains[gap.node] != one.domains[first + spare]
                for one in boundaries
            )
            return chips < len(gap.ranks), apart, chips

        nearest.append(min(left, key=distance))
        left.remove(nearest[-1])
    yield [*nearest, *left]
    yield from map(list, islice(permutations(range(len(spares))), _MOST_TRIED))


def _ways(
    gaps: Sequence[_Gap],
    order: Sequence[int],
    spares: Sequence[Node],
    starts: Sequence[int],
) -> Iterator[list[int]]:
    """Yield the chips for the gaps: one spare for each gap, then any chips."""
    sizes = [len(spares[at].devices) for at in order]
    if len(gaps) <= len(order) and all(
        len(gap.ranks) <= size for gap, size in zip(gaps, sizes, strict=False)
    ):
        yield [
            starts[spare] + at
            for gap, spare in zip(gaps, order, strict=False)
            for at in range(len(gap.ranks))
        ]
    yield [starts[s] + at for s in order for at in range(len(spares[s].devices))]
