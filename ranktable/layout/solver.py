"""Which chip has which rank after a change, by costs in one fixed order.

A placement is an order of the nodes, each with some consecutive ranks. ``Cost`` says
which of two placements is better: its fields are compared one after the other, so that
to change the policy is to move a line there. A few orders that are likely to be good
are compared, and the best of them is improved by exchanging two nodes. For few nodes
every placement that can be better is tried too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, combinations, islice, product
from operator import add, sub
from typing import TYPE_CHECKING, NamedTuple

from ranktable.layout.boundaries import is_contiguous

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from ranktable.layout.grid import Groups
    from ranktable.layout.traffic import CostModel
    from ranktable.schema.topology import Topology

    Blocks = tuple[tuple[int, int], ...]
    """Nodes in the order of the ranks, and how many ranks each of them takes."""

MAX_EXCHANGES = 10_000
"""Exchanges of two nodes that are tried, a third of a second."""

MAX_PAIRED = 128
"""Nodes up to which a node that stays where it is is exchanged too."""

MAX_BYTES = 2_000_000
"""Members of groups to look at while placements of equal cost are compared."""

MAX_NODES = 12
MAX_STEPS = 40_000
"""Nodes up to which every placement is tried, and steps of that search."""

MAX_RINGS = 16
MAX_CHOICES = 128
"""Rings of some chips, and choices of chips of a node, that are compared."""


class Cost(NamedTuple):
    """What a placement costs, the most important first: the policy of every change.

    Attributes:
        open_rings: Nodes whose chips are not a closed ring of links, if links are
            known.
        split_groups: Groups of tp, or of the fastest axis, that leave their node.
        loads: Ranks whose chip has to load other weights.
        moves: Chips that get another rank.
        over_racks: Bytes of a step between racks and other groups of nodes.
        over_nodes: Bytes of a step between nodes.
    """

    open_rings: int = 0
    split_groups: int = 0
    loads: int = 0
    moves: int = 0
    over_racks: int = 0
    over_nodes: int = 0


FREE_OF_CHARGE = Cost()


class Chip(NamedTuple):
    """A chip that can carry a rank.

    Attributes:
        node: The node that it is in.
        device_id: Its number there.
        rank: The rank that it has, None for one that is new.
        role: What it holds, None for one that is new.
    """

    node: int
    device_id: int
    rank: int | None = None
    role: Hashable = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """The input of ``solve``.

    Attributes:
        chips: The chips, node by node.
        roles: The role of every rank; there are at most as many as chips.
        costs: What is sent, and the boundaries of the nodes; None if it is not known.
        tight: The groups that should stay inside their nodes.
        links: The links of the chips of a host, None if they are not known.
    """

    chips: Sequence[Chip]
    roles: Sequence[Hashable]
    costs: CostModel | None = None
    tight: Groups | None = None
    links: Topology | None = None


@dataclass(slots=True)
class _Placement:
    """A placement: an order of all nodes, its blocks with their first ranks, its cost.

    Attributes:
        least: The cost without bytes.
        totals: The bytes over every boundary, that between nodes first.
        cost: The cost with bytes.
        block_of: The place of the block of every node that has one.
    """

    order: Sequence[int]
    blocks: Blocks
    starts: Sequence[int]
    least: Cost
    totals: Sequence[float]
    cost: Cost = field(init=False)
    block_of: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.block_of = {node: at for at, (node, _) in enumerate(self.blocks)}
        over_nodes, *beyond = map(round, self.totals or (0,))
        self.cost = self.least._replace(over_racks=sum(beyond), over_nodes=over_nodes)

    def owners(self) -> list[int]:
        """Return the node of every rank."""
        return [node for node, count in self.blocks for _ in range(count)]


def solve(request: PlacementRequest) -> tuple[list[int], Cost]:
    """Return the index of the chip of every rank, and what this placement costs."""
    return _Solver(request).solve()


class _Solver:
    """The search.

    Attributes:
        size: Number of ranks.
        members: The chips of every node.
        slack: Number of chips that are not needed.
        first: The first rank of every node; new nodes are behind all others.
        by_rank: The nodes in that order.
        kind: A number that nodes with the same roles and chips share.
        firsts: Ranks before which a larger node ends, if there are chips to spare.
        width: Ranks of a tight group of neighbours, 1 if there are none.
        domains: The racks and so on that every node is in.
        contiguous: By node, the domains whose ranks have to follow each other.
    """

    def __init__(self, request: PlacementRequest) -> None:
        self.chips, self.roles = request.chips, request.roles
        self.links, self.costs = request.links, request.costs
        self.tight = request.tight
        self.size = len(request.roles)
        self.slack = len(request.chips) - self.size
        self.members: dict[int, list[int]] = defaultdict(list)
        for at, chip in enumerate(request.chips):
            self.members[chip.node].append(at)
        end = 1 + max((c.rank for c in request.chips if c.rank is not None), default=0)
        self.first = {
            node: min(
                (rank for at in own if (rank := self.chips[at].rank) is not None),
                default=end,
            )
            for node, own in self.members.items()
        }
        self.by_rank = sorted(self.members, key=self.first.__getitem__)
        self.kind: dict[int, int] = {}
        kinds: dict[Hashable, int] = {}
        for node, own in self.members.items():
            chips = [request.chips[at] for at in own]
            ids = [chip.device_id for chip in chips] if request.links else ()
            what = tuple(ids), *[(chip.role, chip.rank is None) for chip in chips]
            self.kind[node] = kinds.setdefault(what, len(kinds))
        self.width = _width(self.tight)
        beyond = request.costs.boundaries[1:] if request.costs else ()
        self.domains = {
            node: tuple([boundary.domains[node] for boundary in beyond])
            for node in self.members
        }
        self.contiguous = [
            boundary.domains for boundary in beyond if boundary.is_contiguous
        ]
        self.firsts: tuple[int, ...] = ()
        self.exchanges = MAX_EXCHANGES
        self.bytes_left = MAX_BYTES
        self._inside: dict[tuple[int, int, int], tuple[Sequence[int], Cost]] = {}
        self._alike: dict[Hashable, tuple[tuple[int, ...], Cost]] = {}
        self._held: dict[tuple[Hashable, ...], Hashable] = {}

    def solve(self) -> tuple[list[int], Cost]:
        """Return the best placement that is found."""
        short = self.short_nodes()
        starts = [self.best_of({}), *([self.best_of(short)] if short else [])]
        found = [self.exchanged(start) for start in starts if start is not None]
        best = min(found, key=lambda placement: placement.cost)
        if len(self.members) <= MAX_NODES and best.cost > FREE_OF_CHARGE:
            best = _EveryPlacement(self, best).best
        carriers: list[int] = []
        for start, (node, count) in zip(best.starts, best.blocks, strict=True):
            carriers += self.inside(node, start, count)[0]
        return carriers, best.cost

    # Candidates

    def short_nodes(self) -> dict[int, None]:
        """Return the nodes with fewer chips than most nodes, the largest first.

        They are those that lost a chip. Behind all others they do not shift the ranks
        of nodes that could stay.
        """
        sizes = Counter(len(own) for own in self.members.values())
        usual = max(sizes, key=lambda size: (sizes[size], size))
        short = [node for node in self.by_rank if len(self.members[node]) < usual]
        return dict.fromkeys(sorted(short, key=lambda node: -len(self.members[node])))

    def best_of(self, behind: dict[int, None]) -> _Placement | None:
        """Return the best of a few placements, None if none of them is sound."""
        best: _Placement | None = None
        tried = set()
        for order, is_trimmed, firsts in self.candidates(behind):
            blocks = self.laid(order, is_trimmed=is_trimmed, firsts=firsts)
            if blocks not in tried and self.is_sound(blocks):
                tried.add(blocks)
                best = self.better(best, order, blocks)
        return best

    def candidates(
        self, behind: dict[int, None]
    ) -> Iterator[tuple[list[int], bool, Sequence[int]]]:
        """Yield orders of nodes, whether a node may end with a whole group, and where.

        The last are ranks before which a larger node ends, so that nodes behind it stay
        where they are.
        """
        sizes = {len(own) for own in self.members.values()}
        may_trim = self.slack > 0 and any(size % self.width for size in sizes)
        others = [] if behind else [self.by_rank]
        if not behind and len(sizes) > 1:
            others += [sorted(self.by_rank, key=lambda node: -len(self.members[node]))]
        for is_trimmed in (True, False) if may_trim else (False,):
            staying = _StayingOrder(self, behind).order(is_trimmed=is_trimmed)
            for order in (staying, *others):
                yield order, is_trimmed, ()
                if self.contiguous:
                    yield self.in_super_pods(order), is_trimmed, ()
        if self.slack > 0 and len(sizes) > 1:
            filled = _StayingOrder(self, behind)
            self.firsts = tuple(filled.firsts)
            order = filled.order(is_trimmed=False, firsts=self.firsts)
            yield order, False, self.firsts

    def in_super_pods(self, order: Sequence[int]) -> list[int]:
        """Return an order in which the nodes of a super pod follow each other."""
        first: dict[int, int] = {}
        domains = self.contiguous[0]
        for at, node in enumerate(order):
            first.setdefault(domains[node], at)
        return sorted(order, key=lambda node: first[domains[node]])

    def laid(
        self,
        order: Sequence[int],
        *,
        is_trimmed: bool = False,
        firsts: Sequence[int] = (),
    ) -> Blocks:
        """Return the blocks of nodes in this order, until every rank has a chip."""
        blocks, start, slack = [], 0, self.slack
        for node in order:
            count = self.taken(node, start, slack, is_trimmed=is_trimmed, firsts=firsts)
            if count:
                blocks.append((node, count))
            start += count
            slack -= len(self.members[node]) - count
            if start == self.size:
                break
        return tuple(blocks)

    def taken(
        self,
        node: int,
        start: int,
        slack: int,
        *,
        is_trimmed: bool,
        firsts: Sequence[int] = (),
    ) -> int:
        """Return how many ranks a node takes: all it can, or whole groups only.

        As long as there are chips to spare, it ends before the next of ``firsts``.
        """
        room = len(self.members[node])
        most = min(room, self.size - start)
        behind = bisect_right(firsts, start)
        if behind < len(firsts) and room - (firsts[behind] - start) <= slack:
            most = min(most, firsts[behind] - start)
        whole = max(0, most - (start + most) % self.width) if is_trimmed else most
        return whole if room - whole <= slack else most

    def held(self, roles: Sequence[Hashable]) -> Hashable:
        """Return roles in a form that does not depend on their order."""
        key = tuple(roles)
        if key not in self._held:
            self._held[key] = frozenset(Counter(key).items())
        return self._held[key]

    def wanted(self, start: int, size: int) -> Hashable:
        """Return the roles of some ranks in a form that can be compared."""
        return self.held(self.roles[start : start + size])

    # Costs

    def is_sound(self, blocks: Blocks) -> bool:
        """Whether the ranks of every super pod follow each other."""
        return all(
            is_contiguous([domains[node] for node, _ in blocks])
            for domains in self.contiguous
        )

    def better(
        self, best: _Placement | None, order: list[int], blocks: Blocks
    ) -> _Placement:
        """Return a placement with its cost if it is better, otherwise the best one."""
        starts, start = [], 0
        least = FREE_OF_CHARGE
        for node, count in blocks:
            cost = self.inside(node, start, count)[1]
            if cost is not FREE_OF_CHARGE:
                least = Cost(*map(add, least, cost))
                if best is not None and least >= best.cost:
                    return best
            starts.append(start)
            start += count
        found = _Placement(order, blocks, starts, least, self.totals(blocks))
        return found if best is None or found.cost < best.cost else best

    def totals(self, blocks: Blocks) -> tuple[float, ...]:
        """Return the bytes of a placement over every boundary."""
        if self.costs is None or not self.costs.flows:
            return ()
        owners = [node for node, count in blocks for _ in range(count)]
        self.bytes_left -= len(owners) * len(self.costs.flows)
        return self.costs.totals(owners)

    def inside(self, node: int, start: int, count: int) -> tuple[Sequence[int], Cost]:
        """Return the chips of a node for some ranks, and what they cost."""
        key = node, start, count
        if key not in self._inside:
            own = self.members[node]
            taken = range(start, start + count)
            ranks = [self.chips[at].rank for at in own]
            places = tuple(
                [-1 if r is None or r not in taken else r - start for r in ranks]
            )
            wanted = tuple(self.roles[start : start + count])
            alike = self.kind[node], places, wanted, start % self.width
            if alike not in self._alike:
                self._alike[alike] = self._best_order(own, places, wanted, alike[3])
            order, cost = self._alike[alike]
            if split := self.split_groups(start, count):
                cost = cost._replace(split_groups=split)
            self._inside[key] = [own[at] for at in order], cost
        return self._inside[key]

    def _best_order(
        self,
        own: Sequence[int],
        places: Sequence[int],
        wanted: Sequence[Hashable],
        phase: int,
    ) -> tuple[tuple[int, ...], Cost]:
        held = []
        for chip, place in zip([self.chips[at] for at in own], places, strict=True):
            number = None if self.links is None else chip.device_id
            here = None if chip.rank is None else place
            held.append(Held(number, chip.role, here))
        width = self.width
        order, cost = best_order(held, wanted, self.links, width=width, phase=phase)
        return order, FREE_OF_CHARGE if cost == FREE_OF_CHARGE else cost

    def split_groups(self, start: int, count: int) -> int:
        """Return how many tight groups begin among some ranks and end behind them."""
        if self.tight is None:
            return 0
        if len(self.tight.inside) == 1 and self.tight.inside[0].stride == 1:
            over = (start + count) % self.width
            return int(0 < over <= count)
        found = 0
        for rank in range(start, start + count):
            is_first = self.tight.place_of(rank) == 0
            found += is_first and self.tight.of(rank)[-1] >= start + count
        return found

    # Exchanges

    def exchanged(self, best: _Placement) -> _Placement:
        """Return a placement that no exchange of two nodes improves, within limits."""
        self.exchanges = MAX_EXCHANGES
        is_better = True
        while is_better:
            is_better = False
            for one, other in self.pairs(best):
                self.exchanges -= 1
                if self.exchanges <= 0:
                    return best
                found = self.swapped(best, one, other)
                is_better |= found is not best
                best = found
        return best

    def pairs(self, best: _Placement) -> Iterator[tuple[int, int]]:
        """Yield two places of an order, of which one has a node that costs something.

        If neither node costs anything, an exchange makes both of them move. If one of
        them does not, it is only worth a try among few nodes.
        """
        free = {
            node
            for start, (node, count) in zip(best.starts, best.blocks, strict=True)
            if self.inside(node, start, count)[1] == FREE_OF_CHARGE
        }
        costly = [at for at, node in enumerate(best.order) if node not in free]
        used = [at for at in costly if best.order[at] in best.block_of]
        unused = [at for at in costly if best.order[at] not in best.block_of]
        for at, one in enumerate(used):
            yield from ((one, other) for other in (*used[at + 1 :], *unused))
        if len(best.order) <= MAX_PAIRED:
            staying = [at for at, node in enumerate(best.order) if node in free]
            yield from product(costly, staying)

    def swapped(self, best: _Placement, one: int, other: int) -> _Placement:
        """Return the placement after an exchange, or the best one if that is better."""
        first, second = best.order[one], best.order[other]
        if len(self.members[first]) == len(self.members[second]):
            return self._with_nodes(best, {first: second, second: first})
        self.exchanges -= len(best.blocks) // 4
        order = _exchange(best.order, {first: second, second: first})
        for is_trimmed, firsts in ((False, ()), (True, ()), (False, self.firsts)):
            blocks = self.laid(order, is_trimmed=is_trimmed, firsts=firsts)
            if self.is_sound(blocks):
                best = self.better(best, order, blocks)
        return best

    def _with_nodes(self, best: _Placement, new: dict[int, int]) -> _Placement:
        """Return a placement with other nodes of the same size, if it is better."""
        least, moves = best.least, {}
        for node, other in new.items():
            at = best.block_of.get(node)
            if at is not None:
                start, count = best.starts[at], best.blocks[at][1]
                before = self.inside(node, start, count)[1]
                after = self.inside(other, start, count)[1]
                least = Cost(*map(add, map(sub, least, before), after))
                moves.update(dict.fromkeys(range(start, start + count), other))
        totals = best.totals
        if least >= best.cost or (totals and self.bytes_left <= 0):
            return best
        if least == best.least and len({self.domains[node] for node in new}) == 1:
            return best  # then the bytes are the same too
        blocks = tuple([(new.get(node, node), count) for node, count in best.blocks])
        if not self.is_sound(blocks):
            return best
        if totals:
            totals = self._totals_after(best, moves)
        order = _exchange(best.order, new)
        found = _Placement(order, blocks, best.starts, least, totals)
        return found if found.cost < best.cost else best

    def _totals_after(
        self, best: _Placement, moves: dict[int, int]
    ) -> tuple[float, ...]:
        """Return the bytes over every boundary when some ranks are on other nodes."""
        assert self.costs is not None
        owners = best.owners()
        touched = self.costs.groups_of(moves)
        before, members = self.costs.crossing(touched, owners)
        for rank, node in moves.items():
            owners[rank] = node
        after, _ = self.costs.crossing(touched, owners)
        self.bytes_left -= 2 * members + len(owners) // 4
        return tuple(map(add, map(sub, best.totals, before), after))


class _StayingOrder:
    """An order in which nodes keep their ranks, or else their roles.

    Super pods follow each other as they are. One ends when none of its nodes has the
    next roles, as long as there are chips to spare.

    Attributes:
        behind: Nodes that come behind all others.
        end: Number of ranks that the others take.
        held: The roles of every node that has ranks.
        at_first: By its first rank, each node whose roles would stay there.
        left: The nodes of a super pod that are not in the order yet, first those to
            fill gaps with: new ones, and then those that do not stay.
        pools: The other nodes that have ranks, by their roles and size.
    """

    def __init__(self, solver: _Solver, behind: dict[int, None]) -> None:
        self.solver, self.behind = solver, behind
        sizes = {n: len(own) for n, own in solver.members.items() if n not in behind}
        self.sizes = sorted({*sizes.values()}, reverse=True)
        self.end = min(solver.size, sum(sizes.values()))
        self.held = {
            node: solver.held([solver.chips[at].role for at in own])
            for node, own in solver.members.items()
            if any(solver.chips[at].rank is not None for at in own)
        }
        self.at_first = {
            solver.first[node]: node
            for node, roles in self.held.items()
            if node not in behind
            if solver.first[node] + len(solver.members[node]) <= self.end
            if roles == solver.wanted(solver.first[node], len(solver.members[node]))
        }
        self.staying = set(self.at_first.values())
        self.firsts = [*sorted(self.at_first), self.end]
        self.left: dict[int, None] = {}
        self.pools: dict[tuple[Hashable, int], list[int]] = {}

    def order(self, *, is_trimmed: bool, firsts: Sequence[int] = ()) -> list[int]:
        """Return the order of all nodes; ``taken`` describes the arguments."""
        solver, order = self.solver, dict[int, None]()
        start, slack = 0, solver.slack
        for nodes in self.super_pods():
            self.begin(nodes)
            room = sum(len(solver.members[node]) for node in nodes)
            is_only = len(nodes) == len(solver.members) - len(self.behind)
            while start < solver.size and self.left:
                node = self.suited(start)
                if node is None and room <= slack and not is_only:
                    slack -= room
                    break
                if node is None:
                    node = self.filling(start)
                del self.left[node]
                order[node] = None
                count = solver.taken(
                    node, start, slack, is_trimmed=is_trimmed, firsts=firsts
                )
                slack -= len(solver.members[node]) - count
                room -= len(solver.members[node])
                start += count
        order.update(self.behind)
        return [*order, *(node for node in solver.by_rank if node not in order)]

    def super_pods(self) -> Iterable[list[int]]:
        """Return the nodes of every super pod, or all nodes if there are none."""
        pods: dict[int, list[int]] = defaultdict(list)
        domains = self.solver.contiguous[0] if self.solver.contiguous else None
        for node in self.solver.by_rank:
            if node not in self.behind:
                pods[0 if domains is None else domains[node]].append(node)
        return pods.values()

    def begin(self, nodes: Sequence[int]) -> None:
        """Go on with the nodes of another super pod, in the order of their ranks."""
        moving = [node for node in reversed(nodes) if node not in self.staying]
        new = [node for node in nodes if node not in self.held]
        self.left = dict.fromkeys([*new, *moving, *nodes])
        self.pools = defaultdict(list)
        # A place behind its super pod is no place to stay: there its roles count.
        kept = [node for node in reversed(nodes) if node in self.staying]
        for node in (*(kept if self.solver.contiguous else ()), *moving):
            if node in self.held:
                size = len(self.solver.members[node])
                self.pools[self.held[node], size].append(node)

    def suited(self, start: int) -> int | None:
        """Return a node that stays where it is, or that holds the next roles."""
        node = self.at_first.get(start)
        if node in self.left:
            return node
        for size in self.sizes:
            pool = self.pools.get((self.solver.wanted(start, size), size), [])
            while pool:
                node = pool.pop()
                if node in self.left:
                    return node
        return None

    def filling(self, start: int) -> int:
        """Return any node: if sizes differ, the largest that fits before the next."""
        if len(self.sizes) == 1:
            return next(iter(self.left))
        gap = self.firsts[bisect_right(self.firsts, start)] - start
        few = islice(self.left, MAX_CHOICES)
        rooms = {node: len(self.solver.members[node]) for node in few}
        return min(rooms, key=lambda n: (n in self.staying, rooms[n] > gap, -rooms[n]))


class _EveryPlacement:
    """A search of all placements of few nodes that can be better than a known one."""

    def __init__(self, solver: _Solver, best: _Placement) -> None:
        self.solver, self.best = solver, best
        self.steps = MAX_STEPS
        kinds: dict[Hashable, list[int]] = defaultdict(list)
        for node in solver.by_rank:
            chips = [solver.chips[at] for at in solver.members[node]]
            is_new = all(chip.rank is None for chip in chips)
            ids = tuple(chip.device_id for chip in chips) if solver.links else ()
            key = (len(chips), ids, solver.domains[node]) if is_new else node
            kinds[key].append(node)
        self.left = list(kinds.values())
        self._go_on([], 0, solver.slack, FREE_OF_CHARGE)

    def _go_on(
        self, blocks: list[tuple[int, int]], start: int, slack: int, cost: Cost
    ) -> None:
        """Try every way to go on with the nodes that are left."""
        solver = self.solver
        if start == solver.size:
            used = {node for node, _ in blocks}
            order = [node for node, _ in blocks]
            order += [node for node in solver.by_rank if node not in used]
            if solver.is_sound(tuple(blocks)):
                self.best = solver.better(self.best, order, tuple(blocks))
            return
        for nodes in self.left:
            if not nodes or self.steps <= 0:
                continue
            node = nodes.pop()
            room = len(solver.members[node])
            for count in range(min(room, solver.size - start), 0, -1):
                is_last = start + count == solver.size
                if (room - count > slack and not is_last) or self.steps <= 0:
                    break
                self.steps -= 1
                inside = solver.inside(node, start, count)[1]
                more = Cost(*map(add, cost, inside))
                if more < self.best.cost:
                    rest = slack - (room - count)
                    self._go_on([*blocks, (node, count)], start + count, rest, more)
            nodes.append(node)


class Held(NamedTuple):
    """A chip of a node that takes some ranks.

    Attributes:
        device_id: Its number, if the links of the chips are known.
        role: What it holds.
        place: Which of the ranks it has now: -1 for another one, None for a new chip.
    """

    device_id: int | None
    role: Hashable = None
    place: int | None = None


def best_order(
    held: Sequence[Held],
    wanted: Sequence[Hashable],
    links: Topology | None,
    *,
    width: int = 1,
    phase: int = 0,
) -> tuple[tuple[int, ...], Cost]:
    """Return which chip of a node takes every rank, and what that costs.

    Of orders that cost the same, one with more closed rings of tight groups is chosen.

    Args:
        held: The chips.
        wanted: The role of every rank that the node takes.
        links: The links of the chips of a host.
        width: Ranks of a tight group.
        phase: How many ranks of its tight group come before the first rank.
    """
    plain = _by_role(held, wanted)
    cost = _priced(plain, held, wanted, links)
    groups = _open_groups(plain, held, links, width, phase)
    if links is None or (cost, groups) == (FREE_OF_CHARGE, 0):
        return plain, cost
    ids = tuple([chip.device_id or 0 for chip in held])
    options = [(cost, groups, 0, plain)]
    for at, order in enumerate(_ring_orders(links, ids, len(wanted)), 1):
        groups = _open_groups(order, held, links, width, phase)
        options.append((_priced(order, held, wanted, links), groups, at, order))
    cost, _, _, order = min(options)
    return order, cost


MOST_EXCHANGED = 8
"""Most ranks of a node whose chips are exchanged in pairs."""


def _priced(
    order: Sequence[int],
    held: Sequence[Held],
    wanted: Sequence[Hashable],
    links: Topology | None,
) -> Cost:
    """Return the cost of chips in some order."""
    chips = [held[place] for place in order]
    is_open = links is not None and _is_open(links, tuple([c[0] or 0 for c in chips]))
    return Cost(
        open_rings=int(is_open),
        loads=sum(
            chip.place is None or chip.role != role
            for chip, role in zip(chips, wanted, strict=True)
        ),
        moves=sum(chip.place not in (None, at) for at, chip in enumerate(chips)),
    )


def _open_groups(
    order: Sequence[int],
    held: Sequence[Held],
    links: Topology | None,
    width: int,
    phase: int,
) -> int:
    """Return how many tight groups inside a node are not closed rings."""
    if links is None or not 1 < width < len(order):
        return 0
    ids = tuple([held[place].device_id or 0 for place in order])
    starts = range(-phase % width, len(ids) - width + 1, width)
    return sum(_is_open(links, ids[at : at + width]) for at in starts)


def _exchange(order: Sequence[int], new: dict[int, int]) -> list[int]:
    return [new.get(node, node) for node in order]


def _width(tight: Groups | None) -> int:
    """Return the number of ranks of a tight group if they are neighbours."""
    if tight is None or len(tight.inside) != 1 or tight.inside[0].stride != 1:
        return 1
    return tight.group_size


def _by_role(held: Sequence[Held], wanted: Sequence[Hashable]) -> tuple[int, ...]:
    """Return chips that stay, then chips of the role, then new ones, then others."""
    taken: list[int | None] = [None] * len(wanted)
    left = dict.fromkeys(range(len(held)))
    at_place = {place: chip for chip, (_, _, place) in enumerate(held)}
    for place, role in enumerate(wanted):
        chip = at_place.get(place)
        if chip is not None and held[chip][1] == role:
            taken[place] = chip
            del left[chip]
    of_role: dict[Hashable, list[int]] = defaultdict(list)
    for chip in reversed(left):
        if held[chip][2] is not None:
            of_role[held[chip][1]].append(chip)
    for place, role in enumerate(wanted):
        if taken[place] is None and of_role[role]:
            taken[place] = chip = of_role[role].pop()
            del left[chip]
    for place in range(len(wanted)):
        chip = at_place.get(place)
        if taken[place] is None and chip in left:
            taken[place] = chip
            del left[chip]
    rest = iter(sorted(left, key=lambda chip: held[chip][2] is not None))
    order = [next(rest) if chip is None else chip for chip in taken]
    if len(order) <= MOST_EXCHANGED:
        _exchange_places(order, held, wanted)
    return tuple(order)


def _exchange_places(
    order: list[int], held: Sequence[Held], wanted: Sequence[Hashable]
) -> None:
    """Exchange two chips as long as fewer load other weights, or get another rank."""

    def cost(chip: int, at: int) -> tuple[bool, bool]:
        _, role, place = held[chip]
        return place is None or role != wanted[at], place not in (None, at)

    def both(one: int, other: int, at: int, to: int) -> tuple[int, int]:
        first, second = cost(one, at), cost(other, to)
        return first[0] + second[0], first[1] + second[1]

    moved = [at for at, chip in enumerate(order) if cost(chip, at)[1]]
    for at, to in combinations(moved, 2):
        one, other = order[at], order[to]
        if both(other, one, at, to) < both(one, other, at, to):
            order[at], order[to] = other, one


@lru_cache(maxsize=4096)
def _is_open(links: Topology, ids: tuple[int, ...]) -> bool:
    return max(ids) >= links.num_chips or bool(links.broken_links(ids))


@lru_cache(maxsize=256)  # the nodes of a cluster have the same few orders of chips
def _ring_orders(
    links: Topology, ids: tuple[int, ...], count: int
) -> tuple[tuple[int, ...], ...]:
    """Return the positions of chips in every order that is a closed ring."""
    place_of = {chip: place for place, chip in enumerate(ids)}
    found: dict[tuple[int, ...], None] = {}
    chosen = islice(combinations(ids, count), MAX_CHOICES)
    for ring in chain.from_iterable(links.rings(one, MAX_RINGS) for one in chosen):
        places = tuple(place_of[chip] for chip in ring)
        for at in range(count):
            turned = (*places[at:], *places[:at])
            found[turned] = found[turned[::-1]] = None
    return tuple(found)
