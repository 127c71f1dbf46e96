"""Slurm's srun. Only the variables of the step are believed.

A batch script and an ssh session into a job have ``SLURM_PROCID`` and the job's sizes
as well; whoever takes those for a process waits for ranks that nobody starts. And
``SLURM_NODELIST`` stays the job's in a step on a part of it.

Source: SchedMD/slurm, doc/man/man1/srun.1 and src/common/env.c.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hosts import first_host
from ranktable.runtime.errors import InvalidVariableError
from ranktable.runtime.launchers.launcher import Launcher, Tier
from ranktable.runtime.values import is_plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_COUNT = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")
_MAX_NODES = 1 << 20

PORT_BASE = 20_000
PORT_COUNT = 10_000
"""Ports below the range that Linux gives out by itself (32768 on), one a step."""

_HOSTS = "SLURM_STEP_NODELIST"
_TASKS = "SLURM_STEP_TASKS_PER_NODE"
_TASK_IDS = "SLURM_GTIDS"
_INTERACTIVE_STEP = "4294967290"
"""Step id of the shell that salloc opens where a site sets ``use_interactive_step``."""


def tasks_per_node(text: str) -> list[tuple[int, int]]:
    """Return (tasks, nodes) runs of a count list such as ``8(x2),4``.

    Raises:
        ValueError: It is no such list.
    """
    runs = []
    for item in text.split(","):
        match = _COUNT.fullmatch(item)
        if match is None or int(match[2] or 1) > _MAX_NODES:
            raise ValueError(text)
        runs.append((int(match[1]), int(match[2] or 1)))
    return runs


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, int | str, str]]:
    yield from _local_world_size(env)
    hosts = env.get(_HOSTS, "")
    if hosts:
        master = _master(env, hosts)
        if master is not None:
            yield "master_addr", master, _HOSTS
        job, step = env.get("SLURM_JOB_ID", ""), env.get("SLURM_STEP_ID", "0")
        if is_plain(job):
            number = int(job) * 7 + (int(step) if is_plain(step) else 0)
            yield "master_port", PORT_BASE + number % PORT_COUNT, "SLURM_JOB_ID"


def _master(env: Mapping[str, str], hosts: str) -> str | None:
    """Return the host of rank 0 if that is the first of the list.

    The list is sorted. Rank 0 is elsewhere where the user arranged the tasks, or where
    the components of a step come in another order than their hosts; only node 0 sees
    the latter. Measured with Slurm 22.05.
    """
    try:
        first = first_host(hosts)
    except ArgumentError as error:
        raise InvalidVariableError(
            "RT302", f"{_HOSTS} is {hosts!r}: {error.reason}", {_HOSTS: hosts}
        ) from None
    is_arranged = env.get("SLURM_DISTRIBUTION", "").startswith("arbitrary")
    is_elsewhere = (
        env.get("SLURM_NODEID") == "0" and env.get("SLURMD_NODENAME", first) != first
    )
    one_node = env.get("SLURM_STEP_NUM_NODES") == "1"
    return None if (is_arranged and not one_node) or is_elsewhere else first


def _local_world_size(env: Mapping[str, str]) -> Iterator[tuple[str, int, str]]:
    # SLURM_STEP_TASKS_PER_NODE follows the sorted list of hosts, which is not the order
    # of SLURM_NODEID in a step of several components. The node's own list of tasks is
    # right there too, but some users unset it for other programs' sake.
    ids = env.get(_TASK_IDS, "").split(",")
    tasks, node = env.get(_TASKS, ""), env.get("SLURM_NODEID", "")
    if all(map(is_plain, ids)):
        yield "local_world_size", len(ids), _TASK_IDS
    elif tasks and is_plain(node):
        local_world_size = _tasks_of(tasks, int(node))
        if local_world_size is not None:
            yield "local_world_size", local_world_size, _TASKS


def _tasks_of(text: str, node: int) -> int | None:
    try:
        runs = tasks_per_node(text)
    except ValueError:
        raise InvalidVariableError(
            "RT302",
            f"{_TASKS} is {text!r}, not a list of counts such as 8(x2),4",
            {_TASKS: text},
        ) from None
    for tasks, num_nodes in runs:
        if node < num_nodes:
            return tasks
        node -= num_nodes
    return None


SLURM = Launcher(
    name="slurm",
    tier=Tier.MANAGER,
    markers=("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    not_where=(("SLURM_STEP_ID", _INTERACTIVE_STEP),),
    fields={
        "rank": "SLURM_PROCID",
        # Over all components of a heterogeneous step; SLURM_NTASKS may be the job's.
        "world_size": "SLURM_STEP_NUM_TASKS",
        "local_rank": "SLURM_LOCALID",
        "node_rank": "SLURM_NODEID",
        "num_nodes": "SLURM_STEP_NUM_NODES",
    },
    more=_more,
)
