"""Changes of a table, such as a lost node: few chips load other weights, few move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable._lazy import attach

if TYPE_CHECKING:
    from ranktable.layout.change.comparison import Difference, difference
    from ranktable.layout.change.facts import CostFacts
    from ranktable.layout.change.nodes import (
        add_spares,
        find_nodes,
        node_names,
        spares_of,
        with_spares,
    )
    from ranktable.layout.change.operations import (
        Resized,
        grow,
        renumber,
        replace_node,
        shrink,
    )
    from ranktable.layout.layout_errors import ChangeError

_HOMES = {
    "ChangeError": "ranktable.layout.layout_errors",
    "CostFacts": "ranktable.layout.change.facts",
    **dict.fromkeys(("Difference", "difference"), "ranktable.layout.change.comparison"),
    **dict.fromkeys(
        ("add_spares", "find_nodes", "node_names", "spares_of", "with_spares"),
        "ranktable.layout.change.nodes",
    ),
    **dict.fromkeys(
        ("Resized", "grow", "renumber", "replace_node", "shrink"),
        "ranktable.layout.change.operations",
    ),
}

__all__ = [
    "ChangeError",
    "CostFacts",
    "Difference",
    "Resized",
    "add_spares",
    "difference",
    "find_nodes",
    "grow",
    "node_names",
    "renumber",
    "replace_node",
    "shrink",
    "spares_of",
    "with_spares",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, _HOMES)
