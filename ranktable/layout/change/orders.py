"""Candidate placements: nodes of every kind in some order, or ranks anywhere.

The bytes between nodes are a sum over the nodes: each adds what its ranks exchange with
the ranks before them. So the best order can be found rank by rank, from the best paths
to each rank with each number of used nodes of every kind.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from functools import cached_property
from itertools import accumulate, islice
from math import lcm
from operator import ne
from typing import TYPE_CHECKING, NamedTuple

from ranktable.layout.arrangements import free_orders, held_blocks
from ranktable.layout.traffic import Pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ranktable.layout.arrangements import Blocks
    from ranktable.layout.change.arrange import Search
    from ranktable.layout.crossings import CostModel, Members, Owners
    from ranktable.layout.grid import Groups
    from ranktable.layout.traffic import Flow

_MOST_STATES = 20_000
"""Most steps of a search."""

_MOST_ENDED = 4
"""Placements with the least bytes that are tried, each with other kinds of nodes."""

_MOST_FREE = 10
"""Ranks of a free table up to which all placements may be tried."""


class Before:
    """The bytes between a block of ranks and the ranks before it, without far groups.

    In a far group, no two ranks fit into one node. So its bytes are the same for all
    placements of blocks, and are counted once.

    Attributes:
        far: Bytes of the far groups.
    """

    def __init__(self, costs: CostModel | None, largest: int) -> None:
        """Separate the flows of far groups, given the chips of the largest node."""
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
            flow.crossing(range(groups.group_size)).least * len(groups)
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
    """A path of the search to a rank: its cost, the chips that stay, and its last step.

    A step takes some chips of a node of some size, or of an anchored node.
    """

    cost: float
    stay: int
    wasted: int
    used: tuple[int, ...]
    before: _Way | None = None
    size: int = 0
    taken: int = 0
    node: int | None = None


class _Pool:
    """Nodes to take one after the other, by their sizes and domains."""

    def __init__(
        self, nodes: Iterable[int], kind: Mapping[int, tuple[int, ...]]
    ) -> None:
        self.kind = kind
        # For every size: the nodes of every kind, in reverse order.
        self.of_size: dict[int, dict[tuple[int, ...], list[int]]] = defaultdict(dict)
        for node in nodes:
            self.of_size[kind[node][0]].setdefault(kind[node], []).append(node)
        for kinds in self.of_size.values():
            for found in kinds.values():
                found.reverse()

    def pop(self, size: int, near: int | None) -> int:
        """Return a node of this size, if possible from the domains of another node."""
        domains = () if near is None else self.kind[near][1:]
        kind = (size, *domains)
        kinds = self.of_size[size]
        if kind not in kinds:
            # With one boundary besides the nodes, all other domains are equally far.
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
    """Candidate placements of a search: blocks of consecutive ranks, or all.

    Attributes:
        is_complete: Whether ``every`` has yielded all placements.
    """

    def __init__(self, search: Search) -> None:
        """Count the nodes of every size."""
        self.search = search
        self.is_complete = False
        self.size = search.size
        self.before = search.before
        self.slack = len(search.job.chips) - self.size
        self.steps = 0

    def few(self, anchors: Mapping[int, int]) -> Iterator[Blocks]:
        """Yield block placements with the least bytes between nodes, within a limit.

        Args:
            anchors: Nodes that use all their chips, by the first rank that they take.
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
        ways[0][()] = _Way(0.0, 0, 0, (0,) * len(sizes))
        for start in range(self.size):
            if start not in ways:
                continue
            node = anchors.get(start)
            steps: Iterable[tuple[int, int, tuple[int, ...]]]
            for way in sorted(ways.pop(start).values(), key=_rank)[:width]:
                if node is None:
                    end = ends[bisect_right(ends, start)]
                    steps = self._steps(way, start, end, sizes, have)
                else:
                    steps = ((len(members[node]), len(members[node]), way.used),)
                for size, count, used in steps:
                    after = start + count
                    cost = way.cost + self.before.cost(start, after)
                    is_there = (
                        (size, start) in firsts
                        if node is None
                        else first[node] == start
                    )
                    stay = way.stay + size * is_there
                    # Where one way goes on, it is the best one, whatever nodes it used.
                    key = () if width == 1 and after < self.size else used
                    known = ways[after].get(key)
                    if known is None or (cost, -stay) < _rank(known):
                        wasted = way.wasted + size - count
                        ways[after][key] = _Way(
                            cost, stay, wasted, used, way, size, count, node
                        )
        for way in sorted(ways[self.size].values(), key=_rank)[:_MOST_ENDED]:
            yield self._blocks(way, anchored)

    def _steps(
        self,
        way: _Way,
        start: int,
        end: int,
        sizes: Sequence[int],
        have: Mapping[int, int],
    ) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yield the size of a node that is left, its ranks, and the nodes used then."""
        slack = self.slack - way.wasted
        for at, size in enumerate(sizes):
            if way.used[at] < have[size]:
                used = (*way.used[:at], way.used[at] + 1, *way.used[at + 1 :])
                for count in self._counts(start, end, size, slack):
                    yield size, count, used

    def _counts(self, start: int, end: int, size: int, slack: int) -> Iterable[int]:
        """Return how many chips a node may use: all, or fewer if that ends a group."""
        most = min(size, end - start)
        least = max(0, size - slack - 1)
        fewer = most - 1 - (start + most - 1) % self.search.width
        return most, *range(fewer, least, -self.search.width)

    def _blocks(self, last: _Way, anchored: Collection[int]) -> Blocks:
        """Return the placement of a path; nodes keep their old ranks where possible."""
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
        blocks: Blocks = []
        near = None
        for step, known in zip(steps, chosen, strict=True):
            near = pool.pop(step.size, near) if known is None else known
            blocks.append((near, step.taken))
        return blocks

    def every(self) -> Iterator[Blocks]:
        """Yield all placements that can be the best; equal nodes count once."""
        by_kind = {kind: [*nodes] for kind, nodes in self.search.alike.items()}
        if self.search.job.is_free:
            if self.size > _MOST_FREE:
                return
            yield from map(held_blocks, self._anywhere([], by_kind))
        elif len(self.search.members) <= _DEEPEST:
            yield from self._after([], 0, 0, self.before.far, by_kind)
        else:
            return
        self.is_complete = self.steps < _MOST_STATES

    def _after(
        self,
        blocks: Blocks,
        start: int,
        wasted: int,
        cost: float,
        left: dict[tuple[int, ...], list[int]],
    ) -> Iterator[Blocks]:
        """Yield the placements that continue this one with the remaining nodes."""
        if start == self.size:
            yield blocks
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
                    longer = [*blocks, (node, count)]
                    end = start + count
                    yield from self._after(longer, end, waste, more, left)
            nodes.insert(0, node)

    def _anywhere(
        self, owners: Owners, left: dict[tuple[int, ...], list[int]]
    ) -> Iterator[Owners]:
        """Yield the placements of the remaining ranks, on any node that has room."""
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


def free_placements(search: Search) -> Iterator[Blocks]:
    """Yield placements of a free table: boxes of ranks, then better exchanges."""
    costs = search.job.costs
    if costs is None:
        return
    work = search.size * max(1, len(costs.flows)) * len(costs.boundaries)
    by_size = sorted(search.by_rank, key=lambda node: -len(search.members[node]))
    sizes = dict(search.laid(by_size))
    found = free_orders(costs, [*sizes], sizes)
    yield from map(held_blocks, islice(found, max(2, 2_000_000 // work)))
