"""What a topology says: levels of groups of hosts, the smallest groups first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.layout.boundaries import make_boundary
from ranktable.layout.errors import LayoutError
from ranktable.schema.messages import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.layout.boundaries import Boundary
    from ranktable.schema.model import RankTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level.

    Attributes:
        name: What a group is called: ``rack``.
        groups: Group of every host.
    """

    name: str
    groups: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """Levels, the smallest groups first; each group lies in one of the next level."""

    levels: tuple[Level, ...]


def boundaries_of(
    hierarchy: Hierarchy, table: RankTable, *, file: str
) -> tuple[Boundary, ...]:
    """Return the boundaries of a topology on a table.

    Args:
        hierarchy: The topology; it may have hosts that the table has not.
        table: The table, whose nodes need hosts.
        file: Name of the topology.

    Raises:
        LayoutError: A node has no host, or one that the topology does not have.
    """
    hosts = []
    for node_rank, host in enumerate(table.hosts):
        if host is None:
            raise LayoutError(
                f"node {node_rank} has no host, and {printable(file)} names hosts; "
                "give the table hosts: convert --hosts LIST, or gen --hosts LIST"
            )
        hosts.append(host)
    for level in hierarchy.levels:
        for node_rank, host in enumerate(hosts):
            if host not in level.groups:
                raise LayoutError(_missing(node_rank, host, level, file))
    return tuple(
        make_boundary(level.name, [level.groups[host] for host in hosts])
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
