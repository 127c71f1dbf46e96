"""Failure domains: replicas in different racks, so that each rack has at most one.

``dp:rack`` requires that the ranks of every dp group are in different racks and, if
possible, that no rack has ranks of two replicas.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import islice, permutations
from typing import TYPE_CHECKING, NamedTuple

from ranktable.layout.arrangements import grid_axes
from ranktable.layout.layout_errors import LayoutError
from ranktable.schema.diagnostic import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.crossings import Owners
    from ranktable.layout.parallel import ParallelLayout

MAX_SEQUENCES = 24
MAX_STEPS = 10_000
"""Most choices of domains for replicas that are tried."""


class Shared(NamedTuple):
    """How much of a placement is not spread; fewer groups count more than domains.

    Attributes:
        groups: Groups with two ranks in one domain.
        domains: Domains with ranks of two replicas.
    """

    groups: int
    domains: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Axes whose replicas must be in different domains of a boundary."""

    axes: str
    boundary: str
    groups: Sequence[list[int]]
    replicas: Sequence[int]
    domain_of_node: Sequence[int]

    def shared(self, owners: Owners) -> Shared:
        """Return how much of a placement is not spread."""
        domains = [self.domain_of_node[node] for node in owners]
        broken = sum(
            len({domains[rank] for rank in ranks}) < len(ranks) for ranks in self.groups
        )
        pairs = set(zip(domains, self.replicas, strict=True))
        held = Counter(domain for domain, _ in pairs)
        return Shared(broken, sum(number > 1 for number in held.values()))

    def is_shared_by_nodes(self, owners: Owners) -> bool:
        """Whether a node has two ranks of a group."""
        nodes = ([owners[rank] for rank in ranks] for ranks in self.groups)
        return any(len(set(held)) < len(held) for held in nodes)

    def impossible(self) -> str | None:
        """Return why no placement can be spread, None if it may be possible."""
        size, domains = len(self.groups[0]), len(set(self.domain_of_node))
        if size > domains:
            there = counted(domains, self.boundary)
            return f"{self.axes} is {size}, and there are {there}"
        return None

    def orders(
        self, owners: Owners, *, layout: ParallelLayout | None
    ) -> Iterator[Owners]:
        """Yield placements that are spread, if all nodes have the same size.

        Args:
            owners: The placement of the table.
            layout: The layout, if a node may hold any ranks; None if the ranks of a
                node are consecutive.
        """
        sizes = Counter(owners)
        size = sizes[owners[0]]
        if set(sizes.values()) != {size}:
            return
        nodes = list(dict.fromkeys(owners))
        for sequence in self._sequences(layout):
            blocks = [sequence[at : at + size] for at in range(0, len(owners), size)]
            for domains in (self._apart(blocks, nodes), self._crosswise(blocks, nodes)):
                if domains is not None:
                    yield self._placed(blocks, domains, nodes)

    def _sequences(self, layout: ParallelLayout | None) -> Iterator[Sequence[int]]:
        """Yield all ranks in orders whose consecutive ranks could share a node."""
        ranks = range(len(self.replicas))
        yield ranks
        if layout is None:
            return
        axes = [axis for axis in grid_axes(layout) if axis.size > 1]
        for chosen in islice(permutations(axes), MAX_SEQUENCES):
            yield sorted(
                ranks,
                key=lambda rank: (
                    self.replicas[rank],
                    *(rank // axis.stride % axis.size for axis in reversed(chosen)),
                ),
            )

    def _apart(
        self, blocks: Sequence[Sequence[int]], nodes: Sequence[int]
    ) -> list[int] | None:
        """Return the domain of every block if each domain can have only one replica."""
        held: defaultdict[int, list[int]] = defaultdict(list)
        for at, block in enumerate(blocks):
            replicas = {self.replicas[rank] for rank in block}
            if len(replicas) > 1:
                return None
            held[replicas.pop()].append(at)
        room = Counter(self.domain_of_node[node] for node in nodes)
        chosen = _filled([len(one) for one in held.values()], room)
        if chosen is None:
            return None
        found = [0] * len(blocks)
        for own, domains in zip(held.values(), chosen, strict=True):
            slots = [domain for domain in domains for _ in range(room[domain])]
            for at, domain in zip(own, slots, strict=True):
                found[at] = domain
        return found

    def _crosswise(
        self, blocks: Sequence[Sequence[int]], nodes: Sequence[int]
    ) -> list[int] | None:
        """Return the domain of every block; the blocks of a group have different ones.

        For every group, the domains with the most room are taken. As all groups have
        the same size, this finds a solution if there is one.
        """
        group_of = {rank: at for at, ranks in enumerate(self.groups) for rank in ranks}
        sharing: defaultdict[frozenset[int], list[int]] = defaultdict(list)
        for at, block in enumerate(blocks):
            groups = frozenset(group_of[rank] for rank in block)
            if len(groups) < len(block):
                return None
            sharing[groups].append(at)
        if {len(one) for one in sharing.values()} != {len(self.groups[0])}:
            return None
        room = Counter(self.domain_of_node[node] for node in nodes)
        if len(room) < len(self.groups[0]):
            return None
        found = [0] * len(blocks)
        for own in sharing.values():
            widest = sorted(room, key=lambda domain: (-room[domain], domain))
            for at, domain in zip(own, sorted(widest[: len(own)]), strict=True):
                if not room[domain]:
                    return None
                room[domain] -= 1
                found[at] = domain
        return found

    def _placed(
        self,
        blocks: Sequence[Sequence[int]],
        domains: Sequence[int],
        nodes: Sequence[int],
    ) -> Owners:
        free: defaultdict[int, list[int]] = defaultdict(list)
        for node in reversed(nodes):
            free[self.domain_of_node[node]].append(node)
        owners = [0] * len(self.replicas)
        for block, domain in zip(blocks, domains, strict=True):
            node = free[domain].pop()
            for rank in block:
                owners[rank] = node
        return owners


def _filled(needs: Sequence[int], room: Mapping[int, int]) -> list[list[int]] | None:
    """Return the domains that fill every need, None if none were found."""
    order = sorted(room, key=lambda domain: (-room[domain], domain))
    found: list[list[int]] = [[] for _ in needs]
    left = list(needs)
    steps = 0

    def fill(at: int) -> bool:
        nonlocal steps
        steps += 1
        if at == len(order):
            return not any(left)
        tried: set[int] = set()
        for one, need in enumerate(left):
            if need < room[order[at]] or need in tried or steps > MAX_STEPS:
                continue
            tried.add(need)
            left[one] -= room[order[at]]
            found[one].append(order[at])
            if fill(at + 1):
                return True
            left[one] += room[order[at]]
            found[one].pop()
        return False

    return found if len(order) < MAX_STEPS // 20 and fill(0) else None


def make_spread(
    text: str, layout: ParallelLayout, boundaries: Sequence[Boundary]
) -> Spread:
    """Return the axes and the boundary of a request such as ``dp:rack``.

    Raises:
        LayoutError: It has another form, or there is no such axis or boundary.
    """
    axes, colon, name = text.partition(":")
    known = {boundary.name: boundary for boundary in boundaries}
    if not colon or not axes:
        raise LayoutError(f"{text!r} is not axes and a boundary, as dp:rack")
    if name not in known:
        raise LayoutError(
            f"there is no boundary {name!r} to spread {axes} over; there are "
            f"{', '.join(known)}"
        )
    groups = layout.along(axes)
    if groups.group_size == 1:
        raise LayoutError(f"{axes} is 1, so there is nothing to spread")
    return Spread(
        axes=axes,
        boundary=name,
        groups=list(groups),
        replicas=groups.places(),
        domain_of_node=known[name].domains,
    )
