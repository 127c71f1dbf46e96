"""RT230 to RT235: duplicates and differences between the files of one table."""

from __future__ import annotations

from ranktable.schema.finding import Rule, Severity

REPEATED_NODE = Rule(
    code="RT230",
    name="repeated-node",
    summary="one node is in two files, or in two lines",
    fix="Leave one of the two out.",
)
RANK_CLASH = Rule(
    code="RT231",
    name="rank-clash",
    summary="two files give the same ranks",
    fix="Give the files in the order that you want, and add --renumber.",
)
UNEQUAL_NODES = Rule(
    code="RT232",
    name="unequal-nodes",
    severity=Severity.WARNING,
    summary="a node has another number of devices than most",
    fix="Check the node, or go on if this is intended; --strict refuses it.",
)
PARTS_DISAGREE = Rule(
    code="RT233",
    name="parts-disagree",
    summary="two files differ in format, version or a key of a whole table",
    fix="Make the files alike, then merge them.",
)
MISSING_RANKS = Rule(
    code="RT234",
    name="missing-ranks",
    summary="together the files lack a rank",
    fix="Give the missing file too, or use --renumber to count the ranks anew.",
)
NOT_AS_LISTED = Rule(
    code="RT235",
    name="nodes-not-as-listed",
    summary="the nodes are not those of --hosts",
    fix="Run ranktable probe on the missing node, or correct the list.",
)

RULES = (
    REPEATED_NODE,
    RANK_CLASH,
    UNEQUAL_NODES,
    PARTS_DISAGREE,
    MISSING_RANKS,
    NOT_AS_LISTED,
)
