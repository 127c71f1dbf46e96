"""RT320 to RT339: what is submitted, and what each of its processes would get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.finding import Rule, Severity

if TYPE_CHECKING:
    from ranktable.schema.document import SourceSpan
    from ranktable.schema.finding import Finding

MORE_THAN_CHIPS = Rule(
    code="RT320",
    name="more-processes-than-chips",
    summary="a node starts more processes than it has chips",
    fix="Start as many processes on a node as it has chips, or ask for more chips.",
)
IDLE_CHIPS = Rule(
    code="RT321",
    name="idle-chips",
    severity=Severity.WARNING,
    summary="a node has more chips than processes",
    fix="Start as many processes on a node as it has chips.",
)
WRONG_AGENTS = Rule(
    code="RT322",
    name="wrong-number-of-agents",
    summary="the launcher is started more or fewer times than it expects",
    fix="Start one agent on every node, and give their number as --nnodes.",
)
NODES_ALONE = Rule(
    code="RT323",
    name="nodes-alone",
    summary="every node would form a job of its own, or wait for itself",
    fix="Give all agents the same number of nodes, address and id, computed once "
    "before "
    "srun.",
)
SAME_RANK = Rule(
    code="RT324",
    name="same-rank-everywhere",
    summary="all nodes or processes would have the same rank",
    fix="Let the shell of every task expand it: srun bash -c 'torchrun --node_rank "
    "$SLURM_NODEID ...', in single quotes.",
)
WRONG_SIZE = Rule(
    code="RT325",
    name="size-of-something-else",
    summary="WORLD_SIZE is not the number of processes that are started",
    fix="Start the processes with torchrun, or set WORLD_SIZE to the number of "
    "processes.",
)
MASTER_ADDRESS = Rule(
    code="RT326",
    name="master-address",
    summary="the address of the rendezvous is not one that all nodes can use",
    fix="Compute it before srun: scontrol show hostnames $SLURM_JOB_NODELIST | head "
    "-n1.",
)
MASTER_PORT = Rule(
    code="RT327",
    name="master-port",
    summary="the port of the rendezvous cannot be used, or may be taken",
    fix="Compute it from the number of the job: $((20000 + SLURM_JOB_ID % 10000)).",
)
NO_EFFECT = Rule(
    code="RT328",
    name="option-without-effect",
    severity=Severity.WARNING,
    summary="an option, a variable or a line that has no effect",
    fix="Move or drop the option; wait for what runs in the background.",
)
CHIPS_VISIBLE = Rule(
    code="RT329",
    name="chips-of-a-task",
    severity=Severity.WARNING,
    summary="a task may see other chips than those its local rank names",
    fix="Ask for the chips of the node (--gpus-per-node), or show them to all tasks: "
    "--tres-bind=gres/gpu:none.",
)
POD_RESOURCES = Rule(
    code="RT330",
    name="resources-of-a-pod",
    summary="the chips of a pod are not what its job needs",
    fix="Give limits, whole numbers, and the same requests; write the number of "
    "processes.",
)
REFUSED = Rule(
    code="RT331",
    name="refused-at-submission",
    summary="the scheduler, the operator or the launcher refuses this",
    fix="Write it as the message says.",
)
NOT_JUDGED = Rule(
    code="RT332",
    name="line-not-judged",
    severity=Severity.NOTE,
    summary="a line that cannot be judged without running it",
    fix="Nothing has to be done. Plain words instead of $(...) let more be judged.",
)
NO_RANK = Rule(
    code="RT333",
    name="no-rank-for-pods",
    summary="the operator would not tell the pods their rank",
    fix="Name the roles as the operator expects, or give the rendezvous in the "
    "command.",
)
POD_NAMES = Rule(
    code="RT334",
    name="name-of-a-pod",
    summary="the pods would not find each other by this name",
    fix="Give the template the subdomain of a headless Service that selects its "
    "labels.",
)
GANG = Rule(
    code="RT335",
    name="gang-size",
    summary="the job starts with another number of pods than it has",
    fix="Set minAvailable to the sum of the replicas.",
)
NO_SCRIPT = Rule(
    code="RT336",
    name="no-python-script",
    summary="a launcher is given no script, or a program that is none",
    fix="Name the script, without python before it; --no-python starts any program.",
)
WORDS = Rule(
    code="RT337",
    name="words-not-apart",
    summary="the words of a command are not one item each",
    fix="Write every word as an item of its own, or the whole command as one text "
    "behind sh -c.",
)

RULES = (
    MORE_THAN_CHIPS,
    IDLE_CHIPS,
    WRONG_AGENTS,
    NODES_ALONE,
    SAME_RANK,
    WRONG_SIZE,
    MASTER_ADDRESS,
    MASTER_PORT,
    NO_EFFECT,
    CHIPS_VISIBLE,
    POD_RESOURCES,
    REFUSED,
    NOT_JUDGED,
    NO_RANK,
    POD_NAMES,
    GANG,
    NO_SCRIPT,
    WORDS,
)


def stray_option(
    span: SourceSpan | None, said: str, *, is_behind_and: bool = False
) -> Finding:
    """Return the finding about an option that begins a command of its own."""
    if is_behind_and:
        message = f"{said} begins a command of its own: & ends the one before it"
        return NO_EFFECT.finding(span, message, hint="move it before the &")
    return NO_EFFECT.finding(
        span,
        f"{said} begins a command of its own, because the line above does not go on",
        hint="end the line above with \\, without a blank or a comment behind it",
        severity=Severity.ERROR,
    )
