"""Slurm's srun. Only the variables of the step are used.

A batch script and an ssh session into a job have ``SLURM_PROCID`` and the sizes of the
job too, but they are not tasks: a process that used these would wait for ranks that are
never started. In a step on a part of the job, ``SLURM_NODELIST`` is still the job's.

Source: SchedMD/slurm, doc/man/man1/srun.1 and src/common/env.c.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.host_lists import expand_hosts
from ranktable.runtime.errors import ConflictingVariablesError, InvalidVariableError
from ranktable.runtime.launchers.launcher import Launcher
from ranktable.runtime.values import (
    is_plain,
    quoted,
    read_address,
    read_list,
    read_number,
    said,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value

PER_TASK = ("SLURM_GPUS_PER_TASK", "SLURM_NTASKS_PER_GPU")
STEP_CHIPS = "SLURM_STEP_GPUS"

_COUNT = re.compile(r"(0|[1-9][0-9]{0,8})(?:\(x([1-9][0-9]{0,8})\))?")
_MAX_NODES = 1 << 20
_FEDERATED_DIGITS = 10

PORT_BASE = 20_000
PORT_COUNT = 10_000
"""Ports below those that Linux assigns (from 32768), one for each step."""

STEPS_PER_JOB = 101
"""Jobs whose ids differ by less than 99 share no port in their first 101 steps."""

_HOSTS, _NODES = "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES"
_JOB_HOSTS, _JOB_NODES = "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES"
_NUM_TASKS = "SLURM_STEP_NUM_TASKS"
_TASKS = "SLURM_STEP_TASKS_PER_NODE"
_TASK_IDS = "SLURM_GTIDS"
_INTERACTIVE_STEP = "4294967290"
"""Step id of the shell of salloc, if a site sets ``use_interactive_step``."""


def tasks_per_node(text: str) -> list[tuple[int, int]]:
    """Return (tasks, nodes) runs of a count list such as ``8(x2),4``.

    Raises:
        ValueError: It is not such a list.
    """
    runs = []
    for item in text.split(","):
        match = _COUNT.fullmatch(item)
        if match is None or int(match[2] or 1) > _MAX_NODES:
            raise ValueError(text)
        runs.append((int(match[1]), int(match[2] or 1)))
    return runs


def step_hosts(env: Mapping[str, str]) -> list[str]:
    """Return the hosts of the step, none outside of a step."""
    return _read_hosts(env, _HOSTS) if env.get(_HOSTS) else []


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    _refuse_other_step(env)
    counts = _counts(env)
    yield from _local_world_size(env, counts)
    if env.get(_HOSTS):
        hosts = _read_hosts(env, _HOSTS)
        if "SLURM_HET_SIZE" not in env:  # components may share a host
            yield "num_nodes", len(hosts), _HOSTS
        master = _master(env, hosts)
        if master is not None:
            yield "master_addr", read_address("master_addr", _HOSTS, master), _HOSTS
        if env.get("SLURM_JOB_ID"):
            yield "master_port", _port(env), "SLURM_JOB_ID"
    _refuse_other_counts(env, counts)


def _port(env: Mapping[str, str]) -> int:
    job = _job(env["SLURM_JOB_ID"])
    step = read_number("step", "SLURM_STEP_ID", env.get("SLURM_STEP_ID") or "0")
    return PORT_BASE + (job * STEPS_PER_JOB + step) % PORT_COUNT


def _job(text: str) -> int:
    """Return the number of a job; in a federation that of the cluster is before it."""
    if len(text) == _FEDERATED_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    return read_number("job", "SLURM_JOB_ID", text)


def _read_hosts(env: Mapping[str, str], variable: str) -> list[str]:
    try:
        hosts = expand_hosts(env.get(variable, ""))
    except ArgumentError as error:
        raise _invalid(variable, env[variable], error.reason) from None
    if not hosts and env.get(variable):
        raise _invalid(variable, env[variable], "the list has no hosts")
    return hosts


def _refuse_other_step(env: Mapping[str, str]) -> None:
    """Raise if the variables of the step and of the job belong to different jobs.

    A batch script that is submitted inside a step, for example in a chain of jobs,
    inherits the variables of that step, but is not a task of it. Measured with Slurm
    22.05.
    """
    if "SLURM_HET_SIZE" in env:
        return  # the variables of the job are those of one component
    if env.get(_NODES) and env.get(_JOB_NODES):
        nodes = read_number("num_nodes", _NODES, env[_NODES])
        if nodes > read_number("num_nodes", _JOB_NODES, env[_JOB_NODES]):
            raise _other_step(env, _NODES, _JOB_NODES)
    hosts, job_hosts = env.get(_HOSTS, ""), env.get(_JOB_HOSTS, "")
    if not hosts or not job_hosts or hosts == job_hosts:
        return
    if not set(_read_hosts(env, _HOSTS)) <= set(_read_hosts(env, _JOB_HOSTS)):
        raise _other_step(env, _HOSTS, _JOB_HOSTS)


def _other_step(env: Mapping[str, str], *variables: str) -> ConflictingVariablesError:
    listed = " and ".join(said(name, env.get(name, "")) for name in variables)
    return ConflictingVariablesError(
        "RT303",
        f"{listed} cannot belong to one step, so some are inherited from another "
        "step; start the script with srun, or unset SLURM_STEP_NUM_TASKS",
        {variable: env.get(variable) for variable in variables},
    )


def follows_topology(env: Mapping[str, str]) -> bool:
    """Whether the tasks of a step may be in the order of the topology of the nodes."""
    has_groups = "." in env.get("SLURM_TOPOLOGY_ADDR_PATTERN", "")
    return has_groups and not env.get("SLURM_DISTRIBUTION")


def _master(env: Mapping[str, str], hosts: list[str]) -> str | None:
    """Return the host of rank 0 if it is the first of the list, else None.

    The list is sorted. Rank 0 is on another host if the user arranged the tasks, or if
    the order of a step's components is not that of their hosts: then the index of a
    node differs from its place in the list. Measured with Slurm 22.05. Since 26.05
    tasks follow the topology, if there is one and no --distribution is given; then task
    0 alone knows where it is. Read in srun(1), option --distribution.
    """
    node, name = env.get("SLURM_NODEID", ""), env.get("SLURMD_NODENAME", "")
    if len(hosts) == 1:
        return hosts[0]
    if env.get("SLURM_DISTRIBUTION", "").startswith("arbitrary"):
        return None
    if follows_topology(env):
        return name if name in hosts and env.get("SLURM_PROCID") == "0" else None
    if name and is_plain(node) and hosts[int(node) : int(node) + 1] != [name]:
        return None
    return hosts[0]


def _counts(env: Mapping[str, str]) -> list[tuple[int, int]]:
    """Return (tasks, nodes) runs of the nodes of the step; empty if not known."""
    text = env.get(_TASKS, "")
    try:
        return tasks_per_node(text) if text else []
    except ValueError:
        reason = "it is not a list of counts such as 8(x2),4"
        raise _invalid(_TASKS, text, reason) from None


def _local_world_size(
    env: Mapping[str, str], counts: list[tuple[int, int]]
) -> Iterator[tuple[str, int, str]]:
    # SLURM_STEP_TASKS_PER_NODE follows the sorted list of hosts. In a step of several
    # components this is not the order of SLURM_NODEID. The node's own list of tasks
    # is right there too, but some users unset it because of other programs.
    node = env.get("SLURM_NODEID", "")
    ends = accumulate(nodes for _, nodes in counts)
    counted = [
        tasks
        for (tasks, _), end in zip(counts, ends, strict=True)
        if is_plain(node) and int(node) < end
    ]
    if counts and is_plain(node) and not counted:
        raise _other_step(env, "SLURM_NODEID", _TASKS)
    if env.get(_TASK_IDS):
        ids = read_list(read_number, "rank", _TASK_IDS, env[_TASK_IDS])
        rank = env.get("SLURM_PROCID", "")
        if is_plain(rank) and int(rank) not in ids:
            raise _other_step(env, "SLURM_PROCID", _TASK_IDS)
        yield "local_world_size", len(ids), _TASK_IDS
    elif counted:
        yield "local_world_size", counted[0], _TASKS


def _refuse_other_counts(env: Mapping[str, str], counts: list[tuple[int, int]]) -> None:
    """Raise unless the counts of the nodes add up to the other sizes of the step."""
    if not counts:
        return
    num_tasks = sum(tasks * nodes for tasks, nodes in counts)
    if is_plain(env[_NUM_TASKS]) and int(env[_NUM_TASKS]) != num_tasks:
        raise _other_step(env, _TASKS, _NUM_TASKS)
    num_nodes = sum(nodes for _, nodes in counts)
    if "SLURM_HET_SIZE" in env:
        return  # components may share a host
    if is_plain(env.get(_NODES, "")):
        if int(env[_NODES]) != num_nodes:
            raise _other_step(env, _TASKS, _NODES)
    elif env.get(_HOSTS) and len(_read_hosts(env, _HOSTS)) != num_nodes:
        raise _other_step(env, _TASKS, _HOSTS)


def _invalid(variable: str, text: str, reason: str) -> InvalidVariableError:
    return InvalidVariableError(
        "RT302",
        f"{variable} is {quoted(text)}: {reason}; correct or unset it",
        {variable: text},
    )


SLURM = Launcher(
    name="slurm",
    markers=("SLURM_PROCID", _NUM_TASKS),
    not_where=(("SLURM_STEP_ID", _INTERACTIVE_STEP),),
    fields={
        "rank": "SLURM_PROCID",
        # This is for all components of a heterogeneous step; SLURM_NTASKS may be the
        # job's.
        "world_size": _NUM_TASKS,
        "local_rank": "SLURM_LOCALID",
        "node_rank": "SLURM_NODEID",
        "num_nodes": _NODES,
        "host": "SLURMD_NODENAME",
    },
    more=_more,
)


def isolated_by(env: Mapping[str, str]) -> str:
    """Return the variable that shows that each process was given its own chips."""
    for name in PER_TASK:
        if env.get(name):
            return name
    if "gres/gpu" in env.get("SLURM_TRES_PER_TASK", ""):
        return "SLURM_TRES_PER_TASK"
    if re.search("per_task|single", env.get("SLURM_TRES_BIND", "")):
        return "SLURM_TRES_BIND"
    if step_chip(env) is not None:
        return STEP_CHIPS
    return next((name for name in sorted(env) if name.startswith("RAY_")), "")


def step_chip(env: Mapping[str, str]) -> int | None:
    """Return the chip that Slurm gave to this task alone, None if it gave several."""
    text = env.get(STEP_CHIPS, "")
    return int(text) if re.fullmatch("[0-9]{1,6}", text) else None
