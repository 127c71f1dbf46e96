"""RT780 to RT785: the links between the chips of a job, as an all_reduce uses them."""

from __future__ import annotations

from ranktable.schema.finding import Rule, Severity

WRONG_SUM = Rule(
    code="RT780",
    name="wrong-sum",
    summary="an all_reduce gave a wrong result",
    why="Training goes on with wrong gradients, and nothing else says so. On some GPUs "
    "a copy from one to another arrives as zeros (NVIDIA/nccl-tests#117).",
    fix="Take this node out, and test its chips and cables with the vendor's tools; on "
    "GPUs without peer access try NCCL_P2P_DISABLE=1.",
    command="check --links",
)
NO_ANSWER = Rule(
    code="RT781",
    name="links-not-measured",
    summary="a rank or a pair of nodes did not finish its all_reduce in time",
    why="A job would hang in its first collective, until the time-out of its backend.",
    fix="Look at the output of this rank and at its host; between two nodes look for a "
    "firewall, and for interfaces that do not reach each other (*_SOCKET_IFNAME).",
    seen_as=("Timed out waiting", "Connection closed by peer"),
    command="check --links",
)
SLOW_NODE = Rule(
    code="RT782",
    name="slow-node",
    summary="the links of a node are much slower than those of the others",
    why="Every collective of the job waits for the slowest node. A node is slow below "
    "80 % of the median of the others (a third on CPUs), and if its time is above "
    "their median by more than three times their median distance from it; or if that "
    "is so for both of its pairs.",
    fix="Compare the links of this node with those of another one: nvidia-smi topo -m, "
    "hccn_tool -link -g, ibstat; measure it alone with nccl-tests or hccl_test.",
    severity=Severity.WARNING,
    command="check --links",
)
SLOW_PAIR = Rule(
    code="RT783",
    name="slow-pair",
    summary="the links between two nodes are much slower than between the others",
    why="Rings go over all nodes, and are as slow as their slowest link. The limits "
    "are those of a slow node; each of the two nodes is not slow with another one.",
    fix="Look at the switches and cables between the two nodes, or place the job so "
    "that these nodes are not neighbours: `ranktable plan`.",
    severity=Severity.WARNING,
    command="check --links",
)
NOT_STARTED = Rule(
    code="RT784",
    name="links-not-started",
    summary="the processes could not start their communication, or use other backends",
    why="A rank that does not see its chip takes gloo, and then waits for ranks that "
    "use another backend.",
    fix="Make the driver and the library of this host work: `ranktable check` there.",
    command="check --links",
)
MEASURED = Rule(
    code="RT785",
    name="links-measured",
    summary="the slowest node and pair, and how far the others are from them",
    why="Bus bandwidth as nccl-tests has it: bytes / time x 2(n-1)/n for n ranks. The "
    "time is the median of some repetitions, each as long as on its slowest rank.",
    fix="Compare it with the links that the chips have; small sizes are slower.",
    severity=Severity.NOTE,
    command="check --links",
)

OF_LINKS: tuple[Rule, ...] = (
    WRONG_SUM, NO_ANSWER, SLOW_NODE, SLOW_PAIR, NOT_STARTED, MEASURED,
)  # fmt: skip
"""The rules about links."""
