"""Every rule of this package, by code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.rules import (
    chips,
    nodes,
    placement,
    ranks,
    reading,
    shape,
    syntax,
    topology,
)

if TYPE_CHECKING:
    from ranktable.schema.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    *reading.RULES,
    *syntax.RULES,
    *shape.RULES,
    *topology.RULES,
    *ranks.RULES,
    *chips.RULES,
    *nodes.RULES,
    *placement.RULES,
)
