"""What a cluster spec says, once it has been found sound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Sequence

Order = Literal["as-listed", "by-rack", "across-racks"]
ORDERS: tuple[Order, ...] = get_args(Order)

KEYS = ("nodes", "chips", "ring", "addresses", "racks", "spares", "order")
REQUIRED_KEYS = ("nodes", "chips")

MAX_NODES = 1 << 20
"""Nodes of a spec, as of a host list."""

MAX_RANKS = 1 << 20
"""Chips of a spec; a node of a large one has a thousand of them at the most."""

MAX_CHIPS = 1024
"""Chips of one node, as of a topology."""

MAX_CHIP = 999_999_999
"""The largest number of a chip that a rank table takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A cluster; every sequence has one item a node, in the order of ``nodes``.

    Attributes:
        hosts: Name of every node, None where nodes is a count.
        chips: ``device_id`` of every chip of every node, in ring order if there is a
            ring.
        addresses: Address of every chip, in the same shape, None if there are none.
        racks: Index of the rack of every node, None if there are no racks.
        spares: Places of the nodes that are kept out of the table.
        order: In which order nodes get their ranks.
        ring: Name of the topology, None if chips stay as they are.
    """

    hosts: Sequence[str] | None
    chips: Sequence[Sequence[int]]
    addresses: Sequence[Sequence[str]] | None = None
    racks: Sequence[int] | None = None
    spares: frozenset[int] = frozenset()
    order: Order = "as-listed"
    ring: str | None = None
