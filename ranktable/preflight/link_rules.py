"""RT780 to RT785: the links between the chips of a job, as an all_reduce uses them."""

from __future__ import annotations

from ranktable.schema.finding import Rule, Severity

WRONG_SUM = Rule(
    code="RT780",
    name="wrong-sum",
    summary="an all_reduce gave a wrong result",
    fix="Take this node out, and test its chips and cables with the vendor's tools; on "
    "GPUs without peer access try NCCL_P2P_DISABLE=1.",
)
NO_ANSWER = Rule(
    code="RT781",
    name="links-not-measured",
    summary="a rank or a pair of nodes did not finish its all_reduce in time",
    fix="Look at the output of this rank and at its host; between two nodes look for a "
    "firewall, and for interfaces that do not reach each other (*_SOCKET_IFNAME).",
)
SLOW_NODE = Rule(
    code="RT782",
    name="slow-node",
    summary="the links of a node are much slower than those of the others",
    fix="Compare the links of this node with those of another one: nvidia-smi topo -m, "
    "hccn_tool -link -g, ibstat; measure it alone with nccl-tests or hccl_test.",
    severity=Severity.WARNING,
)
SLOW_PAIR = Rule(
    code="RT783",
    name="slow-pair",
    summary="the links between two nodes are much slower than the others",
    fix="Look at the switches and cables between the two nodes, or place the job so "
    "that these nodes are not neighbours: `ranktable plan`.",
    severity=Severity.WARNING,
)
NOT_STARTED = Rule(
    code="RT784",
    name="links-not-started",
    summary="the processes could not start to communicate",
    fix="Make the driver and the library of this host work: `ranktable check` there.",
)
MEASURED = Rule(
    code="RT785",
    name="links-measured",
    summary="the slowest node and pair, and how far the others are from them",
    fix="Compare it with the links that the chips have; small sizes are slower.",
    severity=Severity.NOTE,
)

OF_LINKS: tuple[Rule, ...] = (
    WRONG_SUM, NO_ANSWER, SLOW_NODE, SLOW_PAIR, NOT_STARTED, MEASURED,
)  # fmt: skip
"""The rules about links."""
