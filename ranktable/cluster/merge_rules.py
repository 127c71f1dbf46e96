"""RT230 to RT235: duplicates and differences between the files of one table."""

from __future__ import annotations

from ranktable.cluster.probes.probe_rules import CHIPS, FIRST, SECOND, line, lines
from ranktable.schema.finding import Rule, Severity
from ranktable.schema.rules.examples import (
    PAIR,
    device,
    hccl_server,
    hccl_table,
    one_node,
)

_UPPER = one_node(device(0, 2), device(1, 3))

REPEATED_NODE = Rule(
    code="RT230",
    name="repeated-node",
    summary="one node is in two files, or in two lines",
    why=(
        "Each of its chips would be given to two processes. Nodes are compared by "
        "host, by the UUID or serial number of a chip and, with --renumber and without "
        "hosts, by the address of a chip. A file that is given twice has the same "
        "nodes too."
    ),
    fix="Leave one of the two out.",
    command="merge",
    bad=lines(FIRST, FIRST),
    good=lines(FIRST, SECOND),
)
RANK_CLASH = Rule(
    code="RT231",
    name="rank-clash",
    summary="two files give the same ranks",
    why=(
        "Every file that was made on its own node begins at rank 0. Only you know "
        "which one comes first."
    ),
    fix="Give the files in the order that you want, and add --renumber.",
    command="merge",
    beside=PAIR,
    bad=PAIR,
    good=_UPPER,
)
UNEQUAL_NODES = Rule(
    code="RT232",
    name="unequal-nodes",
    severity=Severity.WARNING,
    summary="a node has another number of devices than most",
    why=(
        "Often a chip has failed, or was not given to the container. Several launchers "
        "and vendor libraries need the same number of processes on every node."
    ),
    fix="Check the node, or go on if this is intended; --strict refuses it.",
    command="merge",
    bad=lines(FIRST, SECOND, line("n3", CHIPS[0])),
    good=lines(FIRST, SECOND, line("n3", *CHIPS)),
)
PARTS_DISAGREE = Rule(
    code="RT233",
    name="parts-disagree",
    summary="two files differ in format, version or a key for the whole table",
    why="A table has one format and one version. merge does not convert files.",
    fix="Make the files alike, then merge them.",
    command="merge",
    beside=PAIR,
    bad=hccl_table(hccl_server("n2", (0, 2, "10.20.0.6"))),
    good=_UPPER,
)
MISSING_RANKS = Rule(
    code="RT234",
    name="missing-ranks",
    summary="together the files lack a rank",
    why="The file of some node is missing, or belongs to another job.",
    fix="Give the missing file too, or use --renumber to count the ranks anew.",
    command="merge",
    beside=PAIR,
    bad=one_node(device(0, 4), device(1, 5)),
    good=_UPPER,
)
NOT_AS_LISTED = Rule(
    code="RT235",
    name="nodes-not-as-listed",
    summary="the nodes are not those of --hosts",
    why=(
        "The list says which nodes the job has, and in which order. A node that sent "
        "nothing has failed. A node that is not in the list belongs to another job."
    ),
    fix="Run ranktable probe on the missing node, or correct the list.",
    command="merge",
    options={"hosts": "n[1-3]"},
    bad=lines(FIRST, SECOND),
    good=lines(FIRST, SECOND, line("n3", *CHIPS)),
)

RULES = (
    REPEATED_NODE,
    RANK_CLASH,
    UNEQUAL_NODES,
    PARTS_DISAGREE,
    MISSING_RANKS,
    NOT_AS_LISTED,
)
