"""Changes of a table, such as a lost node: few chips load other weights, few move."""

from ranktable.layout.change.comparison import Difference, difference
from ranktable.layout.change.facts import CostFacts
from ranktable.layout.change.fitting import Change, fit
from ranktable.layout.change.nodes import node_names
from ranktable.layout.layout_errors import ChangeError

__all__ = [
    "Change",
    "ChangeError",
    "CostFacts",
    "Difference",
    "difference",
    "fit",
    "node_names",
]
