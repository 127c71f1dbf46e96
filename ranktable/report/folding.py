"""Many nodes in few lines: ``n[000-127]: chips 0-7 -> ranks 8i..8i+7``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.cluster.host_lists import fold_hosts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.model import Node, RankTable


@dataclass(frozen=True, slots=True)
class Fold:
    """Consecutive nodes with the same chips and ranks that count on.

    Attributes:
        first: node_rank of the first.
        last: node_rank of the last.
        host: Their hosts, folded.
        chips: The chips of each, folded.
        ranks: The ranks of each, as a formula in i when there are several nodes.
    """

    first: int
    last: int
    host: str
    chips: str
    ranks: str


def fold_nodes(table: RankTable) -> list[Fold]:
    """Return the nodes of a table in as few lines as their likeness allows."""
    folds: list[Fold] = []
    start = 0
    nodes = table.nodes
    for at in range(1, len(nodes) + 1):
        if at < len(nodes) and _continues(nodes, start, at):
            continue
        folds.append(_fold(nodes, start, at - 1))
        start = at
    return folds


def _chips(node: Node) -> list[int]:
    return [device.device_id for device in node.devices]


def _is_block(node: Node) -> bool:
    """Whether the ranks of a node are consecutive, as they are unless placed freely."""
    return node.devices[-1].rank - node.devices[0].rank < len(node.devices)


def _continues(nodes: Sequence[Node], start: int, at: int) -> bool:
    """Whether a node belongs to the fold that begins at ``start``."""
    before, node = nodes[at - 1], nodes[at]
    return (
        _is_block(before)
        and _is_block(node)
        and _chips(node) == _chips(nodes[start])
        and node.devices[0].rank == before.devices[-1].rank + 1
        and (node.host is None) == (before.host is None)
    )


def _fold(nodes: Sequence[Node], first: int, last: int) -> Fold:
    devices = nodes[first].devices
    size, lowest = len(devices), devices[0].rank
    if not _is_block(nodes[first]):
        ranks = fold_numbers([device.rank for device in devices])
    elif first == last:
        ranks = _span(lowest, lowest + size - 1)
    else:
        # i counts the nodes of the fold, so that the formula needs no offset for it.
        shift = lowest - size * first
        index = "i" if size == 1 else f"{size}i"
        ranks = f"{index}{_plus(shift)}"
        if size > 1:
            ranks += f"..{index}{_plus(shift + size - 1)}"
    return Fold(
        first=first,
        last=last,
        host=host_label(nodes[first : last + 1], first),
        chips=fold_numbers(_chips(nodes[first])),
        ranks=ranks,
    )


def _plus(shift: int) -> str:
    return f"{shift:+d}" if shift else ""


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def fold_numbers(numbers: Sequence[int]) -> str:
    """Return numbers in their order, runs of three or more as ranges.

    >>> fold_numbers([0, 1, 2, 3]), fold_numbers([0, 2, 6, 7]), fold_numbers([3, 2, 1])
    ('0-3', '0,2,6,7', '3-1')
    """
    parts: list[str] = []
    at = 0
    while at < len(numbers):
        end = at
        for step in (1, -1):
            reach = at
            while (
                reach + 1 < len(numbers) and numbers[reach + 1] == numbers[reach] + step
            ):
                reach += 1
            end = max(end, reach)
        if end - at > 1:
            parts.append(f"{numbers[at]}-{numbers[end]}")
        else:
            end = at
            parts.append(str(numbers[at]))
        at = end + 1
    return ",".join(parts)


def host_label(nodes: Sequence[Node], first: int) -> str:
    """Return how a line names consecutive nodes: by their hosts, else by number."""
    hosts = [node.host for node in nodes if node.host is not None]
    if hosts:
        # A host that the notation cannot write is still shown.
        try:
            return fold_hosts(hosts)
        except ValueError:
            return ",".join(hosts)
    last = first + len(nodes) - 1
    return f"node {first}" if first == last else f"nodes {first}-{last}"
