"""Arithmetic over ranks: groups, coordinates, communicators, chip rings, plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable._lazy import attach

if TYPE_CHECKING:
    from ranktable.layout.boundaries import Boundary, make_boundary
    from ranktable.layout.change.fitting import Change, fit
    from ranktable.layout.communicator import (
        Communicator,
        Communicators,
        communicators,
    )
    from ranktable.layout.grid import PRESETS, Groups, Neighbours
    from ranktable.layout.layout_errors import ChangeError, LayoutError
    from ranktable.layout.megatron import megatron_groups
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.layout.planning import Plan, make_plan, reorder_nodes
    from ranktable.layout.rings import best_chip_order, ring_orders
    from ranktable.layout.traffic import Flow, Model, given_flows, model_flows
    from ranktable.schema.topology import ChipOrder

_MODULES = {
    "boundaries": ("Boundary", "make_boundary"),
    "change.fitting": ("Change", "fit"),
    "communicator": ("Communicator", "Communicators", "communicators"),
    "grid": ("Groups", "Neighbours", "PRESETS"),
    "layout_errors": ("ChangeError", "LayoutError"),
    "megatron": ("megatron_groups",),
    "parallel": ("ParallelLayout",),
    "planning": ("Plan", "make_plan", "reorder_nodes"),
    "rings": ("best_chip_order", "ring_orders"),
    "traffic": ("Flow", "Model", "given_flows", "model_flows"),
}
_HOMES = {
    "ChipOrder": "ranktable.schema.topology",
    **{
        name: f"ranktable.layout.{module}"
        for module, names in _MODULES.items()
        for name in names
    },
}

__all__ = [
    "PRESETS",
    "Boundary",
    "Change",
    "ChangeError",
    "ChipOrder",
    "Communicator",
    "Communicators",
    "Flow",
    "Groups",
    "LayoutError",
    "Model",
    "Neighbours",
    "ParallelLayout",
    "Plan",
    "best_chip_order",
    "communicators",
    "fit",
    "given_flows",
    "make_boundary",
    "make_plan",
    "megatron_groups",
    "model_flows",
    "reorder_nodes",
    "ring_orders",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, _HOMES)
