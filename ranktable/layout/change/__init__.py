"""Changes of a table, such as a lost node, that move as few ranks as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable._lazy import attach

if TYPE_CHECKING:
    from ranktable.layout.change.differing import Difference, difference
    from ranktable.layout.change.names import find_nodes, node_names
    from ranktable.layout.change.renumbering import Policy, renumber
    from ranktable.layout.change.replace import replace_node
    from ranktable.layout.change.resize import Resized, grow, shrink
    from ranktable.layout.change.spare_nodes import add_spares, spares_of, with_spares
    from ranktable.layout.layout_errors import ChangeError

_HOMES = {
    "ChangeError": "ranktable.layout.layout_errors",
    "Difference": "ranktable.layout.change.differing",
    "Policy": "ranktable.layout.change.renumbering",
    "Resized": "ranktable.layout.change.resize",
    "add_spares": "ranktable.layout.change.spare_nodes",
    "difference": "ranktable.layout.change.differing",
    "find_nodes": "ranktable.layout.change.names",
    "grow": "ranktable.layout.change.resize",
    "node_names": "ranktable.layout.change.names",
    "renumber": "ranktable.layout.change.renumbering",
    "replace_node": "ranktable.layout.change.replace",
    "shrink": "ranktable.layout.change.resize",
    "spares_of": "ranktable.layout.change.spare_nodes",
    "with_spares": "ranktable.layout.change.spare_nodes",
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
