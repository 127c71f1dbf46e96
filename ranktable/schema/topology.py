"""Which chips of a host are linked, the rings they form, and the best order of them.

SCCL sends data around a closed ring of direct links between chips. The chips of a node
are in ring order if each is linked to the next and the last to the first.

A ring may begin with any chip, and its first chip decides which chips share a group of
consecutive ranks. On the published 8-chip box, 0,2,6,7,3,1,5,4 does not close the two
groups of four; 2,6,7,3,1,5,4,0 is the same ring begun one chip later, and closes them.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_STEPS = 100_000
"""Most steps of a search for rings, 0.1 s; real hosts need far fewer."""


class Budget:
    """Remaining steps of a search; several searches may share one budget."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        """Allow this many steps."""
        self.left = steps

    def spend(self, steps: int = 1) -> bool:
        """Take one or more steps; return False if none is left."""
        self.left -= steps
        return self.left > 0


class _Links(NamedTuple):
    name: str
    num_chips: int
    links: frozenset[tuple[int, int]]


class Topology(_Links):
    """The direct links between the chips of one host.

    Attributes:
        name: Its name in messages.
        num_chips: Number of chips; they are 0 .. num_chips - 1.
        links: Pairs of linked chips, the smaller chip first.
    """

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """Linked chips of every chip, in increasing order."""
        linked: list[set[int]] = [set() for _ in range(self.num_chips)]
        for a, b in self.links:
            linked[a].add(b)
            linked[b].add(a)
        return tuple(tuple(sorted(chips)) for chips in linked)

    def is_linked(self, a: int, b: int) -> bool:
        """Whether two chips have a direct link."""
        return (min(a, b), max(a, b)) in self.links

    @cached_property
    def _distances(self) -> dict[int, dict[int, int]]:
        return {}

    def distances_from(self, chip: int) -> dict[int, int]:
        """Return the number of links from a chip to each chip that it can reach."""
        if chip not in self._distances:
            distances = {chip: 0}
            for near in (reached := [chip]):
                for far in self.neighbours[near]:
                    if far not in distances:
                        distances[far] = distances[near] + 1
                        reached.append(far)
            self._distances[chip] = distances
        return self._distances[chip]

    def broken_links(self, order: Sequence[int]) -> list[tuple[int, int]]:
        """Return the pairs of neighbours in a ring of this order that have no link."""
        if len(order) <= 1:
            return []
        steps = zip(order, (*order[1:], order[0]), strict=True)
        broken = [(a, b) for a, b in steps if not self.is_linked(a, b)]
        return broken[:1] if len(order) == 2 else broken

    def rings(
        self, chips: Iterable[int], limit: int = 4, budget: Budget | None = None
    ) -> list[tuple[int, ...]]:
        """Return rings through exactly these chips, each once, first chip first.

        A ring has many rotations and two directions. The one that begins with the first
        given chip and goes to the smaller of its neighbours is returned.

        Args:
            chips: Distinct chips.
            limit: Number of rings after which the search stops.
            budget: Steps after which it stops; by default ``MAX_STEPS``.
        """
        members = tuple(chips)
        if not all(0 <= chip < self.num_chips for chip in members):
            return []
        if len(members) <= 1:
            return [members] if members else []
        if len(members) == 2:
            return [members] if self.is_linked(*members) else []
        found = []
        budget = budget or Budget()
        if not self._could_close(frozenset(members)):
            return []
        for ring in self._walk(members[0], frozenset(members), budget):
            if ring[1] < ring[-1]:
                found.append(ring)
                if len(found) == limit:
                    break
        return found

    def _could_close(self, members: frozenset[int]) -> bool:
        """Whether a ring may exist: no dead ends, separate parts or uneven sides."""
        if any(len(members.intersection(self.neighbours[c])) < 2 for c in members):
            return False
        side = {min(members): 0}
        pending = list(side)
        is_bipartite = True
        while pending:
            chip = pending.pop()
            for other in members.intersection(self.neighbours[chip]):
                if other not in side:
                    side[other] = 1 - side[chip]
                    pending.append(other)
                is_bipartite &= side[other] != side[chip]
        is_even = 2 * sum(side.values()) == len(members)
        return len(side) == len(members) and (is_even or not is_bipartite)

    def _walk(
        self, start: int, members: frozenset[int], budget: Budget
    ) -> Iterator[tuple[int, ...]]:
        """Yield closed walks through all members, in lexicographic order."""
        neighbours = [
            tuple(chip for chip in linked if chip in members)
            for linked in self.neighbours
        ]
        path, visited = [start], {start}
        branches = [iter(neighbours[start])]
        while budget.spend():
            chip = next((c for c in branches[-1] if c not in visited), None)
            if chip is None:
                branches.pop()
                visited.discard(path.pop())
                if not path:
                    return
                continue
            path.append(chip)
            visited.add(chip)
            branches.append(iter(neighbours[chip]))
            if len(path) == len(members) and start in neighbours[chip]:
                yield tuple(path)

    def rings_of_size(
        self, size: int, limit: int = 8, budget: Budget | None = None
    ) -> list[tuple[int, ...]]:
        """Return rings of a given size, for each set of chips one."""
        found: list[tuple[int, ...]] = []
        budget = budget or Budget()
        for chips in combinations(range(self.num_chips), size):
            found.extend(self.rings(chips, limit=1, budget=budget))
            if len(found) >= limit or not budget.spend():
                break
        return found


def linked(name: str, num_chips: int, links: Iterable[tuple[int, int]]) -> Topology:
    """Return the topology of these links; each pair may be in either order."""
    pairs = frozenset((min(a, b), max(a, b)) for a, b in links)
    return Topology(name=name, num_chips=num_chips, links=pairs)


# A ladder of two rows, 4-0-2-6 over 5-1-3-7.
# Source: SOPHGO's manual, docs/quick_start/assets/3_c2c_topology.png; the ring orders
# in its text agree with it.
SOPHGO_8 = linked(
    "sophgo-8",
    8,
    (
        (0, 4),
        (0, 1),
        (0, 2),
        (2, 3),
        (2, 6),
        (6, 7),
        (7, 3),
        (3, 1),
        (1, 5),
        (5, 4),
    ),
)

BUILT_IN: tuple[Topology, ...] = (SOPHGO_8,)
"""Topologies known by name."""


MAX_ORDER_STEPS = 300_000
"""Most steps of a search for an order, 0.5 s; the published box needs 300."""


class ChipOrder(NamedTuple):
    """An order of a node's chips, and how far data travels around its groups.

    Attributes:
        chips: The chips, by local_rank.
        is_ring: Whether they form one closed ring of links.
        hops: Sum of the links on the way around every group.
        least: This sum if every group were a closed ring.
        is_proven: Whether it is certain that no order is better.
    """

    chips: tuple[int, ...]
    is_ring: bool
    hops: int
    least: int
    is_proven: bool

    @property
    def excess(self) -> int:
        """Additional hops, compared with closed rings for all groups."""
        return self.hops - self.least


def blocks(size: int, width: int) -> list[range]:
    """Return groups of consecutive places, such as those of tp if tp is fastest."""
    return [range(start, start + width) for start in range(0, size, width)]


def judge_order(
    topology: Topology, chips: Sequence[int], groups: Iterable[Sequence[int]]
) -> ChipOrder | None:
    """Return the cost of an order, None if two neighbours have no connection.

    Args:
        topology: The links of the host.
        chips: Its chips, by local_rank.
        groups: The local_ranks of every group.
    """
    hops = 0
    steps = _steps(groups)
    for a, b in steps:
        distance = topology.distances_from(chips[a]).get(chips[b])
        if distance is None:
            return None
        hops += distance
    return ChipOrder(
        chips=tuple(chips),
        is_ring=not topology.broken_links(chips),
        hops=hops,
        least=len(steps),
        is_proven=hops == len(steps),
    )


@lru_cache(maxsize=64)  # the nodes of a cluster have the same few orders of chips
def compare_orders(
    topology: Topology, chips: tuple[int, ...], tp: int
) -> tuple[ChipOrder | None, ChipOrder | None]:
    """Return an order with its cost for groups of tp neighbours, and the best order."""
    groups = blocks(len(chips), tp)
    here = judge_order(topology, chips, groups)
    if here is not None and here.is_ring and here.excess == 0:
        return here, here
    return here, best_order(topology, chips, groups)


def best_order(
    topology: Topology,
    chips: Sequence[int],
    groups: Sequence[Sequence[int]],
    budget: Budget | None = None,
) -> ChipOrder | None:
    """Return the order with the fewest hops around the groups of a node.

    If the chips form a ring, only rings are considered, because SCCL accepts nothing
    else. If they do not, the way around all chips counts as one more group.

    Args:
        topology: The links of the host.
        chips: Distinct chips. The search begins with their order if it is a ring,
            otherwise with a ring that begins with the first chip. Of equal orders, the
            first one that is found is returned.
        groups: The local_ranks of every group.
        budget: Steps after which the search stops; by default ``MAX_ORDER_STEPS``.

    Returns:
        The order, None if none was found. ``is_proven`` says whether the search was
        complete, or found an order that cannot be improved.
    """
    if not all(0 <= chip < topology.num_chips for chip in chips):
        return None
    budget = budget or Budget(MAX_ORDER_STEPS)
    ring: Sequence[int] | None = chips
    if topology.broken_links(chips):
        ring = next(iter(topology.rings(chips, limit=1, budget=budget)), None)
    counted = groups if ring else [*groups, range(len(chips))]
    judged = [judge_order(topology, turn, counted) for turn in _turns(ring, budget)]
    judged = judged or [judge_order(topology, chips, counted)]
    begin = min(filter(None, judged), key=lambda order: order.hops, default=None)
    if begin is None:
        return None
    search = _OrderSearch(topology, ring or chips, counted, is_ring=ring is not None)
    found = search.best(begin.excess, budget) or begin.chips
    order = judge_order(topology, found, groups)
    whole = judge_order(topology, found, counted)
    if order is None or whole is None:
        raise AssertionError(found)  # the search only makes steps that have a length
    return order._replace(is_proven=whole.excess == 0 or budget.left > 0)


def _turns(ring: Sequence[int] | None, budget: Budget) -> Iterator[Sequence[int]]:
    """Yield a ring as it is, then begun one chip later, two chips later and so on."""
    for at in range(len(ring or ())):
        if ring is not None and budget.spend(len(ring)):
            yield (*ring[at:], *ring[:at])


class _OrderSearch:
    """Tries orders chip by chip, and stops where an order cannot become better."""

    def __init__(
        self,
        topology: Topology,
        chips: Sequence[int],
        groups: Iterable[Sequence[int]],
        *,
        is_ring: bool,
    ) -> None:
        self.topology = topology
        self.chips = chips
        self.is_ring = is_ring
        members = set(chips)
        self.followers = {
            chip: [c for c in topology.neighbours[chip] if c in members]
            if is_ring
            else chips
            for chip in chips
        }
        # For every place, the earlier places that are its neighbours in a group.
        self.joined: list[list[int]] = [[] for _ in chips]
        for a, b in _steps(groups):
            self.joined[max(a, b)].append(min(a, b))

    def best(self, limit: int, budget: Budget) -> tuple[int, ...] | None:
        """Return the order with the fewest additional hops, None if none is below."""
        found = None
        # Closed groups are tried first, because this excludes most branches at once.
        for bound in sorted({min(1, limit), limit}):
            for order in self._improving(bound, budget):
                found = order
            if found is not None:
                break
        return found

    def _improving(self, limit: int, budget: Budget) -> Iterator[tuple[int, ...]]:
        """Yield orders below the limit, each with fewer hops than the one before."""
        path: list[int] = []
        visited: set[int] = set()
        excess = [0]
        branches = [iter(self.chips)]
        while limit > 0 and budget.spend():
            chip = next((c for c in branches[-1] if c not in visited), None)
            if chip is None:
                branches.pop()
                if not path:
                    return
                visited.discard(path.pop())
                excess.pop()
                continue
            total = excess[-1] + self._excess(path, chip)
            if total >= limit:
                continue
            path.append(chip)
            visited.add(chip)
            excess.append(total)
            branches.append(iter(self.followers[chip]))
            if len(path) == len(self.chips) and self._closes(path):
                limit = total
                yield tuple(path)

    def _excess(self, path: list[int], chip: int) -> int:
        """Return the additional hops when this chip is added to the order."""
        distances = self.topology.distances_from(chip)
        return sum(distances[path[place]] - 1 for place in self.joined[len(path)])

    def _closes(self, path: list[int]) -> bool:
        ends = path[-1], path[0]
        return not self.is_ring or len(path) == 1 or self.topology.is_linked(*ends)


def _steps(groups: Iterable[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the steps around every group, with the one from the last to the first."""
    return [
        (group[at - 1], group[at])
        for group in groups
        if len(group) > 1
        for at in range(len(group))
    ]
