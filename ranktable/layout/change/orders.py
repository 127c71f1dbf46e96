"""Placements to try: nodes of every kind after each other, or ranks anywhere.

What crosses between nodes is a sum over them: a node adds what its ranks exchange with
the ranks before. So the best order is found rank by rank, from the best ways to come so
far with so many nodes of every kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from ranktable.layout.arrangements import free_orders
from ranktable.layout.traffic import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.layout.change.arrange import Search
    from ranktable.layout.crossings import CostModel, Members, Owners
    from ranktable.layout.traffic import Flow

_MOST_STATES = 20_000
"""Steps of a search."""

_MOST_FREE = 10
"""Ranks of a free table up to which all placements may be few enough to try."""


class Before:
    """What the ranks of a block exchange with those before it."""

    def __init__(self, costs: CostModel | None) -> None:
        """Look up the neighbours of every rank in every group."""
        self.flows = costs.flows if costs else ()
        self.members = costs.members if costs else ()
        self.known: dict[tuple[int, int], float] = {}

    def cost(self, start: int, end: int) -> float:
        """Return the bytes between some ranks and those before them."""
        key = (start, end)
        if key not in self.known:
            pairs = zip(self.flows, self.members, strict=True)
            self.known[key] = sum(_sent(flow, one, start, end) for flow, one in pairs)
        return self.known[key]


def _sent(flow: Flow, members: Members, start: int, end: int) -> float:
    block = range(start, end)
    if flow.pattern in (Pattern.CHAIN, Pattern.RING):
        edges = sum(
            members.place[rank] > 0 and members.previous[rank] < start for rank in block
        )
        is_last = members.size - 1
        wraps = sum(
            members.place[rank] == is_last and members.first[rank] < start
            for rank in block
        )
        wrap = flow.size_bytes if flow.pattern is Pattern.RING else flow.wrap_bytes
        return edges * flow.size_bytes + wraps * wrap
    index = [members.group[rank] for rank in block if members.first[rank] < start]
    if flow.pattern is Pattern.ALL_TO_ALL:
        held = Counter(index)
        earlier = {}
        for rank in reversed(block):
            earlier[members.group[rank]] = members.place[rank]
        pairs = sum(count * earlier[group] for group, count in held.items())
        return 2 * flow.size_bytes / members.size * pairs
    return flow.per_domain * len(set(index))


class _Way(NamedTuple):
    """A way to come to a rank: what it costs, numbers that stay, and its last step."""

    cost: float
    stay: int
    before: _Way | None
    size: int
    used: int


class Orders:
    """Placements of a search in which every node has consecutive ranks, or all.

    Attributes:
        is_complete: Whether ``every`` has come to its end.
    """

    def __init__(self, search: Search) -> None:
        """Count the nodes of every size."""
        self.search = search
        self.is_complete = False
        self.size = search.size
        self.before = search.before
        self.slack = len(search.job.chips) - self.size
        self.steps = 0

    def few(self) -> Iterator[Owners]:
        """Yield those with the least bytes between nodes, as far as can be searched."""
        have = Counter(len(own) for own in self.search.members.values())
        firsts = Counter(
            (len(own), self.search.firsts[node])
            for node, own in self.search.members.items()
        )
        sizes = sorted(have, reverse=True)
        width = max(1, _MOST_STATES // (len(self.search.members) * 4 * len(sizes) ** 2))
        ways: dict[int, dict[tuple[int, ...], _Way]] = defaultdict(dict)
        ways[0][(0,) * len(sizes)] = _Way(0.0, 0, None, 0, 0)
        for start in range(self.size):
            found = ways.pop(start, {})
            chosen = sorted(found.items(), key=lambda one: (one[1].cost, -one[1].stay))
            for used, way in chosen[:width]:
                wasted = sum(map(int.__mul__, used, sizes)) - start
                for at, size in enumerate(sizes):
                    if used[at] == have[size]:
                        continue
                    after = (*used[:at], used[at] + 1, *used[at + 1 :])
                    stays = size * min(1, firsts[size, start])
                    for count in self._counts(start, size, wasted):
                        cost = way.cost + self.before.cost(start, start + count)
                        known = ways[start + count].get(after)
                        new = _Way(cost, way.stay + stays, way, size, count)
                        if not known or (cost, -new.stay) < (known.cost, -known.stay):
                            ways[start + count][after] = new
        ended = sorted(ways[self.size].values(), key=lambda way: (way.cost, -way.stay))
        for way in ended[:4]:
            yield self._owners(way)

    def _counts(self, start: int, size: int, wasted: int) -> Iterator[int]:
        """Yield how many chips a node may use: all, or fewer that end a group."""
        left = self.size - start
        yield min(size, left)
        for count in range(min(size, left) - 1, 0, -1):
            if wasted + size - count > self.slack:
                return
            if any((start + count) % width == 0 for width in self.search.widths):
                yield count

    def _owners(self, way: _Way) -> Owners:
        """Return the placement of a way, with the nodes that had these ranks."""
        steps = []
        last: _Way | None = way
        while last is not None and last.before is not None:
            steps.append((last.size, last.used))
            last = last.before
        members, first = self.search.members, self.search.firsts
        at_start = {(len(members[n]), first[n]): n for n in self.search.by_rank}
        chosen: list[int | None] = []
        start = 0
        for size, count in reversed(steps):
            chosen.append(at_start.get((size, start)))
            start += count
        pools: dict[int, list[int]] = defaultdict(list)
        for node in reversed(self.search.by_rank):
            if node not in chosen:
                pools[len(members[node])].append(node)
        owners: Owners = []
        for (size, count), known in zip(reversed(steps), chosen, strict=True):
            owners += [pools[size].pop() if known is None else known] * count
        return owners

    def every(self) -> Iterator[Owners]:
        """Yield all that can be as good as the best so far, nodes of a kind alike."""
        by_kind: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for node in self.search.by_rank:
            by_kind[self.search.kind[node]].append(node)
        if self.search.job.is_free:
            if self.size > _MOST_FREE:
                return
            yield from self._anywhere([], by_kind)
        elif len(self.search.members) <= _DEEPEST:
            yield from self._after([], 0, 0.0, by_kind)
        else:
            return
        self.is_complete = self.steps < _MOST_STATES

    def _after(
        self,
        owners: Owners,
        wasted: int,
        cost: float,
        left: dict[tuple[int, ...], list[int]],
    ) -> Iterator[Owners]:
        """Yield the placements that go on with nodes that are left."""
        start = len(owners)
        if start == self.size:
            yield owners
            return
        for nodes in left.values():
            if not nodes:
                continue
            node = nodes.pop(0)
            size = len(self.search.members[node])
            for count in range(min(size, self.size - start), 0, -1):
                waste = wasted + size - count
                is_last = start + count == self.size
                if waste > self.slack and not is_last:
                    break
                self.steps += 1
                if self.steps >= _MOST_STATES:
                    break
                more = cost + self.before.cost(start, start + count)
                if self.search.may_be_best(more):
                    yield from self._after(
                        [*owners, *[node] * count], waste, more, left
                    )
            nodes.insert(0, node)

    def _anywhere(
        self, owners: Owners, left: dict[tuple[int, ...], list[int]]
    ) -> Iterator[Owners]:
        """Yield the placements of the ranks that follow, on any node with room."""
        if len(owners) == self.size:
            yield owners
            return
        held = Counter(owners)
        members = self.search.members
        for node in held:
            if held[node] < len(members[node]) and self._goes_on():
                yield from self._anywhere([*owners, node], left)
        for nodes in left.values():
            if nodes and self._goes_on():
                node = nodes.pop(0)
                yield from self._anywhere([*owners, node], left)
                nodes.insert(0, node)

    def _goes_on(self) -> bool:
        self.steps += 1
        return self.steps < _MOST_STATES


_DEEPEST = 200


def free_placements(search: Search) -> Iterator[Owners]:
    """Yield placements of a free table: boxes of ranks, and what exchanges make."""
    costs = search.job.costs
    if costs is None:
        return
    work = search.size * max(1, len(costs.flows)) * len(costs.boundaries)
    by_size = sorted(search.by_rank, key=lambda node: -len(search.members[node]))
    found = free_orders(costs, search.laid(by_size))
    for owners, _ in zip(found, range(max(2, 2_000_000 // work)), strict=False):
        yield owners
