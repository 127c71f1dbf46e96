"""Judge the agents of a job: their number and their node ranks.

Sources: pytorch/pytorch, torch/distributed/run.py; huggingface/accelerate,
utils/launch.py.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import shell, shell_marks
from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.agents import (
    NUMBERED,
    SERVERS,
    Group,
    expected_agents,
    fact_of,
    groups_of,
    is_static,
    started,
)
from ranktable.cluster.submissions.judge_address import BOTH, judge_meeting
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cluster.submissions.submission import (
        Range,
        Role,
        Setting,
        Submission,
    )
    from ranktable.schema.finding import Finding

_ONE_TASK: Final = (
    "start one on each node: #SBATCH --ntasks-per-node=1, or "
    "srun -n $SLURM_NNODES --ntasks-per-node=1"
)


_WHICH: Final = (
    *(shell_marks.IN_TASK["SLURM_NODEID"], shell_marks.IN_TASK["SLURM_PROCID"]),
    *(shell_marks.POD_INDEX, shell_marks.JOB_INDEX, shell_marks.OWN_HOST),
)
"""What is another value in every task or pod."""


def _is_told_which(role: Role) -> bool:
    """Whether a program is told which of several jobs it is: on purpose, they are."""
    command = role.command
    is_told = any(mark in word for word in command.script for mark in _WHICH)
    return is_told and not command.script_options


def _is_of_one_machine(role: Role) -> bool:
    """Whether accelerate is told of no other machine on its command line."""
    command = role.command
    is_told = {"nnodes", "node-rank", "config-file"} & command.options.keys()
    return command.program == "accelerate" and command.is_whole and not is_told


def judge_agents(
    one: Submission, group: Group, starts: int | None
) -> Iterator[Finding]:
    """Compare the agents that are started with those that each expects.

    Args:
        one: The submission.
        group: Some of its roles.
        starts: How many agents it starts in all, None if that is not known.
    """
    role = group.role
    if role.command.program not in NUMBERED or _starts_others(role):
        return
    expected = expected_agents(role)
    span = role.command.span
    if one.is_first_node_only:
        yield from judge_without_srun(one, role, expected)
        if one.nodes == 1:  # of what other jobs on the node may do, what is certain
            # accelerate takes a free port in the place of one that is taken.
            is_shared = one.is_array and role.command.program == "torchrun"
            is_shared = is_shared and one.is_shared
            yield from judge_meeting(replace(one, is_shared=is_shared), group, 1)
        return
    if starts is None and one.node_range is not None:
        yield from _judge_range(one.node_range, role, expected)
    if starts is None or (starts == 1 and not one.is_alone):
        return
    is_alone = starts > 1 and (
        "standalone" in role.command.options
        or (expected is not None and expected.said == "no --nnodes")
    )
    if starts > 1 and _is_of_one_machine(role):
        yield rules.NODES_ALONE.finding(
            span,
            f"{started(one, starts)}, and each is a job of its own, because no "
            "--num_machines means 1 if no configuration of accelerate says otherwise",
            hint=f"add --num_machines {starts} --machine_rank and --main_process_ip",
            severity=Severity.WARNING,
        )
        return
    if is_alone:
        standalone = role.command.options.get("standalone")
        why = (
            "no --nnodes means 1"
            if standalone is None
            else f"{standalone.said} is given"
        )
        yield rules.NODES_ALONE.finding(
            span,
            f"{started(one, starts)}, and each is a job of its own, because {why}",
            hint=f"drop --standalone; add --nnodes {starts} {BOTH}"
            if standalone
            else f"add --nnodes {starts} {BOTH}",
            severity=Severity.NOTE if _is_told_which(role) else None,
        )
        return
    if (
        expected is not None
        and not expected.least <= starts <= expected.most
        and one.is_alone
    ):
        # The same script may be submitted for each node.
        is_part = starts == 1 and one.nodes == 1 and (one.job_nodes or 1) == 1
        yield rules.WRONG_AGENTS.finding(
            span,
            f"{started(one, starts)}, each one agent of {role.command.program}, but "
            f"{expected.said} expects {_amount(expected)}",
            hint=_ONE_TASK if one.is_script and starts > expected.most else None,
            severity=Severity.WARNING if is_part else None,
        )
    if one.is_alone and starts > 1:
        yield from _judge_node_rank(one, group, starts)
    yield from judge_meeting(one, group, starts)


def _judge_range(nodes: Range, role: Role, expected: Range | None) -> Iterator[Finding]:
    """Compare the agents of a job whose number of nodes Slurm chooses."""
    if expected is None:
        return
    if expected.least <= nodes.least and nodes.most <= expected.most:
        return
    is_possible = expected.least <= nodes.most and nodes.least <= expected.most
    yield rules.WRONG_AGENTS.finding(
        role.command.span,
        f"srun starts {_amount(nodes)} tasks ({nodes.said}), each one agent of "
        f"{role.command.program}, but {expected.said} expects {_amount(expected)}",
        hint="--nnodes $SLURM_NNODES, or ask for one number of nodes",
        severity=Severity.WARNING if is_possible else None,
    )


def agents_of(one: Submission, groups: list[Group]) -> int | None:
    """Return how many agents a submission starts, None if that is not known."""
    agents = [group for group in groups if group.role.command.program in NUMBERED]
    others = [group for group in groups if group.role.command.program not in NUMBERED]
    if not others:
        return one.starts()
    if any(not group.role.command.is_whole for group in others):
        return None
    starts = [group.starts for group in agents]
    return None if None in starts else sum(number or 0 for number in starts)


def _amount(expected: Range) -> str:
    if expected.least == expected.most:
        return str(expected.least)
    return f"{expected.least} to {expected.most}"


def judge_without_srun(
    one: Submission, role: Role, expected: Range | None
) -> Iterator[Finding]:
    """Judge an agent that the batch script starts itself."""
    nodes = one.nodes
    if not one.is_alone or nodes is None or (expected is None and nodes == 1):
        return
    most = 0 if expected is None else expected.least
    message = "the batch script runs on the first node only"
    hint = "put srun before it, with one task on each node"
    if most > 1:
        said = "" if expected is None else expected.said
        yield rules.WRONG_AGENTS.finding(
            role.command.span,
            f"{message}, so one agent starts there, but {said} expects {most}",
            hint=hint,
            severity=None if nodes > 1 else Severity.WARNING,
        )
    elif nodes > 1:
        yield rules.WRONG_AGENTS.finding(
            role.command.span,
            f"{message}; the other {counted(nodes - 1, 'node')} of the job start "
            "nothing",
            hint=hint,
            severity=Severity.WARNING,
        )


def _judge_node_rank(one: Submission, group: Group, starts: int) -> Iterator[Finding]:
    """Judge --node_rank: with static rendezvous every agent needs its own."""
    role = group.role
    given = role.option("node-rank")
    backend = role.option("rdzv-backend")
    if not is_static(role):
        if given is not None and backend and shell_marks.UNKNOWN not in backend.text:
            yield rules.NO_EFFECT.finding(
                given.span,
                f"{given.said} has no effect with {backend.said}: the agents are "
                "numbered as they join",
                hint="drop it, or use --master_addr and --master_port instead of "
                "--rdzv_*",
            )
        return
    number = group.starts if group.name else starts
    is_told = "config-file" in role.command.options  # of another rendezvous, perhaps
    why = _same_rank(given, one) if _has_own_rank(one, role) else None
    if why and number is not None and number > 1:
        whose = f" of {group.name}" if group.name else ""
        yield rules.SAME_RANK.finding(
            role.command.span if given is None else given.span,
            f"all {number} agents{whose} have {why}"
            + (", if the configuration gives no other rendezvous" if is_told else ""),
            hint=_node_rank_hint(role, given),
            severity=Severity.WARNING if is_told else None,
        )


def _has_own_rank(one: Submission, role: Role) -> bool:
    """Whether the command of a role, or its absence there, decides the node rank."""
    if role.command.options.get("node-rank") is not None:
        return True
    if role.command.program == "accelerate" or one.kind == "PyTorchJob":
        return False  # in a file of settings; said by the reader of the kind
    if role.command.program in SERVERS:
        return role.command.is_whole and role.option("nnodes") is not None
    return role.command.is_whole and "PET_NODE_RANK" not in role.counted


def judge_first_ranks(one: Submission) -> Iterator[Finding]:
    """Report roles of one pod each that have the same node rank."""
    first: dict[str, Group] = {}
    begins = {min(role.counted.values(), default=0) for role in one.roles}
    is_through = len(begins) == len(one.roles)  # one count for all roles
    for group in groups_of(one):
        role = group.role
        given = role.option("node-rank")
        text = "0" if given is None else given.text
        if text == shell_marks.POD_INDEX and is_through:
            text = str(min(role.counted.values(), default=0))
        is_certain = (
            role.command.program in NUMBERED
            and is_static(role)
            and _has_own_rank(one, role)
            and text.isdecimal()
            and group.starts == 1
        )
        if not is_certain:
            continue
        other = first.setdefault(text, group)
        if other is not group:
            yield rules.SAME_RANK.finding(
                role.command.span if given is None else given.span,
                f"{group.name} has node rank {text}, as {other.name} has",
                hint=f"give {group.name} another one",
            )


_NAME: Final = re.compile(r"(?=[0-9.-]*[A-Za-z])[A-Za-z0-9.-]+")
"""A host or a part of its name; capitals alone may be those of another program."""


def judge_rank(role: Role) -> Iterator[Finding]:
    """Report a node rank that no agent can have."""
    given, expected = role.option("node-rank"), expected_agents(role)
    if given is None or expected is None or not is_static(role):
        return
    number = given.text.replace(shell_marks.POD_INDEX, "0")
    is_text = _NAME.fullmatch(number) and not number.isupper()
    if shell_marks.OWN_HOST in given.text or is_text:
        message = f"{given.said} is a name, and a node rank is a number"
    elif (shell.plain_number(given.text) or 0) >= max(expected.most, 1):
        last = max(expected.most, 1) - 1
        message = f"{given.said}: node ranks go from 0 to {last} ({expected.said})"
    else:
        return
    yield rules.SAME_RANK.finding(given.span, message)


def _same_rank(given: Setting | None, one: Submission) -> str | None:
    """Return why all agents have the same node rank, None if they have not."""
    if given is None:
        return (
            "node rank 0, because --node_rank is not given and the rendezvous is static"
        )
    for name, mark in shell_marks.IN_BATCH.items():
        if mark in given.text:
            return f"node rank 0: the batch script expands ${name}, not the task"
    each = one.tasks_per_node
    counters = {
        mark: name
        for marks in (shell_marks.IN_TASK, shell_marks.IN_MPI)
        for name, mark in marks.items()
        if name in (*shell_marks.MPI_LOCAL_RANKS, "SLURM_LOCALID")
    }
    if given.text in counters and each is not None and each.value == 1:
        return f"node rank 0: ${counters[given.text]} counts the tasks of a node"
    if given.text.isdigit():
        return f"the same node rank ({given.said})"
    return None


def _node_rank_hint(role: Role, given: Setting | None) -> str:
    if given is None:
        return (
            f"add {BOTH}"
            if "rdzv-endpoint" not in role.command.options
            else "add --rdzv_backend c10d"
        )
    return (
        "let every task expand it, in single quotes: srun bash -c 'torchrun "
        "--node_rank $SLURM_NODEID ...'"
    )


def judge_accelerate(role: Role, starts: int | None) -> Iterator[Finding]:
    """Report processes that accelerate does not start, and values that it lacks.

    Without --machine_rank and --main_process_ip it takes those of its configuration;
    1.15 ended with a TypeError, or looked for a host None, where there was none.
    """
    total, machines = (fact_of(role.option(n)) for n in ("num-processes", "nnodes"))
    options = role.command.options
    if role.command.program != "accelerate":
        return
    if total and machines and machines.value and total.value % machines.value:
        each = total.value // machines.value
        yield rules.WRONG_SIZE.finding(
            total.span,
            f"{total.said} on {machines.value} machines: accelerate starts {each} on "
            f"each, {each * machines.value} in all",
            hint="--num_processes is the number of all machines together",
        )
    # With --cpu and --tpu accelerate starts the program without an agent.
    is_told = {"config-file", "no-gpu"} & options.keys() or not role.command.is_whole
    is_one = "nnodes" not in options or (machines and machines.value < 2)
    if is_told or is_one or starts is None or starts < 2 or _starts_others(role):
        return
    if "use-deepspeed" in options and "launcher" not in options:
        yield rules.NODES_ALONE.finding(
            role.command.span,
            "--use_deepspeed starts the runner of deepspeed on every machine, for "
            "itself, if no configuration of accelerate says otherwise",
            hint="add --deepspeed_multinode_launcher standard",
            severity=Severity.WARNING,
        )
    for rule, name, option, effect in _LACKING:
        if name in options or (name == "node-rank" and not is_static(role)):
            continue
        yield rule.finding(
            role.command.span,
            f"--{option} is not given, so accelerate {effect}, or takes that of "
            "its default configuration",
            hint=f"add --{option}, or --config_file with one file for each node",
            severity=Severity.WARNING,
        )


_LACKING: Final = (
    (rules.MASTER_ADDRESS, "master-addr", "main_process_ip", "has no address"),
    (rules.SAME_RANK, "node-rank", "machine_rank", "does not start"),
    (
        *(rules.IDLE_CHIPS, "num-processes", "num_processes"),
        "starts as many processes in all as one machine has chips",
    ),
)


def _starts_others(role: Role) -> bool:
    """Whether one accelerate starts the processes of all machines itself."""
    launcher = role.option("launcher")
    is_each = launcher is not None and launcher.text in ("standard", "nossh")
    return "hostfile" in role.command.options and not is_each
