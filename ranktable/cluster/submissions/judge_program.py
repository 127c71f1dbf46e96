"""Judge programs that are no agents: those with a rank in variables, mpirun, deepspeed.

Source: microsoft/DeepSpeed, launcher/runner.py.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import shell_marks
from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.agents import (
    fact_of,
    groups_of,
    processes_per_start,
    started,
)
from ranktable.cluster.submissions.judge_address import (
    judge_address,
    judge_first,
    judge_port,
)
from ranktable.cluster.submissions.judge_agents import judge_without_srun
from ranktable.cluster.submissions.judge_nccl_tests import judge_tests
from ranktable.cluster.submissions.parallel_sizes import parallel_sizes
from ranktable.cluster.submissions.submission import Fact, Role, Submission
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.finding import Finding

_RANK: Final = re.compile(
    r"(?i)-.*(?:rank|(?:proc|process|node|worker|machine)[-_]?id)"
)
_HOSTS: Final = {"host", "hostfile"}
_RANKS: Final = ("RANK", "LOCAL_RANK", "NODE_RANK")
_OWN: Final = {
    "srun": {
        "RANK": "SLURM_PROCID",
        "LOCAL_RANK": "SLURM_LOCALID",
        "NODE_RANK": "SLURM_NODEID",
    },
    "mpirun": {
        "RANK": "OMPI_COMM_WORLD_RANK",
        "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
        "NODE_RANK": "((OMPI_COMM_WORLD_RANK / OMPI_COMM_WORLD_LOCAL_SIZE))",
    },
}
"""What tells a task each of them."""
_MEGATRON: Final = (
    *("tensor-model-parallel-size", "pipeline-model-parallel-size"),
    "context-parallel-size",
)


def judge_parallel(one: Submission, role: Role) -> Iterator[Finding]:
    """Compare the sizes of Megatron's groups with the number of processes."""
    each, starts = processes_per_start(one, role), one.starts()
    sizes = parallel_sizes(role.command.script, _MEGATRON)
    if each is None or starts is None or not sizes or len(one.roles) > 1:
        return
    product, world = prod(sizes.values()), starts * each.value
    if product and world % product:
        listed = " x ".join(f"--{name} {size}" for name, size in sizes.items())
        yield rules.WRONG_SIZE.finding(
            role.command.span,
            f"{listed} needs a multiple of {counted(product, 'process', 'processes')}, "
            f"but {world} are started",
            hint="change the sizes, or the number of nodes",
        )


def judge_arguments(one: Submission, role: Role) -> Iterator[Finding]:
    """Report numbers of a task that the batch script expands for the program."""
    each, tasks = one.tasks_per_node, one.starts()
    counts = {
        "SLURM_PROCID": tasks,
        "SLURM_NODEID": one.nodes if tasks != 1 else 1,
        "SLURM_LOCALID": None if each is None else each.value,
    }
    words = role.command.script
    for at, word in enumerate(words) if one.is_step else ():
        option, sign, value = word.rpartition("=")
        for name, mark in shell_marks.IN_BATCH.items():
            if value != mark or (counts[name] or 1) < 2:
                continue
            before = option if sign else words[at - 1] if at else ""
            yield rules.SAME_RANK.finding(
                role.command.span,
                f"{before + (sign or ' ') if before[:1] == '-' else ''}${name} is "
                f"expanded by the batch script, so it is 0 in all {tasks} tasks",
                hint="let every task expand it: srun bash -c '...', in single quotes",
                severity=None if _RANK.search(before) else Severity.WARNING,
            )


def judge_mpirun(one: Submission, role: Role) -> Iterator[Finding]:
    """Compare the processes of an mpirun with the slots of the job."""
    if not role.command.script:
        return  # mpirun --version
    yield from _judge_processes(one, role)
    count, slots = fact_of(role.option("np")), one.slots
    is_repeated = count is None or count.value > 1
    if is_repeated and not (_HOSTS & role.command.options.keys()):
        yield from _judge_repeated(one, role)
    is_told = role.option("hostfile") is not None  # the slots are in that file
    if is_told:
        return
    each = fact_of(role.option("per-node"))
    # Hydra starts as many as it is told, more than one a slot.
    is_hydra = role.command.passed is None or (each and each.said.startswith("-ppn"))
    is_over = is_hydra or "oversubscribe" in role.command.options
    yield from _judge_node_of_mpirun(one, role, each, count or slots)
    if not (count and slots and count.value > slots.value and not is_over):
        yield from _judge_places(one, role, each, count)
    is_fewer = each is None or count is None or count.value > (slots or count).value
    if count and slots and count.value != slots.value and is_fewer:
        is_more = count.value > slots.value
        if is_more and is_over:
            return
        verb = "more" if is_more else "fewer"
        yield rules.WRONG_AGENTS.finding(
            count.span,
            f"mpirun starts {count.value} processes ({count.said}), {verb} than the "
            f"{slots.value} slots of the job ({slots.said})",
            hint=f"write {slots.value}, or leave it out",
            severity=None if is_more and not one.is_script else Severity.WARNING,
        )
    hosts = role.option("host")
    if not (one.is_script or hosts):
        yield from _judge_alone(one)
    if hosts is not None and one.is_script:
        yield rules.NO_EFFECT.finding(
            hosts.span,
            f"{hosts.said} names hosts by hand; the job may have others",
            hint="leave it out: mpirun takes the nodes of the job",
        )


def _judge_places(
    one: Submission, role: Role, each: Fact | None, count: Fact | None
) -> Iterator[Finding]:
    """Report processes for which the places that a mapping gives are too few.

    Source: open-mpi/ompi, rmaps/ppr: "more processes than the ppr ... can support".
    """
    is_told = _HOSTS & role.command.options.keys()
    if is_told or not (each and count and one.nodes and "ppr:" in each.said):
        return
    places = each.value * one.nodes
    if count.value <= places:
        return
    yield rules.WRONG_AGENTS.finding(
        count.span,
        f"mpirun starts {count.value} processes ({count.said}), and {each.said} has "
        f"places for {places} on {counted(one.nodes, one.node)}",
        hint=f"start {places}, or map more on each {one.node}",
        severity=Severity.WARNING if one.is_script else None,
    )


def _judge_alone(one: Submission) -> Iterator[Finding]:
    """Judge launchers in pods that know no other pods; the launcher of MPIJob does."""
    for group in () if one.kind == "MPIJob" else groups_of(one):
        role, program = group.role, group.role.command.program
        count = fact_of(role.option("np"))
        is_told = any("hostfile" in name for name in role.variables)
        if program not in ("mpirun", "deepspeed") or role.option("hostfile") or is_told:
            continue
        if count is not None and role.chips and count.value > role.chips.value:
            yield rules.MORE_THAN_CHIPS.finding(
                count.span,
                f"mpirun starts {count.value} processes ({count.said}) in this pod, "
                f"which has {counted(role.chips.value, 'chip')} ({role.chips.said})",
                hint="name the hosts of the others, or use an MPIJob",
            )
        if (group.starts or 1) > 1 and role.command.is_whole:
            yield rules.NODES_ALONE.finding(
                role.command.span,
                f"{counted(group.starts or 1, 'pod')} start {program} each, and each "
                "is a job of its own",
                hint="start it in one pod with the hosts of all, or use torchrun",
                severity=Severity.WARNING,
            )


def _judge_node_of_mpirun(
    one: Submission, role: Role, each: Fact | None, total: Fact | None
) -> Iterator[Finding]:
    """Compare the processes that an mpirun starts on a node with its chips."""
    chips, nodes = role.chips, one.nodes
    is_of_pods = one.kind == "MPIJob" and each is not None
    if each is None and total is not None and nodes:
        each = total._replace(value=-(-total.value // nodes))
    if is_of_pods and each is not None and total is not None:
        each = min(each, total, key=lambda fact: fact.value)
    is_told = "host" in role.command.options or not (one.is_script or is_of_pods)
    if not is_told and each is not None and chips and each.value > chips.value:
        yield rules.MORE_THAN_CHIPS.finding(
            each.span,
            f"mpirun starts {each.value} processes on some {one.node} ({each.said}), "
            f"but it has {counted(chips.value, 'chip')} ({chips.said})",
            hint=f"start {chips.value}, or ask for {each.value} chips",
            severity=None if is_of_pods else Severity.WARNING,
        )
    else:
        is_elsewhere = is_told and ("host" in role.command.options or not one.slots)
        yield from judge_tests(one, role, None if is_elsewhere else each)


def judge_deepspeed(one: Submission, role: Role) -> Iterator[Finding]:
    """Judge the address that deepspeed is given, and how often it is started."""
    starts, given, hosts = (
        one.starts(),
        role.option("master-addr"),
        role.option("nnodes"),
    )
    number = fact_of(hosts)
    if given is not None and number is not None and number.value > 1:
        yield from judge_address(one, given)
    if one.is_first_node_only or starts is None or starts < 2:
        return
    options = role.command.options.keys()
    if not (one.is_script or {"launcher", "no-ssh"} & options):
        yield from _judge_alone(one)
    if "no-ssh" not in options:  # with it a launcher starts those of its node
        yield from _judge_repeated(one, role)


def _judge_repeated(one: Submission, role: Role) -> Iterator[Finding]:
    """Warn about tasks of which each is a launcher for the whole job."""
    starts, program = one.starts() or 0, role.command.program
    if one.is_step and starts > 1:
        yield rules.WRONG_AGENTS.finding(
            role.command.span,
            f"{started(one, starts)}, and each starts the whole job with {program}",
            hint=f"start {program} once, without srun",
            severity=Severity.WARNING,
        )


def _judge_processes(one: Submission, role: Role) -> Iterator[Finding]:
    """Judge what the processes of an mpirun find in their environment."""
    options, slots = role.command.options, one.slots
    is_once = one.is_first_node_only if one.is_script else one.kind == "MPIJob"
    if not (is_once and role.command.is_whole):
        return
    count, each = fact_of(role.option("np")), fact_of(role.option("per-node"))
    nodes = 1 if _HOSTS & options.keys() else one.nodes or 1
    if count is None and "np" not in options and not _HOSTS & options.keys():
        count = slots if each is None else Fact(each.value * nodes, each.said)
    if count is None:
        return
    if each is not None:
        nodes = min(nodes, -(-count.value // max(each.value, 1)))
    elif slots is None or count.value < slots.value:
        nodes = 1  # mpirun may fill the first node and use no other
    processes = replace(
        one,
        roles=(replace(role, nodes=Fact(nodes, "")),),
        tasks_per_node=count._replace(
            value=-(-count.value // (one.nodes or count.value or 1))
        ),
        tasks=count,
        starter="mpirun",
        is_first_node_only=False,
    )
    yield from _judge_variables(processes, processes.roles[0], count.value)


def judge_program(one: Submission, role: Role) -> Iterator[Finding]:
    """Judge a program that takes its rank from variables."""
    starts = one.starts()
    if one.is_first_node_only:
        yield from judge_without_srun(one, role, None)
        return
    if starts is None:
        return
    yield from _judge_variables(one, role, starts)


def _judge_variables(one: Submission, role: Role, starts: int) -> Iterator[Finding]:
    """Judge the rank, the size and the master that processes read from variables."""
    for name in _RANKS:
        yield from _judge_expanded(name, one, role, starts)
    yield from _judge_counter(one, role, starts)
    yield from _judge_world_size(one, role, starts)
    for name, judge_setting in (
        ("MASTER_ADDR", judge_address),
        ("MASTER_PORT", judge_port),
    ):
        if name in role.variables and starts > 1 and _is_launched(one):
            yield from judge_setting(one, role.variables[name])
    if "MASTER_ADDR" in role.variables:
        yield from judge_first(one, role.variables["MASTER_ADDR"])


def _is_launched(one: Submission) -> bool:
    """Whether srun or mpirun starts the processes, and not an operator."""
    return one.is_script or one.starter == "mpirun"


def _judge_expanded(
    name: str, one: Submission, role: Role, starts: int
) -> Iterator[Finding]:
    setting = role.variables.get(name)
    marks = (
        []
        if setting is None
        else [m for m in shell_marks.IN_BATCH.values() if m in setting.text]
    )
    if len(one.roles) > 1 and not one.is_script:
        starts = role.nodes.value if role.nodes else 1  # others have their own
    number = starts if name != "NODE_RANK" else min(starts, one.nodes or 1)
    is_fixed = setting is not None and setting.text.isdecimal()
    if setting is not None and is_fixed and name != "LOCAL_RANK" and number > 1:
        yield rules.SAME_RANK.finding(
            setting.span,
            f"{setting.said} is the same in all {starts} tasks",
            hint=f"delete it, or let every task set it: {_in_task(one, name)}",
        )
    if setting is not None and marks and number > 1:
        yield rules.SAME_RANK.finding(
            setting.span,
            f"{setting.said} is expanded by the batch script, so it is 0 in all "
            f"{starts} tasks",
            hint=f"{_in_task(one, name)}, in single quotes",
        )


def _in_task(one: Submission, name: str) -> str:
    """Return a line with which every task sets a variable."""
    return f"{one.starter} bash -c '{name}=${_OWN[one.starter][name]} python ...'"


_OF_JOB: Final = {
    shell_marks.IN_TASK["SLURM_PROCID"],
    *(shell_marks.IN_MPI[name] for name in shell_marks.MPI_RANKS),
}
_OF_NODE: Final = {
    shell_marks.IN_TASK["SLURM_LOCALID"],
    *(shell_marks.IN_MPI[name] for name in shell_marks.MPI_LOCAL_RANKS),
}
"""Counters of the tasks of a job, and of those of a node."""


def _judge_counter(one: Submission, role: Role, starts: int) -> Iterator[Finding]:
    """Report ranks that are counted by what begins again, stands still or goes on."""
    setting, nodes = role.variables.get("RANK"), one.nodes or 1
    text = "" if setting is None else setting.text
    own = _OWN[one.starter or "srun"]
    why = ""
    if text in _OF_NODE and nodes > 1:
        why = f"counts the tasks of each of {nodes} nodes from 0"
    elif text == shell_marks.IN_TASK["SLURM_NODEID"] and starts > nodes:
        why = f"is the same in all tasks of a node, and there are {starts} on {nodes}"
    if setting is not None and why:
        yield rules.SAME_RANK.finding(
            setting.span,
            f"{shell_marks.shown(setting.said)} {why}",
            hint=f"the number of a task in the job is ${own['RANK']}",
        )
    place, chips = role.variables.get("LOCAL_RANK"), role.chips
    is_far = chips is None or starts > chips.value
    if place is not None and place.text in _OF_JOB and starts > nodes > 1 and is_far:
        yield rules.CHIPS_VISIBLE.finding(
            place.span,
            f"{shell_marks.shown(place.said)} counts the tasks of all {nodes} nodes, "
            "so on the others than the first a program finds no chip of that number",
            hint=f"the number of a task on its node is ${own['LOCAL_RANK']}",
        )


def _judge_world_size(one: Submission, role: Role, starts: int) -> Iterator[Finding]:
    """Compare WORLD_SIZE with the processes that are started."""
    setting = role.variables.get("WORLD_SIZE")
    size = fact_of(setting)
    if setting is None or size is None or size.value == starts:
        return
    is_own = one.is_script or setting.span is not None  # not that of an operator
    is_judged = role.command.program in ("python", "mpirun")
    if not is_judged or (is_own and len(one.roles) > 1):
        return  # some of the roles may be a world of their own
    each, chips, is_many = one.tasks_per_node, role.chips, False
    is_one = each is None or each.value == 1
    if is_one and size.value > starts and _is_launched(one):
        is_many = chips is not None and size.value > starts * max(chips.value, 1)
        if not is_many:
            return  # the program may start the others itself
    yield rules.WRONG_SIZE.finding(
        setting.span or role.command.span,
        f"WORLD_SIZE is {size.value} ({setting.said}), but "
        f"{counted(starts, 'process is', 'processes are')} started"
        + (f", each with {counted(chips.value, 'chip')}" if is_many and chips else ""),
        hint=f"set WORLD_SIZE to {starts}"
        if _is_launched(one)
        else "start torchrun in every pod",
        severity=Severity.WARNING if is_many else None,
    )
