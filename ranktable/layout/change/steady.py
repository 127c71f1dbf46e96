"""An order of many nodes of different sizes in which few ranks move.

The nodes are gone through from the lowest rank to the highest. Each is left where it
comes to lie, where it keeps the ranks that it overlaps; or it is lifted out, and others
fill the gap: nodes that were lifted before it, new ones, or the last of all, from the
end. What is left over in the end comes last. Of all ways that have come to one rank the
cheapest is followed, and only the best of these: a beam search, which is fast and comes
near to the least, but need not find it. ``every_order`` does, for a few nodes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from heapq import heapify, heappop, heappush, nsmallest
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WIDTH = 24
"""Ways that are followed at once; 48 find hardly more."""

_MOST_PULLED = 3
"""Nodes that are pulled from the end at once to find one that has the size."""

_KEEP, _LIFT = 0, -1
"""What is done with the next node; a positive number is the size of one put in."""


class _Step(NamedTuple):
    """What was done with a node, and what before it."""

    before: _Step | None
    what: int


class _Way(NamedTuple):
    """One way to have come to a rank."""

    cost: int
    pulled: int
    pool: tuple[int, ...]
    done: _Step | None


def steady_order(sizes: Sequence[int], ranks: Sequence[Sequence[int]]) -> list[int]:
    """Return the order of some nodes.

    Args:
        sizes: Number of chips of every node.
        ranks: The ranks of each, in increasing order; none for a new one.
    """
    return _Search(sizes, ranks).found()


class _Search:
    def __init__(self, sizes: Sequence[int], ranks: Sequence[Sequence[int]]) -> None:
        self.sizes = sizes
        self.ranks = ranks
        self.end = sum(sizes)
        known = sorted((at for at, one in enumerate(ranks) if one), key=self._first)
        self.line = [at for at in known if ranks[at][0] < self.end]
        gone = known[len(self.line) :]
        self.spare = [*(at for at, one in enumerate(ranks) if not one), *gone]
        self.below = [bisect_left(own, self.end) for own in ranks]
        self.kinds = sorted(set(sizes))
        self.kind = {size: place for place, size in enumerate(self.kinds)}

    def found(self) -> list[int]:
        return self._replayed(self._best())

    def _first(self, at: int) -> int:
        return self.ranks[at][0]

    def _lost(self, at: int, start: int) -> int:
        """Return how many ranks of a node change that need not."""
        own = self.ranks[at]
        stop = min(start + self.sizes[at], self.end)
        return self.below[at] - bisect_left(own, stop) + bisect_left(own, start)

    def _best(self) -> _Way:
        counts = Counter(self.sizes[at] for at in self.spare)
        pool = tuple(counts[size] for size in self.kinds)
        ways = {0: _Way(cost=0, pulled=0, pool=pool, done=None)}
        ended: list[_Way] = []
        for place, at in enumerate(self.line):
            first = self._first(at)
            self._put_in(ways, place, first)
            ways = self._past(self._narrowed(ways, first), place, ended)
            if not ways:
                break
        return min((*ways.values(), *ended), key=lambda way: way.cost)

    def _narrowed(self, ways: dict[int, _Way], first: int) -> dict[int, _Way]:
        """Return the cheapest ways, with what it will cost not to be at a rank.

        For twice the size of a node the cheapest can come to where any other is.
        """
        largest = self.kinds[-1]
        costs = {
            start: way.cost + min(abs(start - first), largest)
            for start, way in ways.items()
        }
        most = min(costs.values()) + 2 * largest
        near = [start for start, cost in costs.items() if cost <= most]
        if len(near) > _WIDTH:
            near = nsmallest(_WIDTH, near, key=costs.__getitem__)
        return {start: ways[start] for start in near}

    def _past(
        self, ways: dict[int, _Way], place: int, ended: list[_Way]
    ) -> dict[int, _Way]:
        """Return the ways beyond a node: it stays where it lies, or is lifted out."""
        at = self.line[place]
        size, first = self.sizes[at], self._first(at)
        kind, last = self.kind[size], len(self.line) - 1
        is_tight = place < last and self._first(self.line[place + 1]) == first + size
        after: dict[int, _Way] = {}
        for start, way in ways.items():
            if place > last - way.pulled:
                ended.append(way)
                continue
            cost = way.cost + self._lost(at, start)
            if _is_less(after, start + size, cost):
                done = _Step(way.done, _KEEP)
                after[start + size] = _Way(cost, way.pulled, way.pool, done)
            cost = way.cost + self.below[at]
            if (start != first or not is_tight) and _is_less(after, start, cost):
                pool = _more(way.pool, kind, 1)
                after[start] = _Way(cost, way.pulled, pool, _Step(way.done, _LIFT))
        return after

    def _put_in(self, ways: dict[int, _Way], place: int, first: int) -> None:
        """Add the ways in which nodes fill the gap before a rank."""
        todo = [start for start in ways if start < first]
        heapify(todo)
        while todo:
            start = heappop(todo)
            way = ways[start]
            for kind, cost, pulled in self._at_hand(way, place):
                end = start + self.kinds[kind]
                if end not in ways and end < first:
                    heappush(todo, end)
                if _is_less(ways, end, cost):
                    ways[end] = self._with(way, kind, cost, pulled)

    def _with(self, way: _Way, kind: int, cost: int, pulled: int) -> _Way:
        """Return a way with a node of some size put in, others pulled for it."""
        pool = _more(way.pool, kind, -1)
        count = len(self.line)
        for at in self.line[count - pulled : count - way.pulled]:
            pool = _more(pool, self.kind[self.sizes[at]], 1)
        return _Way(cost, pulled, pool, _Step(way.done, self.kinds[kind]))

    def _at_hand(self, way: _Way, place: int) -> Iterator[tuple[int, int, int]]:
        """Yield the sizes there are to put in, the cost, and how many are pulled."""
        missing = set()
        for kind, count in enumerate(way.pool):
            if count:
                yield kind, way.cost, way.pulled
            else:
                missing.add(kind)
        cost, last = way.cost, len(self.line) - 1 - way.pulled
        for here in range(last, max(place, last - _MOST_PULLED), -1):
            at = self.line[here]
            kind = self.kind[self.sizes[at]]
            cost += self.below[at]
            if kind in missing:
                missing.remove(kind)
                yield kind, cost, len(self.line) - here

    def _replayed(self, way: _Way) -> list[int]:
        """Return the order that a way comes to."""
        steps: list[int] = []
        done = way.done
        while done is not None:
            steps.append(done.what)
            done = done.before
        pool: dict[int, list[int]] = defaultdict(list)
        for at in reversed(self.spare):
            pool[self.sizes[at]].append(at)
        line, order = list(self.line), []
        place = 0
        for step in reversed(steps):
            if step > 0:
                while not pool[step]:
                    pool[self.sizes[line[-1]]].append(line.pop())
                order.append(pool[step].pop())
                continue
            at = line[place]
            place += 1
            if step == _KEEP:
                order.append(at)
            else:
                pool[self.sizes[at]].append(at)
        left = [*line[place:], *(at for one in pool.values() for at in one)]
        return [*order, *sorted(left, key=lambda at: [*self.ranks[at], self.end][0])]


def _more(pool: tuple[int, ...], kind: int, count: int) -> tuple[int, ...]:
    return (*pool[:kind], pool[kind] + count, *pool[kind + 1 :])


def _is_less(ways: dict[int, _Way], start: int, cost: int) -> bool:
    """Whether no way that has come to this rank costs as little."""
    known = ways.get(start)
    return known is None or cost < known.cost
