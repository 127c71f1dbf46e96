"""What the groups along some axes send in a step, and how much of it crosses.

Per group of n members in k domains, V being its size: an all-reduce needs 2(k-1)V
bytes over the boundary, a reduce-scatter or an all-gather (k-1)V, whatever the
algorithm: each shard needs one partial sum from every other domain. A flat ring over X
edges that cross sends (n-1)/n V over each, twice that for an all-reduce. An all-to-all
sends T/n to each of the others. A pipeline and a ring of neighbours send over the edges
that cross.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Pattern(str, Enum):
    """Who sends to whom."""

    ALL_REDUCE = "all_reduce"
    SHARD = "reduce_scatter+all_gather"
    CHAIN = "chain"
    RING = "ring"
    ALL_TO_ALL = "all_to_all"


class Crossing(NamedTuple):
    """Bytes that cross a boundary in a step.

    Attributes:
        least: With a hierarchical algorithm, or where there is only one way.
        flat: With a flat ring over the members in their order.
    """

    least: float
    flat: float


NOTHING = Crossing(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What every group along some axes sends in a step.

    Attributes:
        axes: The axes, such as ``tp`` or ``dp-cp``.
        pattern: Who sends to whom.
        size_bytes: Of a collective, the tensor; of an all-to-all, what one rank sends;
            of a chain and a ring, what goes over one edge, both ways together.
        wrap_bytes: What a chain sends from its last member to the first.
    """

    axes: str
    pattern: Pattern
    size_bytes: float
    wrap_bytes: float = 0

    @property
    def per_domain(self) -> float:
        """Bytes that cross for every domain beyond the first, at least."""
        if self.pattern is Pattern.ALL_TO_ALL:
            return 0  # it is not bounded like this
        return self.size_bytes * (2 if self.pattern is Pattern.ALL_REDUCE else 1)

    def crossing(self, domains: Sequence[int]) -> Crossing:
        """Return what one group sends over a boundary.

        Args:
            domains: Domain of every member, in the order of the group.
        """
        first = domains[0]
        if domains.count(first) == len(domains):
            return NOTHING
        size, members = self.size_bytes, len(domains)
        if self.pattern is Pattern.ALL_TO_ALL:
            held = sum(count**2 for count in Counter(domains).values())
            sent = size / members * (members**2 - held)
            return Crossing(sent, sent)
        wraps = first != domains[-1]
        steps = sum(map(int.__ne__, domains, domains[1:]))
        if self.pattern is Pattern.CHAIN:
            sent = steps * size + wraps * self.wrap_bytes
            return Crossing(sent, sent)
        edges = steps + wraps
        if self.pattern is Pattern.RING:
            return Crossing(edges * size, edges * size)
        per_edge = self.per_domain * (members - 1) / members
        return Crossing((len(set(domains)) - 1) * self.per_domain, edges * per_edge)

    def sent_by(self, domains: Sequence[int]) -> dict[int, float]:
        """Return what every domain sends over the boundary for one group.

        The partners of a collective share what crosses alike; over an edge of a chain
        half goes either way, over one of a ring all goes forward.
        """
        found: Counter[int] = Counter(domains)
        sent: dict[int, float] = dict.fromkeys(found, 0)
        if len(found) == 1:
            return sent
        if self.pattern is Pattern.ALL_TO_ALL:
            members = len(domains)
            for domain, count in found.items():
                sent[domain] = self.size_bytes / members * count * (members - count)
        elif self.pattern in (Pattern.CHAIN, Pattern.RING):
            self._add_edges(domains, sent)
        else:
            share = (len(found) - 1) * self.per_domain / len(found)
            sent = dict.fromkeys(found, share)
        return sent

    def _add_edges(self, domains: Sequence[int], sent: dict[int, float]) -> None:
        is_ring = self.pattern is Pattern.RING
        after = (*domains[1:], domains[0])
        for place, (one, other) in enumerate(zip(domains, after, strict=True)):
            is_wrap = place == len(domains) - 1
            size = self.wrap_bytes if is_wrap and not is_ring else self.size_bytes
            if one != other:
                sent[one] += size if is_ring else size / 2
                sent[other] += 0 if is_ring else size / 2
