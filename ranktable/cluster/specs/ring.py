"""The ring of a cluster spec: chips in the order of their links."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.generate import ring_order
from ranktable.cluster.specs.shape import Place
from ranktable.cluster.specs.spec_rules import NO_RING
from ranktable.schema.diagnostic import RankTableError
from ranktable.schema.topology import BUILT_IN
from ranktable.schema.topology_file import find_topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.specs.chips import Chips
    from ranktable.cluster.specs.shape import Shape
    from ranktable.schema.topology import Topology


def ring_name(name: str, file: str) -> str:
    """Return a topology's name, or the path of its file, which is beside the spec."""
    if any(topology.name == name for topology in BUILT_IN):
        return name
    return os.path.join(os.path.dirname(file), name)  # noqa: PTH118, PTH120 - any name


def read_ring(shape: Shape, file: str) -> tuple[str, Topology] | None:
    """Return the name of the topology and the topology, None if there is none."""
    text = shape.text("ring")
    if text is None:
        return None
    name = ring_name(text, file)
    try:
        return name, find_topology(name)
    except RankTableError as error:
        first = error.diagnostics[0]
        shape.report(NO_RING, Place(("ring",)), first.message, hint=first.hint)
        return None


def in_ring(
    shape: Shape, sets: Sequence[tuple[Place, Chips]], topology: Topology | None
) -> list[Chips] | None:
    """Return sets of chips in the order of their rings, None after saying why not."""
    if topology is None:
        return [chips for _, chips in sets]
    found = [_in_ring(shape, place, chips, topology) for place, chips in sets]
    ordered = [chips for chips in found if chips is not None]
    return ordered if len(ordered) == len(sets) else None


def _in_ring(
    shape: Shape, place: Place, chips: Chips, topology: Topology
) -> Chips | None:
    try:
        return tuple(ring_order(chips, topology))
    except ArgumentError as error:
        shape.report(NO_RING, place, error.reason, hint=error.hint)
        return None
