"""Show many nodes in few lines: ``n[000-127]: chips 0-7 -> ranks 0-1023, 8 each``."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ranktable.cluster.host_lists import fold_hosts
from ranktable.schema.text import fold_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.model import Node, RankTable


@dataclass(frozen=True, slots=True)
class NodeFold:
    """Consecutive nodes with the same chips, whose ranks continue from node to node.

    Attributes:
        first: node_rank of the first node.
        last: node_rank of the last node.
        host: Their hosts, folded.
        chips: The chips of each, folded.
        ranks: Their ranks; if there are several nodes, also how many each has.
    """

    first: int
    last: int
    host: str
    chips: str
    ranks: str


def fold_nodes(table: RankTable) -> list[NodeFold]:
    """Return the nodes of a table in as few lines as possible."""
    folds: list[NodeFold] = []
    start = 0
    nodes = table.nodes
    for at in range(1, len(nodes) + 1):
        if at < len(nodes) and _continues(nodes, start, at):
            continue
        folds.append(_fold(nodes, start, at - 1))
        start = at
    return folds


def fold_node(nodes: Sequence[Node], at: int) -> NodeFold:
    """Return the line of one node."""
    return _fold(nodes, at, at)


def _chips(node: Node) -> list[int]:
    return [device.device_id for device in node.devices]


def _is_block(node: Node) -> bool:
    """Whether the ranks of a node are consecutive, which they are by default."""
    return node.devices[-1].rank - node.devices[0].rank < len(node.devices)


def _continues(nodes: Sequence[Node], start: int, at: int) -> bool:
    """Whether a node continues the line that begins at ``start``."""
    before, node = nodes[at - 1], nodes[at]
    if not before.devices or not node.devices:
        return False
    return (
        _is_block(before)
        and _is_block(node)
        and _chips(node) == _chips(nodes[start])
        and node.devices[0].rank == before.devices[-1].rank + 1
        and (node.host is None) == (before.host is None)
    )


def _fold(nodes: Sequence[Node], first: int, last: int) -> NodeFold:
    devices = nodes[first].devices
    if not devices:
        host = host_label(nodes[first : last + 1], first)
        return NodeFold(first=first, last=last, host=host, chips="", ranks="")
    size, lowest = len(devices), devices[0].rank
    if not _is_block(nodes[first]):
        ranks = fold_numbers([device.rank for device in devices])
    else:
        ranks = _span(lowest, lowest + size * (last + 1 - first) - 1)
        if first < last:
            ranks += f", {size} each"
    return NodeFold(
        first=first,
        last=last,
        host=host_label(nodes[first : last + 1], first),
        chips=fold_numbers(_chips(nodes[first])),
        ranks=ranks,
    )


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def host_label(nodes: Sequence[Node], first: int) -> str:
    """Return the name of consecutive nodes for a line: their hosts, or numbers."""
    hosts = [node.host for node in nodes if node.host is not None]
    if hosts:
        # A host that cannot be written in this notation is shown as it is.
        try:
            return fold_hosts(hosts)
        except ValueError:
            return ",".join(hosts)
    last = first + len(nodes) - 1
    return f"node {first}" if first == last else f"nodes {first}-{last}"


SHOWN = 4
"""Most numbers that are shown of a list without a pattern."""


def spell_numbers(numbers: Sequence[int]) -> str:
    """Return numbers as text; numbers at equal distances become a range.

    >>> spell_numbers([0, 1, 2, 3]), spell_numbers([0, 4]), spell_numbers([0, 1, 8, 9])
    ('0-3', '0,4', '0,1,8,9')
    >>> spell_numbers(range(0, 64, 8)), spell_numbers([5]), spell_numbers([1, 2, 4] * 2)
    ('0,8..56', '5', '1,2,4,1,...')
    """
    texts = list(map(str, numbers))
    gaps = {b - a for a, b in pairwise(numbers)}
    if gaps == {1} and len(texts) > 2:
        return f"{texts[0]}-{texts[-1]}"
    if len(gaps) == 1 and len(texts) > SHOWN:
        return f"{texts[0]},{texts[1]}..{texts[-1]}"
    return ",".join(texts if len(texts) <= SHOWN else [*texts[:SHOWN], "..."])
