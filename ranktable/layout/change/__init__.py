"""Changes of a table, such as a lost node: few chips load other weights, few move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable._lazy import attach

if TYPE_CHECKING:
    from ranktable.layout.change.comparison import Difference, difference
    from ranktable.layout.change.facts import CostFacts
    from ranktable.layout.change.fitting import Change, fit
    from ranktable.layout.change.nodes import node_names
    from ranktable.layout.layout_errors import ChangeError

_HOMES = {
    "Change": "ranktable.layout.change.fitting",
    "ChangeError": "ranktable.layout.layout_errors",
    "CostFacts": "ranktable.layout.change.facts",
    "Difference": "ranktable.layout.change.comparison",
    "difference": "ranktable.layout.change.comparison",
    "fit": "ranktable.layout.change.fitting",
    "node_names": "ranktable.layout.change.nodes",
}

__all__ = [
    "Change",
    "ChangeError",
    "CostFacts",
    "Difference",
    "difference",
    "fit",
    "node_names",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, _HOMES)
