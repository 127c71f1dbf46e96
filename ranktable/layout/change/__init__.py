"""Tables that change without chaos: as little moves as can be, all of it is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable._lazy import attach

if TYPE_CHECKING:
    from ranktable.layout.change.differing import Difference, difference
    from ranktable.layout.change.errors import ChangeError
    from ranktable.layout.change.names import find_nodes, node_names
    from ranktable.layout.change.renumbering import Policy, renumber
    from ranktable.layout.change.replace import replace_node
    from ranktable.layout.change.resize import Resized, grow, shrink
    from ranktable.layout.change.spares import add_spares, spares_of, with_spares

_HOMES = {
    "ChangeError": "ranktable.layout.change.errors",
    "Difference": "ranktable.layout.change.differing",
    "Policy": "ranktable.layout.change.renumbering",
    "Resized": "ranktable.layout.change.resize",
    "add_spares": "ranktable.layout.change.spares",
    "difference": "ranktable.layout.change.differing",
    "find_nodes": "ranktable.layout.change.names",
    "grow": "ranktable.layout.change.resize",
    "node_names": "ranktable.layout.change.names",
    "renumber": "ranktable.layout.change.renumbering",
    "replace_node": "ranktable.layout.change.replace",
    "shrink": "ranktable.layout.change.resize",
    "spares_of": "ranktable.layout.change.spares",
    "with_spares": "ranktable.layout.change.spares",
}

__all__ = [
    "ChangeError",
    "Difference",
    "Policy",
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
