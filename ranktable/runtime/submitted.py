"""What each process of a submission would find in its environment, and its rank.

The variables are those that the launchers set; ``resolve_environment`` reads them as it
does in a process that runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.cluster.submissions.agents import (
    expected_agents,
    fact_of,
    processes_per_start,
)
from ranktable.cluster.submissions.shell_marks import (
    IN_BATCH,
    IN_TASK,
    JOB_INDEX,
    POD_INDEX,
    has_marks,
)
from ranktable.runtime.environment import Environment, resolve_environment
from ranktable.runtime.errors import LaunchEnvironmentError
from ranktable.runtime.rules import TABLE_DISAGREES
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cluster.submissions.submission import Role, Submission
    from ranktable.schema.finding import Finding

MAX_PROCESSES: Final = 4096
"""Most processes that are predicted one by one."""

_AGENTS: Final = ("torchrun", "accelerate")
_BY_VARIABLES: Final = ("python", "")


class Start(NamedTuple):
    """One start of the command: a task or a pod.

    Attributes:
        role: Its role.
        node: The index of its node or pod.
        within: The index of its node in the role.
        task: Its index among all starts.
        local_task: Its index among those of its node.
    """

    role: Role
    node: int
    within: int
    task: int
    local_task: int


class SubmittedProcess(NamedTuple):
    """A process that a submission would start.

    Attributes:
        node: The index of its node or pod.
        role: Name of its role, empty if there is one.
        environment: Its rank and job, None if they contradict each other.
        problem: How they do.
    """

    node: int
    role: str
    environment: Environment | None
    problem: str | None = None


def predict(one: Submission) -> Iterator[SubmittedProcess]:
    """Yield the processes of a submission, none if their number is not known.

    Agents that are numbered as they join are taken in the order of their nodes.
    """
    for start in _starts(one):
        for variables in _environments(one, start):
            try:
                found, problem = resolve_environment(variables), None
            except LaunchEnvironmentError as error:
                found, problem = None, error.message
            yield SubmittedProcess(start.node, start.role.name, found, problem)


def count_processes(one: Submission) -> int | None:
    """Return the processes of a submission, None if their number is not known."""
    starts = one.starts()
    if one.roles[0].command.program == "mpirun":
        return _started_by_mpirun(one)
    if one.roles[0].command.program == "deepspeed" and one.is_first_node_only:
        return _started_by_deepspeed(one)
    each = [processes_per_start(one, role) for role in one.roles]
    values = {fact.value for fact in each if fact is not None}
    is_known = None not in each and (len(values) == 1 or one.tasks_per_node is not None)
    if starts is None or not is_known:
        return None
    if len(values) == 1:
        return starts * values.pop()
    tasks = one.tasks_per_node.value if one.tasks_per_node else 1
    nodes = [role.nodes.value if role.nodes else 0 for role in one.roles]
    return sum(
        n * tasks * (fact.value if fact else 0)
        for n, fact in zip(nodes, each, strict=True)
    )


def _started_by_mpirun(one: Submission) -> int | None:
    """Return the processes of an mpirun: as many as it says, or as there are slots."""
    given = one.roles[0].option("np")
    if given is not None:
        return int(given.text) if given.text.isdecimal() else None
    if one.slots is None or not one.roles[0].command.is_whole:
        return None
    return one.slots.value


def _started_by_deepspeed(one: Submission) -> int | None:
    """Return the processes on all hosts of a deepspeed, None if they are not known.

    Source: deepspeed, launcher/runner.py: without a file of hosts it takes its own, and
    ``--num_nodes`` the first ones of the file.
    """
    role = one.roles[0]
    each, hosts = processes_per_start(one, role), fact_of(role.option("nnodes"))
    number = None if hosts is None else hosts.value
    if role.option("nnodes") is None and role.option("hostfile") is None:
        number = 1
    is_local = number == 1 or "no-ssh" in role.command.options
    if each is None or number is None:
        return None
    return each.value * (1 if is_local else number)


def compare_with_table(one: Submission, ranks: int, nodes: int) -> Iterator[Finding]:
    """Yield a finding if a submission does not start one process for each chip."""
    total = count_processes(one)
    launched = (*_AGENTS, "python", "mpirun")
    if total is None or one.roles[0].command.program not in launched:
        return
    if not one.is_alone or total == ranks:
        return
    where = "" if one.nodes is None else f" on {counted(one.nodes, one.node)}"
    yield TABLE_DISAGREES.finding(
        one.span,
        f"this starts {counted(total, 'process', 'processes')}{where}, but the rank "
        "table "
        f"has {counted(ranks, 'rank')} on "
        f"{counted(nodes, 'node')}",
        hint="start one process for each rank, or make the table again",
    )


def _starts(one: Submission) -> Iterator[Start]:
    tasks = one.tasks_per_node
    if tasks is None or one.nodes is None:
        return
    total = count_processes(one)
    if max(one.nodes, one.nodes * tasks.value, total or 0) > MAX_PROCESSES:
        return
    task = 0
    for node, role, within in one.by_node():
        if one.is_first_node_only and node:
            return
        for local_task in range(tasks.value):
            yield Start(role, node, within, task, local_task)
            task += 1


def _environments(one: Submission, start: Start) -> Iterator[dict[str, str]]:
    """Yield the variables of the processes of one start."""
    around = _of_scheduler(one, start) | _of_role(start)
    program, each = start.role.command.program, processes_per_start(one, start.role)
    # srun starts a process for each task, whatever it is; a pod's may be anything.
    if program in _BY_VARIABLES and (each is not None or one.is_script):
        if {"RANK", "WORLD_SIZE"} <= around.keys():  # PET_* is for torchrun only
            around = {n: v for n, v in around.items() if not n.startswith("PET_")}
        yield around
    elif program in _AGENTS and each is not None:
        total = count_processes(one)
        if total is None:
            return  # WORLD_SIZE of an operator is not that of torchrun's workers
        expected, starts = expected_agents(start.role), one.starts()
        if expected and starts and starts < expected.least and len(one.roles) == 1:
            total = expected.least * each.value  # the others start elsewhere
        for local_rank in range(each.value):
            rank = _node_rank(start) * each.value + local_rank
            own = 0 if start.role.option("virtual-local-rank") else local_rank
            yield around | _of_torchrun(own, each.value, rank, total)


def _of_scheduler(one: Submission, start: Start) -> dict[str, str]:
    """Return what Slurm sets in a task; operators set what their roles have."""
    tasks, nodes = one.tasks_per_node, one.nodes
    if not one.is_step or tasks is None or nodes is None:
        return {}
    seen = start.role.chips_per_task
    return {
        **({} if seen is None else {"SLURM_GPUS_PER_TASK": str(seen.value)}),
        "SLURM_PROCID": str(start.task),
        "SLURM_LOCALID": str(start.local_task),
        "SLURM_NODEID": str(start.node),
        "SLURM_STEP_NUM_TASKS": str(tasks.value * nodes),
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_STEP_TASKS_PER_NODE": f"{tasks.value}(x{nodes})",
    }


def _of_role(start: Start) -> dict[str, str]:
    """Return the variables of a role whose values are known."""
    found = {}
    for name, setting in start.role.variables.items():
        text = _in_task(setting.text, start)
        if not has_marks(text):
            found[name] = text
    return found | {
        name: str(first + _within_job(start))
        for name, first in start.role.counted.items()
    }


def _within_job(start: Start) -> int:
    """Return how many pods of its Job or its role are before a pod."""
    return start.within % (start.role.per_job or start.within + 1)


def _in_task(text: str, start: Start) -> str:
    """Return the value that a text has in a task."""
    numbers = (start.node, start.task, start.local_task)
    for mark, number in zip(IN_TASK.values(), numbers, strict=True):
        text = text.replace(mark, str(number))
    for mark in IN_BATCH.values():
        text = text.replace(mark, "0")
    first = min(start.role.counted.values(), default=0)
    text = text.replace(POD_INDEX, str(first + _within_job(start)))
    return text.replace(JOB_INDEX, str(start.within // (start.role.per_job or 1)))


def _node_rank(start: Start) -> int:
    given = start.role.command.options.get("node-rank")
    text = "" if given is None else _in_task(given.text, start)
    backend = start.role.option("rdzv-backend")
    is_static = backend is None or backend.text == "static"
    return int(text) if text.isdecimal() and is_static else start.task


def _of_torchrun(local_rank: int, size: int, rank: int, total: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(size),
        "GROUP_RANK": str(rank // size),
        "TORCHELASTIC_RUN_ID": "none",
        "WORLD_SIZE": str(total),
        "GROUP_WORLD_SIZE": str(total // size),
    }
