"""Which chips of a host are linked, and the rings they form.

SCCL sends data around a closed ring of direct links between chips. The chips of a node
are in ring order if each is linked to the next and the last to the first.
"""

from __future__ import annotations

from functools import cached_property
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
