"""Bytes that cross the boundary of a node in one step, from the bytes of every axis.

Source: facts of the project about meshes, section 5.2; k is the number of nodes that a
group spans. No algorithm sends less than (k - 1) times the bytes of a reduce-scatter or
an all-gather, so that these are bytes of collectives that know of nodes.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.layout.communicator import Communicators

AXES = ("tp", "cp", "ep", "dp", "pp")
"""The axes of which bytes can be given."""


def crossing_bytes(found: Communicators, bytes_of: Mapping[str, int]) -> float:
    """Return the bytes of a step that leave a node, added up over all groups.

    Args:
        found: The groups.
        bytes_of: For tp the bytes that a group reduces; for cp those that go over one
            edge of its ring; for ep those that a rank sends to all; for dp those that
            are reduce-scattered and gathered; for pp those over one boundary.
    """
    total = 0.0
    for axis, size_bytes in bytes_of.items():
        if axis not in found.kinds:
            continue
        factors = (_factor(axis, one.node_ranks) for one in found.of_kind(axis))
        total += size_bytes * sum(factors)
    return total


def _factor(axis: str, nodes: Sequence[int]) -> float:
    """Return how often the bytes of a group leave a node."""
    if axis == "pp":
        return sum(a != b for a, b in pairwise(nodes))
    if axis == "cp":
        return sum(a != b for a, b in zip(nodes, [*nodes[1:], nodes[0]], strict=True))
    if axis == "ep":
        size = len(nodes)
        return (size**2 - sum(m**2 for m in Counter(nodes).values())) / size
    spans = len(set(nodes)) - 1
    return 2 * spans if axis == "tp" else spans
