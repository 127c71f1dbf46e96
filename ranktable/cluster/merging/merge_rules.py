"""RT230 to RT235: tables or nodes that do not go together."""

from __future__ import annotations

from ranktable.cluster.probes.probe_rules import CHIPS, FIRST, SECOND, line, lines
from ranktable.schema.diagnostic import Rule, Severity
from ranktable.schema.rules.examples import (
    PAIR,
    device,
    one_node,
)

_UPPER = one_node(device(0, 2), device(1, 3))

REPEATED_NODE = Rule(
    code="RT230",
    name="repeated-node",
    summary="one node is in two files, or in two lines",
    why=(
        "Its chips would be given to two processes each. It is known by its host, by "
        "the UUID or serial number of a chip and, with --renumber, by the address of a "
        "chip where a table names no hosts. A file that is given twice counts too."
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
        "Every file that was made on its own node begins at rank 0. Which one comes "
        "first is for you to say; it is not guessed."
    ),
    fix="Give the files in the order that you want, and --renumber.",
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
        "Often a chip that has failed or was not handed to the container. Several "
        "launchers and vendor libraries need as many processes on every node."
    ),
    fix="Look at the node, or go on if it is meant; --strict refuses it.",
    command="merge",
    bad=lines(FIRST, SECOND, line("n3", CHIPS[0])),
    good=lines(FIRST, SECOND, line("n3", *CHIPS)),
)
PARTS_DISAGREE = Rule(
    code="RT233",
    name="parts-disagree",
    summary="two files differ in format, version or a key for the whole table",
    why="One table has one format and one version; neither is converted silently.",
    fix="Make the files alike, then merge them.",
    command="merge",
    beside=PAIR,
    bad=b'{"status":"completed","version":"1.0","server_count":1,"server_list":[\n'
    b'  {"server_ip":"10.20.0.6","device":[{"device_id":"0","device_ip":"",'
    b'"rank_id":"2"}]}]}\n',
    good=_UPPER,
)
MISSING_RANKS = Rule(
    code="RT234",
    name="missing-ranks",
    summary="together the files lack a rank",
    why="The file of some node is missing, or belongs to another job.",
    fix="Give the missing file too, or count the ranks anew with --renumber.",
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
        "nothing has failed; one that is not in the list belongs to another job."
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
