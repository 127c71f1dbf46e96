"""Boundaries that bytes cross: between nodes, racks, pods and other groups of nodes.

The groups of nodes are known from a topology file, from a list such as
``rack=4,pod=16``, or from the super pods of the table.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from operator import ne
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.layout.layout_errors import LayoutError
from ranktable.schema.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.schema.model import RankTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """One kind of domain, and the domain of every node of a table.

    Attributes:
        name: What one domain is called: ``node``, ``rack``.
        domains: Domain of every node by node_rank; numbered from 0 in file order.
        labels: Name of every domain.
        is_contiguous: Whether the ranks of a domain must be consecutive, as those of a
            super pod must.
    """

    name: str
    domains: tuple[int, ...]
    labels: tuple[str, ...]
    is_contiguous: bool = False

    @property
    def is_trivial(self) -> bool:
        """Whether there are no two domains, so that no byte crosses."""
        return len(self.labels) == 1

    def num_ranks(self, sizes: Sequence[int]) -> list[int]:
        """Return the number of ranks of every domain, given the ranks of every node."""
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
    """Return the boundary of domains, given a label for every node."""
    numbers: dict[str, int] = {}
    domains = tuple(numbers.setdefault(label, len(numbers)) for label in labels)
    return Boundary(
        name=name, domains=domains, labels=tuple(numbers), is_contiguous=is_contiguous
    )


def smallest_first(boundaries: Sequence[Boundary]) -> tuple[Boundary, ...]:
    """Return the boundaries without trivial ones and duplicates."""
    kept: list[Boundary] = []
    for boundary in boundaries:
        is_new = all(boundary.domains != other.domains for other in kept)
        if is_new and not boundary.is_trivial:
            kept.append(boundary)
    return tuple(kept)


def is_contiguous(domains: Sequence[int]) -> bool:
    """Whether the members of every domain follow each other."""
    runs: int = sum(map(ne, domains, domains[1:])) + 1
    return runs == len(set(domains))


def grouped_order(boundaries: Sequence[Boundary], num_nodes: int) -> list[int]:
    """Return the nodes so that those of each domain follow each other.

    Domains, and nodes in a domain, keep the order of their first appearance.

    Args:
        boundaries: The boundaries, the smallest domains first; each domain lies in one
            of the next boundary.
        num_nodes: Number of nodes.
    """
    outer_first = [boundary.domains for boundary in reversed(boundaries)]
    return sorted(range(num_nodes), key=lambda node: [own[node] for own in outer_first])


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of a topology.

    Attributes:
        name: What a group is called: ``rack``.
        groups: Group of every host.
    """

    name: str
    groups: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """Levels, the smallest groups first; each group lies in one of the next level.

    Attributes:
        levels: The levels.
        refusal: Why a sound file says nothing by which nodes could be ordered; then
            there are no levels.
    """

    levels: tuple[Level, ...]
    refusal: str = ""

    def with_hosts(self, instead: Mapping[str, str]) -> Hierarchy:
        """Return the hierarchy with new hosts in the groups of others."""
        return Hierarchy(
            levels=tuple(
                Level(
                    name=level.name,
                    groups={
                        **level.groups,
                        **{new: level.groups[old] for new, old in instead.items()},
                    },
                )
                for level in self.levels
            )
        )


def boundaries_of(
    hierarchy: Hierarchy, hosts: Sequence[str | None], *, file: str
) -> tuple[Boundary, ...]:
    """Return the boundaries of a hierarchy on some nodes.

    Args:
        hierarchy: The groups; it may have hosts that are not among the nodes.
        hosts: The host of every node.
        file: Name of the hierarchy.

    Raises:
        LayoutError: A node has no host, or one that the hierarchy does not have.
    """
    for level in hierarchy.levels:
        for node_rank, host in enumerate(hosts):
            if host is None:
                raise LayoutError(
                    f"node {node_rank} has no host, and {printable(file)} names hosts; "
                    "give the table hosts: convert --hosts LIST, or gen --hosts LIST"
                )
            if host not in level.groups:
                raise LayoutError(_missing(node_rank, host, level, file))
    return tuple(
        make_boundary(level.name, [level.groups[str(host)] for host in hosts])
        for level in hierarchy.levels
    )


def _missing(node_rank: int, host: str, level: Level, file: str) -> str:
    short = host.partition(".")[0]
    alike = [name for name in level.groups if name.partition(".")[0] == short]
    told = f"; it has {printable(alike[0])}, spelt otherwise" if alike else ""
    return (
        f"{printable(file)} has no {printable(host)}, the host of node {node_rank}"
        f"{told}"
    )


_LOOKS = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}=[^/]*")
_ITEM = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,30})=([1-9][0-9]{0,6})")


def is_level_list(text: str) -> bool:
    """Whether an argument is a list of levels, not the name of a file."""
    return _LOOKS.fullmatch(text) is not None


def counted_levels(text: str, names: Sequence[str]) -> Hierarchy:
    """Return the hierarchy of a list of levels, for nodes in a given order.

    Args:
        text: Names and numbers of nodes, the smallest first: ``rack=4,pod=16``.
        names: The names of the nodes. After a change they are still in these groups.

    Raises:
        ArgumentError: It is not such a list, or a number is not a multiple of the
            one before.
    """
    found: list[Level] = []
    before, at = 1, 0
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None or match[1] in ("node", *(one.name for one in found)):
            raise ArgumentError(
                f"{item!r} is not a level" if match is None else f"{match[1]} is taken",
                text=text,
                position=at,
                hint="write, for example, rack=4,pod=16: nodes of each",
            )
        name, size = match[1], int(match[2])
        if size % before:
            raise ArgumentError(
                f"{size} nodes do not hold whole groups of {before}",
                text=text,
                position=at + len(name) + 1,
            )
        groups = {node: f"{name} {place // size}" for place, node in enumerate(names)}
        found.append(Level(name=name, groups=groups))
        before = size
        at += len(item) + 1
    return Hierarchy(levels=tuple(found))


def super_pods(table: RankTable) -> Boundary | None:
    """Return the boundary between the super pods of a table, None if it has none.

    HCCL refuses a table in which the ranks of a super pod are not consecutive.

    Source: Ascend's rank table 1.2, ``super_pod_list[].server_list[].server_id``, and
    envref_07_0100, HCCL_LOGIC_SUPERPOD_ID.

    Raises:
        LayoutError: A node is in no super pod, but others are.
    """
    found = [node.super_pod for node in table.nodes]
    if all(pod is None for pod in found):
        return None
    for node_rank, pod in enumerate(found):
        if not pod:
            raise LayoutError(f"node {node_rank} is not in a super pod, but others are")
    return make_boundary("super pod", list(map(str, found)), is_contiguous=True)
