"""Placements to try: nodes of every kind after each other, or ranks anywhere.

What crosses between nodes is a sum over them: a node adds what its ranks exchange with
the ranks before. So the best order is found rank by rank, from the best ways to come so
far with so many nodes of every kind.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from functools import cached_property
from itertools import accumulate
from math import lcm
from operator import ne
from typing import TYPE_CHECKING, NamedTuple

from ranktable.layout.arrangements import free_orders
from ranktable.layout.crossings import bytes_across
from ranktable.layout.traffic import Pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from ranktable.layout.change.arrange import Search
    from ranktable.layout.crossings import CostModel, Members, Owners
    from ranktable.layout.grid import Groups
    from ranktable.layout.traffic import Flow

_MOST_STATES = 20_000
"""Steps of a search."""

_MOST_ENDED = 4
"""Placements with the least bytes that are tried, of those that use other nodes."""

_MOST_FREE = 10
"""Ranks of a free table up to which all placements may be few enough to try."""


class Before:
    """What the ranks of a block exchange with those before it, but for far groups.

    Two ranks of a far group never fit into a node. So what is sent along it is the
    same for all placements of blocks.

    Attributes:
        far: Bytes of the far groups.
    """

    def __init__(self, costs: CostModel | None, largest: int) -> None:
        """Tell the flows of far groups apart, by the chips of the largest node."""
        pairs = zip(costs.flows, costs.members, strict=True) if costs else ()
        self.near: list[tuple[Flow, Members, int]] = []
        self._far: list[tuple[Flow, Groups]] = []
        for flow, members in pairs:
            axes = members.groups.inside
            if min(axis.stride for axis in axes if axis.size > 1) >= largest:
                self._far.append((flow, members.groups))
            else:
                period = max(axis.stride * axis.size for axis in axes)
                self.near.append((flow, members, period))
        self.known: dict[tuple[int, int], float] = {}
        self.period = lcm(*(period for _, _, period in self.near))

    @cached_property
    def far(self) -> float:
        """Bytes of the far groups, each rank on a node of its own."""
        return sum(
            bytes_across(flow, groups, range(groups.world_size))
            for flow, groups in self._far
        )

    def cost(self, start: int, end: int) -> float:
        """Return the bytes between some ranks and those before them."""
        start, count = start % self.period, end - start
        key = (start, count)
        if key not in self.known:
            self.known[key] = sum(
                _sent(flow, members, start % period, start % period + count)
                for flow, members, period in self.near
            )
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
    """A path to a rank: its cost, and its last step.

    A step takes some chips of a node of some size, or of the node that is anchored.
    """

    cost: float
    stay: int
    wasted: int = 0
    before: _Way | None = None
    size: int = 0
    taken: int = 0
    node: int | None = None

    def with_step(
        self, cost: float, stays: int, size: int, count: int, node: int | None = None
    ) -> _Way:
        """Return this way with another step."""
        wasted = self.wasted + size - count
        return _Way(
            self.cost + cost, self.stay + stays, wasted, self, size, count, node
        )


class _Pool:
    """Nodes to take one after the other, by their sizes and domains."""

    def __init__(
        self, nodes: Iterable[int], kind: Mapping[int, tuple[int, ...]]
    ) -> None:
        self.kind = kind
        # Of every size, the nodes of every kind, the next one last.
        self.of_size: dict[int, dict[tuple[int, ...], list[int]]] = defaultdict(dict)
        for node in nodes:
            self.of_size[kind[node][0]].setdefault(kind[node], []).append(node)
        for kinds in self.of_size.values():
            for found in kinds.values():
                found.reverse()

    def pop(self, size: int, near: int | None) -> int:
        """Return a node of a size from the domains of another one, or from others."""
        domains = () if near is None else self.kind[near][1:]
        kind = (size, *domains)
        kinds = self.of_size[size]
        if kind not in kinds:
            # All others differ alike where there is one boundary beyond the nodes.
            kind = (
                next(iter(kinds))
                if len(domains) <= 1
                else min(kinds, key=lambda kind: sum(map(ne, kind[1:], domains)))
            )
        node = kinds[kind].pop()
        if not kinds[kind]:
            del kinds[kind]
        return node


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

    def few(self, anchors: Mapping[int, int]) -> Iterator[Owners]:
        """Yield those with the least bytes between nodes, as far as can be searched.

        Args:
            anchors: Nodes that take ranks from some rank on, with all of their chips.
        """
        members, first = self.search.members, self.search.firsts
        anchored = set(anchors.values())
        others = [node for node in self.search.by_rank if node not in anchored]
        have = Counter(len(members[node]) for node in others)
        firsts = {(len(members[node]), first[node]) for node in others}
        sizes = sorted(have, reverse=True)
        width = max(1, _MOST_STATES // (len(members) * 4 * max(1, len(sizes)) ** 2))
        ends = [*sorted(anchors), self.size]
        ways: dict[int, dict[tuple[int, ...], _Way]] = defaultdict(dict)
        ways[0][(0,) * len(sizes)] = _Way(0.0, 0)
        for start in range(self.size):
            if start not in ways:
                continue
            found = sorted(ways.pop(start).items(), key=lambda one: _rank(one[1]))
            node = anchors.get(start)
            end = ends[bisect_right(ends, start)]
            for used, way in found[:width]:
                if node is not None:
                    size = len(members[node])
                    stays = size * (first[node] == start)
                    cost = self.before.cost(start, start + size)
                    new = way.with_step(cost, stays, size, size, node)
                    _keep(ways[start + size], used, new)
                    continue
                for at, size in enumerate(sizes):
                    if used[at] == have[size]:
                        continue
                    after = (*used[:at], used[at] + 1, *used[at + 1 :])
                    stays = size * ((size, start) in firsts)
                    slack = self.slack - way.wasted
                    for count in self._counts(start, end, size, slack):
                        cost = self.before.cost(start, start + count)
                        new = way.with_step(cost, stays, size, count)
                        _keep(ways[start + count], after, new)
        for way in sorted(ways[self.size].values(), key=_rank)[:_MOST_ENDED]:
            yield self._owners(way, anchored)

    def _counts(self, start: int, end: int, size: int, slack: int) -> Iterable[int]:
        """Return how many chips a node may use: all, or fewer that end a group."""
        most = min(size, end - start)
        least = max(0, size - slack - 1)
        fewer = most - 1 - (start + most - 1) % self.search.width
        return most, *range(fewer, least, -self.search.width)

    def _owners(self, last: _Way, anchored: Collection[int]) -> Owners:
        """Return the placement of a way, with the nodes that had these ranks."""
        steps = []
        way: _Way = last
        while way.before is not None:
            steps.append(way)
            way = way.before
        steps.reverse()
        members, first = self.search.members, self.search.firsts
        others = [node for node in self.search.by_rank if node not in anchored]
        at_start = {(len(members[node]), first[node]): node for node in others}
        starts = accumulate((step.taken for step in steps), initial=0)
        chosen = [
            at_start.get((step.size, start)) if step.node is None else step.node
            for step, start in zip(steps, starts, strict=False)
        ]
        taken = set(chosen)
        pool = _Pool([node for node in others if node not in taken], self.search.kind)
        owners: Owners = []
        for step, known in zip(steps, chosen, strict=True):
            before = owners[-1] if owners else None
            node = pool.pop(step.size, before) if known is None else known
            owners += [node] * step.taken
        return owners

    def every(self) -> Iterator[Owners]:
        """Yield all that can be as good as the best so far; equal nodes count once."""
        by_kind = {kind: [*nodes] for kind, nodes in self.search.alike.items()}
        if self.search.job.is_free:
            if self.size > _MOST_FREE:
                return
            yield from self._anywhere([], by_kind)
        elif len(self.search.members) <= _DEEPEST:
            yield from self._after([], 0, self.before.far, by_kind)
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


def _rank(way: _Way) -> tuple[float, int]:
    return way.cost, -way.stay


def _keep(ways: dict[tuple[int, ...], _Way], used: tuple[int, ...], new: _Way) -> None:
    """Keep the better way to use some nodes."""
    known = ways.get(used)
    if known is None or _rank(new) < _rank(known):
        ways[used] = new


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
