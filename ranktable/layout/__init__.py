"""Arithmetic over ranks: parallel groups, coordinates, communicators, chip rings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable._lazy import attach

if TYPE_CHECKING:
    from ranktable.layout.communicator import (
        Communicator,
        Communicators,
        communicators,
    )
    from ranktable.layout.errors import LayoutError
    from ranktable.layout.grid import Groups
    from ranktable.layout.megatron import megatron_groups
    from ranktable.layout.neighbours import Neighbours
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.layout.presets import PRESETS
    from ranktable.layout.rings import best_chip_order, ring_orders
    from ranktable.schema.chip_order import ChipOrder

_HOMES = {
    "ChipOrder": "ranktable.schema.chip_order",
    "Communicator": "ranktable.layout.communicator",
    "Communicators": "ranktable.layout.communicator",
    "Groups": "ranktable.layout.grid",
    "LayoutError": "ranktable.layout.errors",
    "Neighbours": "ranktable.layout.neighbours",
    "PRESETS": "ranktable.layout.presets",
    "ParallelLayout": "ranktable.layout.parallel",
    "best_chip_order": "ranktable.layout.rings",
    "communicators": "ranktable.layout.communicator",
    "megatron_groups": "ranktable.layout.megatron",
    "ring_orders": "ranktable.layout.rings",
}

__all__ = [
    "PRESETS",
    "ChipOrder",
    "Communicator",
    "Communicators",
    "Groups",
    "LayoutError",
    "Neighbours",
    "ParallelLayout",
    "best_chip_order",
    "communicators",
    "megatron_groups",
    "ring_orders",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, _HOMES)
