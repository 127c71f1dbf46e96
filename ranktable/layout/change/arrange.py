"""Which chip has which rank after a change, by costs in one fixed order.

1. The table is sound and its rings are legal. The ranks of a node are consecutive,
   unless the table says that a node may hold any ranks; super pods are contiguous; and
   if the links of the chips are known, as many nodes as possible are closed rings.
2. As few bytes as possible cross nodes and racks.
3. As few chips as possible get another role, because these load other weights.
4. As few chips as possible get another rank.

The search has two steps. The first decides which ranks go to nodes of which kind; the
second decides which node of that kind takes them. Nodes are of one kind if they have
the same number of chips and lie in the same domains, so the bytes depend on the first
step alone. The second is an assignment problem, and is solved exactly for a few nodes.

The first step tries placements that are likely to be good, or all of them if there are
few. Only then is the result called optimal.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from ranktable.layout.arrangements import (
    blocks_of,
    by_domain,
    exchange,
    held_blocks,
    is_contiguous,
    node_orders,
)
from ranktable.layout.change.assign import Chip, Place, assign
from ranktable.layout.change.cheapest import MOST_EXACT, cheapest
from ranktable.layout.change.inside import Inside
from ranktable.layout.change.orders import Before, Orders, free_placements
from ranktable.layout.crossings import is_reached, lower_bound

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from ranktable.layout.arrangements import Blocks
    from ranktable.layout.crossings import CostModel
    from ranktable.schema.topology import Topology

_MOST_PAIRS = 20_000
"""Nodes times parts times chips up to which the assignment is solved exactly."""

_FEW_PARTS = 8
"""Nodes of a kind up to which all are assigned together, also those that can stay."""

_MOST_TRIED = 1_000
"""Placements up to which all are tried."""

_MOST_WORK = 3_000_000
"""Ranks times flows that trying placements may look at, about a second."""

_MOST_EXCHANGED = 1_024
"""Ranks or nodes up to which exchanges of two are tried."""

_FEW = 4_096
"""Ranks up to which nodes of one size may use fewer of their chips."""

_EXCHANGES = 400_000

_NEW = float("inf")
_SAME = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrangementRequest:
    """The input of ``arrange``.

    Attributes:
        chips: The chips, node by node.
        places: Role and copy of every rank; there are at most as many as chips.
        costs: The layout, what it sends, and the boundaries of the nodes; None if only
            roles and numbers count.
        is_free: Whether a node may hold any ranks.
        links: The links of the chips of a host, None if they are not known.
    """

    chips: Sequence[Chip]
    places: Sequence[Place]
    costs: CostModel | None = None
    is_free: bool = False
    links: Topology | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """Which chip carries which rank.

    Attributes:
        carriers: The index of the chip of every rank.
        sent: Bytes of a step over every boundary.
        bounds: Lower bounds of these bytes, for any placement on these nodes.
        is_optimal: Whether every placement was considered.
    """

    carriers: list[int]
    sent: tuple[float, ...] = ()
    bounds: tuple[float, ...] = ()
    is_optimal: bool = False


class _Found(NamedTuple):
    """A placement: what it costs, the chip of every rank, its blocks and its bytes."""

    cost: _ArrangementCost
    carriers: list[int]
    blocks: Blocks
    totals: tuple[float, ...]


class _ArrangementCost(NamedTuple):
    """The costs of a placement, the most important first."""

    rings: int
    sent: float
    loads: int
    moves: int


def arrange(job: ArrangementRequest) -> Arrangement:
    """Return the best arrangement that is found."""
    return Search(job).found()


class Search:
    """A search for the best arrangement.

    Attributes:
        job: The input.
        size: Number of ranks.
        members: The chips of every node.
        kind: The chips and domains of every node, on which the bytes depend.
        firsts: The first rank of every node, infinity for a new one.
        by_rank: The nodes in the order of their first rank, new ones last.
        alike: The nodes of every kind, in the same order.
        before: The bytes between a block of ranks and the ranks before it.
        width: Number of ranks of a whole group of the fastest axis.
    """

    def __init__(self, job: ArrangementRequest) -> None:
        """Prepare the search."""
        self.job = job
        self.size = len(job.places)
        self.members: dict[int, list[int]] = defaultdict(list)
        held: dict[int, list[int]] = defaultdict(list)
        for index, chip in enumerate(job.chips):
            self.members[chip.node].append(index)
            if chip.rank is not None:
                held[chip.node].append(chip.rank)
        beyond = job.costs.boundaries[1:] if job.costs else ()
        self.kind = {
            node: (len(own), *(boundary.domains[node] for boundary in beyond))
            for node, own in self.members.items()
        }
        self.firsts = {node: min(held.get(node, [_NEW])) for node in self.members}
        self.by_rank = sorted(self.members, key=self.firsts.__getitem__)
        self.alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for node in self.by_rank:
            self.alike[self.kind[node]].append(node)
        tp = job.costs.layout.along("tp") if job.costs else None
        self.inside = Inside(job.chips, self.members, job.places, job.links, tp)
        self.is_exact = True
        self.best: _Found | None = None
        self.known: set[tuple[tuple[int, int], ...]] = set()
        largest = max(map(len, self.members.values()))
        self.before = Before(job.costs, largest)
        self.width = _width(job.costs)

    def found(self) -> Arrangement:
        """Return the best arrangement that is found."""
        carriers = assign(self.job.chips, self.job.places)
        by_role = held_blocks([self.job.chips[at].node for at in carriers])
        self._try(by_role)
        is_complete = self._is_enough(by_role)
        if not is_complete:
            for blocks in self._likely():
                self._try(blocks)
            self._exchange()
            is_complete = self._try_all()
        if self.best is None:
            raise AssertionError(self.job)  # the nodes in file order are a placement
        return Arrangement(
            carriers=self.best.carriers,
            sent=self.best.totals,
            bounds=self._bounds(),
            is_optimal=is_complete and self.is_exact,
        )

    def _is_enough(self, by_role: Blocks) -> bool:
        """Whether only roles and numbers count, and single chips may move."""
        costs, job = self.job.costs, self.job
        has_new = any(chip.rank is None for chip in job.chips)
        counts = (costs is not None and costs.flows) or job.links or has_new
        return not counts and self._is_sound(by_role)

    def _bounds(self) -> tuple[float, ...]:
        costs = self.job.costs
        if costs is None:
            return ()
        found = []
        for boundary in costs.boundaries:
            room = Counter[int]()
            for node, own in self.members.items():
                room[boundary.domains[node]] += len(own)
            found.append(lower_bound(costs.layout, costs.flows, room.values()))
        return tuple(found)

    def _likely(self) -> Iterator[Blocks]:
        """Yield placements that may be good, those that move few ranks first."""
        if self.best is None and not self.job.is_free:
            yield from self._with_roles()
        kinds = {len(own) for own in self.members.values()}
        if (
            len(kinds) > 1
            or any(size % self.width for size in kinds)
            or self.size < _FEW
        ):
            yield from Orders(self).few({})
        plain = self.laid(self.by_rank)
        yield plain
        costs = self.job.costs
        if costs is None or not costs.flows:
            return
        if len(costs.boundaries) > 1 or self.job.is_free:
            sizes = {node: len(own) for node, own in self.members.items()}
            grouped = self.laid(by_domain(costs, self.by_rank, sizes))
            yield grouped
            work = self.size * max(1, len(costs.flows)) * len(costs.boundaries)
            number = max(2, _MOST_WORK // work)
            for start in (plain, grouped):
                held = dict(start)
                # The first two are these again.
                for order in islice(node_orders(costs, [*held], held), 2, number):
                    yield [(node, held[node]) for node in order]
        if self.job.is_free:
            yield from free_placements(self)

    def _with_roles(self) -> Iterator[Blocks]:
        """Yield placements in which nodes keep their roles."""
        if any(map(self._contiguous, self.members)):
            yield self._within_domains()
        if self.best is None or self.size < _FEW:
            for is_moving in (False, True):
                yield from Orders(self).few(self._anchors(is_moving=is_moving))

    def _contiguous(self, node: int) -> tuple[int, ...]:
        """Return the domains of a node whose ranks have to follow each other."""
        boundaries = self.job.costs.boundaries if self.job.costs else ()
        return tuple([one.domains[node] for one in boundaries if one.is_contiguous])

    def _within_domains(self) -> Blocks:
        """Return a placement where nodes keep their roles, and stay in their domains.

        The domains follow each other as they are. One ends when none of its nodes has
        the next roles, as long as there are chips to spare.
        """
        held, places = self.inside.held, self.job.places
        domains: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for node in self.by_rank:
            domains[self._contiguous(node)].append(node)
        spare = len(self.job.chips) - self.size
        order: list[int] = []
        start = 0
        for nodes in domains.values():
            left: dict[tuple[int, Hashable], list[int]] = defaultdict(list)
            for node in reversed(nodes):
                own = self.members[node]
                left[len(own), held(self.job.chips[at] for at in own)].append(node)
            sizes = {size for size, _ in left}
            room = sum(len(self.members[node]) for node in nodes)
            while room and start < self.size:
                keys = ((size, held(places[start : start + size])) for size in sizes)
                key = next((key for key in keys if left.get(key)), None)
                if key is None and room <= spare:
                    spare -= room
                    break
                key = key or next(key for key, nodes in left.items() if nodes)
                order.append(left[key].pop())
                start += key[0]
                room -= key[0]
        return self.laid(order)

    def _anchors(self, *, is_moving: bool) -> dict[int, int]:
        """Return nodes whose chips all keep their roles, by the first of their ranks.

        A node stays where it is, or moves together with its copy of the model; the
        argument says which of these comes first.
        """
        found: dict[int, range] = {}
        taken: set[int] = set()
        for is_copy in (is_moving, not is_moving):
            for node in self.members.keys() - found.keys():
                block = self.anchors[node][is_copy]
                if block and taken.isdisjoint(block):
                    found[node] = block
                    taken.update(block)
        return {block.start: node for node, block in found.items()}

    @cached_property
    def anchors(self) -> dict[int, tuple[range | None, range | None]]:
        """The ranks that change no role of a node: here, and in its copy."""
        chips, places = self.job.chips, self.job.places
        rank_of: dict[tuple[Hashable, int | None], int] = {
            place: rank for rank, place in enumerate(places)
        }
        stays = [
            chip.rank is not None
            and chip.rank < self.size
            and places[chip.rank].role == chip.role
            for chip in chips
        ]
        found = {}
        for node, own in self.members.items():
            here = [chips[at].rank for at in own if stays[at]]
            there = [rank_of.get((chips[at].role, chips[at].copy)) for at in own]
            found[node] = _block(here, len(own)), _block(there, len(own))
        return found

    def laid(self, order: Iterable[int]) -> Blocks:
        """Return the placement of nodes in this order, with all chips used."""
        blocks = []
        left = self.size
        for node in order:
            if left:
                count = min(left, len(self.members[node]))
                blocks.append((node, count))
                left -= count
        return blocks

    def _is_sound(self, blocks: Blocks) -> bool:
        costs = self.job.costs
        nodes = [node for node, _ in blocks]
        if not self.job.is_free and not is_contiguous(nodes):
            return False
        return costs is None or all(
            is_contiguous([boundary.domains[node] for node in nodes])
            for boundary in costs.boundaries
            if boundary.is_contiguous
        )

    def may_be_best(self, sent: float) -> bool:
        """Whether a placement that sends so much, or more, can be the best."""
        best = self.best
        if best is None or best.cost.rings:
            return True
        return sent <= best.cost.sent * (1 + _SAME) + 1

    def _try(self, blocks: Blocks) -> None:
        """Keep a placement, with the best nodes for it, if it is better."""
        if not self._is_sound(blocks):
            return
        shape = self._shape(blocks)
        if shape in self.known:
            return
        self.known.add(shape)
        totals: list[float] = []
        costs = self.job.costs
        if costs is not None:
            width = gcd(*{count for _, count in blocks})
            owners = [node for node, count in blocks for _ in range(count // width)]
            for boundary in costs.boundaries:
                totals.append(costs.total(owners, boundary, width))
                if not self.may_be_best(sum(totals)):
                    return
        sent = sum(totals)
        best = self.best
        carriers, (rings, loads, moves) = self._filled(blocks)
        if best and is_reached(*sorted((best.cost.sent, sent))):
            sent = best.cost.sent
        cost = _ArrangementCost(rings, sent, loads, moves)
        if best is None or cost < best.cost:
            self.best = _Found(cost, carriers, blocks, tuple(totals))

    def _shape(self, blocks: Blocks) -> tuple[tuple[int, int], ...]:
        """Return a placement with the nodes of a kind numbered as they occur."""
        numbers: dict[int, int] = {}
        free = {kind: iter(nodes) for kind, nodes in self.alike.items()}
        found = []
        for node, count in blocks:
            if node not in numbers:
                numbers[node] = next(free[self.kind[node]])
            found.append((numbers[node], count))
        return tuple(found)

    def _filled(self, blocks: Blocks) -> tuple[list[int], tuple[int, int, int]]:
        """Return the best chips for a placement; nodes of a kind may change places."""
        parts: dict[int, list[int]] = defaultdict(list)
        start = 0
        for node, count in blocks:
            parts[node] += range(start, start + count)
            start += count
        wanted: dict[tuple[int, ...], list[list[int]]] = defaultdict(list)
        for node, ranks in parts.items():
            wanted[self.kind[node]].append(ranks)
        carriers = [-1] * self.size
        total = [0, 0, 0]
        for one, ranks_of in wanted.items():
            chosen = self._matched(ranks_of, self.alike[one])
            for ranks, node in zip(ranks_of, chosen, strict=True):
                order, cost = self.inside.of(node, ranks)
                for rank, at in zip(ranks, order, strict=True):
                    carriers[rank] = at
                if any(cost):
                    total = [a + b for a, b in zip(total, cost, strict=True)]
        return carriers, (total[0], total[1], total[2])

    def _matched(self, parts: list[list[int]], nodes: list[int]) -> list[int]:
        """Return the best node for every part; all are of one kind."""
        if len(nodes) == 1:
            return nodes
        if len(parts) <= _FEW_PARTS:
            return self._suited(parts, nodes)
        staying = self._staying(parts, nodes)
        kept = set(staying.values())
        moved = [at for at in range(len(parts)) if at not in staying]
        left = [node for node in nodes if node not in kept]
        suited = self._suited([parts[at] for at in moved], left) if moved else []
        chosen = {**staying, **dict(zip(moved, suited, strict=True))}
        return [chosen[at] for at in range(len(parts))]

    def _staying(self, parts: list[list[int]], nodes: list[int]) -> dict[int, int]:
        """Return the node of every part that can stay where it is at no cost.

        Moving such a part is never better: if another part takes its node, that costs
        at least as much there as the first part costs at its new node.
        """
        starts: dict[float, int] = {ranks[0]: at for at, ranks in enumerate(parts)}
        found = {}
        for node in nodes:
            at = starts.get(self.firsts[node])
            if at is not None and not any(self.inside.of(node, parts[at])[1]):
                found[at] = node
        return found

    def _suited(self, parts: list[list[int]], nodes: list[int]) -> list[int]:
        """Return the node of every part, the best ones if there are few."""
        pairs = len(parts) * len(nodes)
        if len(parts) <= MOST_EXACT and pairs * len(parts[0]) <= _MOST_PAIRS:
            weights = self.inside.weights(parts, nodes)
            return [nodes[at] for at in cheapest(weights)]
        self.is_exact = False
        return self._roughly(parts, nodes)

    def _roughly(self, parts: list[list[int]], nodes: list[int]) -> list[int]:
        """Return the same for many nodes: each node is treated like a single chip."""
        starts = {ranks[0]: at for at, ranks in enumerate(parts)}
        held = self.inside.held
        units = []
        for node in nodes:
            own = [self.job.chips[at] for at in self.members[node]]
            first = self.firsts[node]
            is_new = first == _NEW
            number = starts.get(int(first), len(parts) + node) if not is_new else None
            copy = next((chip.copy for chip in own if chip.rank == first), None)
            units.append(Chip(rank=number, role=held(own), copy=copy))
        places = self.job.places
        wanted = [
            Place(role=held([places[r] for r in ranks]), copy=places[ranks[0]].copy)
            for ranks in parts
        ]
        return [nodes[at] for at in assign(units, wanted)]

    def _exchange(self) -> None:
        """Exchange nodes, or ranks of a free table, while this improves the result."""
        costs, best = self.job.costs, self.best
        if costs is None or not costs.flows or best is None:
            return
        if any(boundary.is_contiguous for boundary in costs.boundaries):
            return
        if is_reached(sum(self._bounds()), best.cost.sent):
            return
        owners = [node for node, count in best.blocks for _ in range(count)]
        units = [range(rank, rank + 1) for rank in range(self.size)]
        if not self.job.is_free:
            if len(costs.boundaries) == 1:
                return  # nodes of one size are alike then
            units = blocks_of(owners)
        if len(units) <= _MOST_EXCHANGED:
            ceiling = costs.totals(owners)
            better = exchange(costs, owners, units, ceiling, work=_EXCHANGES)
            self._try(held_blocks(better))

    def _try_all(self) -> bool:
        """Try every placement; return False if there are too many."""
        orders = Orders(self)
        for number, blocks in enumerate(orders.every()):
            if number == _MOST_TRIED:
                return False
            self._try(blocks)
        return orders.is_complete


def _block(ranks: Sequence[int | None], size: int) -> range | None:
    """Return so many consecutive ranks, None if they are not consecutive."""
    known = [rank for rank in ranks if rank is not None]
    if len(known) < size or max(known) - min(known) != size - 1:
        return None
    first = min(known)
    return range(first, first + size)


def _width(costs: CostModel | None) -> int:
    """Return the number of ranks of a whole group of the fastest axis."""
    sizes = reversed(costs.layout.mesh_shape.values()) if costs else ()
    return next((size for size in sizes if size > 1), 1)
