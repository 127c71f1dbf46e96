"""Every rule of this package, by code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.rules import (
    chips,
    clusters,
    descriptions,
    groups,
    merging,
    nodes,
    placement,
    probes,
    ranks,
    reading,
    shape,
    site,
    spec_meaning,
    spec_shape,
    syntax,
    topology,
)

if TYPE_CHECKING:
    from ranktable.schema.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    *reading.RULES,
    *syntax.RULES,
    *shape.RULES,
    *site.RULES,
    *topology.RULES,
    *descriptions.RULES,
    *probes.RULES,
    *spec_shape.RULES,
    *ranks.RULES,
    *chips.RULES,
    *nodes.RULES,
    *clusters.RULES,
    *merging.RULES,
    *spec_meaning.RULES,
    *placement.RULES,
    *groups.RULES,
)
