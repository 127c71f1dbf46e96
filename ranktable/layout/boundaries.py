"""Boundaries that bytes cross: between nodes, and between what holds several nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.model import RankTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """One kind of domain, and which of them every node of a table is in.

    Attributes:
        name: What one domain is called: ``node``, ``rack``.
        domains: Domain of every node by node_rank; counted from 0 as they come.
        labels: Name of every domain.
        is_contiguous: Whether the ranks of a domain have to follow each other, as
            those of a super pod have.
    """

    name: str
    domains: tuple[int, ...]
    labels: tuple[str, ...]
    is_contiguous: bool = False

    @property
    def is_trivial(self) -> bool:
        """Whether there is nothing to cross."""
        return len(self.labels) == 1

    def num_ranks(self, sizes: Sequence[int]) -> list[int]:
        """Return the number of ranks of every domain, from those of every node."""
        counted: Counter[int] = Counter()
        for domain, size in zip(self.domains, sizes, strict=True):
            counted[domain] += size
        return [counted[domain] for domain in range(len(self.labels))]


def node_boundary(table: RankTable) -> Boundary:
    """Return the boundary between the nodes of a table."""
    return Boundary(
        name="node",
        domains=tuple(range(table.num_nodes)),
        labels=tuple(host or f"node {at}" for at, host in enumerate(table.hosts)),
    )


def make_boundary(
    name: str, labels: Sequence[str], *, is_contiguous: bool = False
) -> Boundary:
    """Return the boundary of domains that are known by a label for every node."""
    numbers: dict[str, int] = {}
    domains = tuple(numbers.setdefault(label, len(numbers)) for label in labels)
    return Boundary(
        name=name, domains=domains, labels=tuple(numbers), is_contiguous=is_contiguous
    )


def smallest_first(boundaries: Sequence[Boundary]) -> tuple[Boundary, ...]:
    """Return what is worth looking at: no trivial boundary, and none twice."""
    kept: list[Boundary] = []
    for boundary in boundaries:
        is_new = all(boundary.domains != other.domains for other in kept)
        if is_new and not boundary.is_trivial:
            kept.append(boundary)
    return tuple(kept)
