"""Platforms that start one program on each node or pod, and say which node it is.

None of them gives a rank: the program is to start torchrun, or ``ranktable run``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from ranktable.runtime.errors import ConflictingVariablesError
from ranktable.runtime.launchers.launcher import ClaimLevel, Launcher
from ranktable.runtime.values import read_address, read_number
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ranktable.runtime.values import Value

    Claims = Iterator[tuple[str, Value, str]]

_CHIPS: Final = re.compile(r"[1-9][0-9]{0,8}")
_IN_NODES: Final = "start torchrun, or ranktable run, on every node"
_IN_PODS: Final = "start torchrun, or ranktable run, in every pod"


def _first_of(
    variable: str, separator: str | None = None
) -> Callable[[Mapping[str, str]], Claims]:
    """Return what claims the first host of a list as the address of the rendezvous."""

    def more(env: Mapping[str, str]) -> Claims:
        hosts = [one.strip() for one in env.get(variable, "").split(separator)]
        if hosts and hosts[0]:
            yield (
                "master_addr",
                read_address("master_addr", variable, hosts[0]),
                variable,
            )

    return more


def _addresses(variable: str) -> Callable[[Mapping[str, str]], Claims]:
    """Return what claims the number of addresses, one a line, as that of nodes."""

    def more(env: Mapping[str, str]) -> Claims:
        if hosts := env.get(variable, "").split():
            yield "num_nodes", len(hosts), variable

    return more


def _of_skypilot(env: Mapping[str, str]) -> Claims:
    for claims in (_first_of, _addresses):
        yield from claims("SKYPILOT_NODE_IPS")(env)


def _refuse_stranger(
    env: Mapping[str, str], variable: str, listed: str, hosts: list[str]
) -> None:
    """Raise RT303 for a host of a variable that is not in the list of hosts."""
    host = env.get(variable)
    if host and hosts and host not in hosts:
        raise ConflictingVariablesError(
            "RT303",
            f"{variable} is {quoted(host)}, which is not in {listed} "
            f"({quoted(env[listed])}); correct the one that is left over",
            {variable: host, listed: env[listed]},
        )


def _of_dstack(env: Mapping[str, str]) -> Claims:
    listed = "DSTACK_NODES_IPS"
    yield from _addresses(listed)(env)
    hosts = env.get(listed, "").split()
    _refuse_stranger(env, "DSTACK_MASTER_NODE_IP", listed, hosts)
    total, each = (
        int(text) if _CHIPS.fullmatch(text := env.get(f"DSTACK_GPUS_{of}", "")) else 0
        for of in ("NUM", "PER_NODE")
    )
    if total and each and total % each == 0:  # the chips of all nodes
        yield "num_nodes", total // each, "DSTACK_GPUS_NUM"


# docs.skypilot.co, "Distributed Multi-Node Jobs". The list has one address a line.
SKYPILOT: Final = Launcher(
    name="skypilot",
    level=ClaimLevel.NODE,
    markers=("SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES"),
    fields={"node_rank": "SKYPILOT_NODE_RANK", "num_nodes": "SKYPILOT_NUM_NODES"},
    more=_of_skypilot,
    chips="SKYPILOT_NUM_GPUS_PER_NODE",
    advice=_IN_NODES,
)
# dstackai/dstack, runner/internal/runner/executor/executor.go.
DSTACK: Final = Launcher(
    name="dstack",
    level=ClaimLevel.NODE,
    markers=("DSTACK_NODE_RANK", "DSTACK_NODES_NUM"),
    fields={
        "node_rank": "DSTACK_NODE_RANK",
        "num_nodes": "DSTACK_NODES_NUM",
        "master_addr": "DSTACK_MASTER_NODE_IP",
    },
    more=_of_dstack,
    chips="DSTACK_GPUS_PER_NODE",
    advice=_IN_NODES,
)
# The index counts in one group of pods, which is a world of its own.
# kubernetes-sigs/lws, pkg/utils/pod/pod_utils.go.
LEADER_WORKER_SET: Final = Launcher(
    name="leaderworkerset",
    level=ClaimLevel.NODE,
    markers=("LWS_GROUP_SIZE", "LWS_WORKER_INDEX"),
    fields={
        "node_rank": "LWS_WORKER_INDEX",
        "num_nodes": "LWS_GROUP_SIZE",
        "master_addr": "LWS_LEADER_ADDRESS",
    },
    advice=_IN_PODS,
)
# It looks like Volcano without RANK. Huawei Cloud ModelArts, "Viewing Environment
# Variables of a Training Container"; MA_NUM_GPUS counts NPUs too.
MODELARTS: Final = Launcher(
    name="modelarts",
    level=ClaimLevel.NODE,
    markers=("MA_NUM_HOSTS", "VC_TASK_INDEX"),
    absent=("RANK",),
    fields={"node_rank": "VC_TASK_INDEX", "num_nodes": "MA_NUM_HOSTS"},
    more=_first_of("VC_WORKER_HOSTS", ","),
    chips="MA_NUM_GPUS",
    advice=_IN_NODES,
)
# MLP_WORKER_RACK_RANK_INDEX is the place after sorting by switch; all nodes must take
# the same of the two. Volcengine, "Environment variables of a custom task".
MLP: Final = Launcher(
    name="volcengine mlp",
    level=ClaimLevel.NODE,
    markers=("MLP_ROLE_INDEX", "MLP_WORKER_NUM"),
    fields={
        "node_rank": "MLP_ROLE_INDEX",
        "num_nodes": "MLP_WORKER_NUM",
        "master_addr": "MLP_WORKER_0_HOST",
        "master_port": "MLP_WORKER_0_PORT",
    },
    chips="MLP_WORKER_GPU",
    advice=_IN_NODES,
)


def sagemaker_hosts(env: Mapping[str, str]) -> list[str]:
    """Return the hosts of a job of SageMaker, none if the list cannot be read."""
    try:
        hosts = json.loads(env.get("SM_HOSTS", ""))
    except ValueError:
        return []
    are_names = isinstance(hosts, list) and all(isinstance(one, str) for one in hosts)
    return hosts if are_names else []


def _of_sagemaker(env: Mapping[str, str]) -> Claims:
    hosts = sagemaker_hosts(env)
    _refuse_stranger(env, "SM_CURRENT_HOST", "SM_HOSTS", hosts)
    if hosts:
        yield "node_rank", hosts.index(env["SM_CURRENT_HOST"]), "SM_CURRENT_HOST"
        yield "num_nodes", len(hosts), "SM_HOSTS"
        yield (
            "master_addr",
            read_address("master_addr", "SM_HOSTS", hosts[0]),
            "SM_HOSTS",
        )


# aws/sagemaker-training-toolkit, README. Under its MPI the current host may be wrong.
SAGEMAKER: Final = Launcher(
    name="sagemaker",
    level=ClaimLevel.NODE,
    markers=("SM_HOSTS", "SM_CURRENT_HOST"),
    absent=("OMPI_COMM_WORLD_RANK",),
    more=_of_sagemaker,
    chips="SM_NUM_GPUS",
    advice=_IN_NODES,
)
# WORLD_SIZE counts devices there, and no variable has the rank of a process.
# lightning.ai, multi-machine training.
LIGHTNING: Final = Launcher(
    name="lightning ai",
    owns_torchs_names=True,
    level=ClaimLevel.NODE,
    markers=("NODE_RANK", "NUM_NODES", "WORLD_SIZE"),
    absent=("RANK", "LOCAL_RANK"),
    fields={
        "node_rank": "NODE_RANK",
        "num_nodes": "NUM_NODES",
        "master_addr": "MASTER_ADDR",
        "master_port": "MASTER_PORT",
    },
    advice=_IN_NODES,
)


def _coordinator(env: Mapping[str, str]) -> Claims:
    variable = "JAX_COORDINATOR_ADDRESS"
    host, _, port = env.get(variable, "").rpartition(":")
    if host and port:
        yield "master_addr", read_address("master_addr", variable, host), variable
        yield "master_port", read_number("master_port", variable, port), variable


# One process in each pod. kubeflow/trainer, pkg/runtime/framework/plugins/jax.
JAX_JOB: Final = Launcher(
    name="jax",
    markers=("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
    fields={"rank": "JAX_PROCESS_ID", "world_size": "JAX_NUM_PROCESSES"},
    more=_coordinator,
)

# The parallel universe starts the program in every slot; a machine may have several.
# htcondor/htcondor, parallel_proc.cpp of the starter.
HTCONDOR: Final = Launcher(
    name="htcondor",
    level=ClaimLevel.NODE,
    markers=("_CONDOR_PROCNO", "_CONDOR_NPROCS"),
    fields={"node_rank": "_CONDOR_PROCNO", "num_nodes": "_CONDOR_NPROCS"},
    advice="start torchrun, or ranktable run, in every slot, and give the address of "
    "slot 0, which no variable has",
)
# ps-lite, BytePS and XGBoost's tracker. dmlc/ps-lite, docs/env.md.
DMLC: Final = Launcher(
    name="dmlc",
    level=ClaimLevel.NODE,
    markers=("DMLC_NUM_WORKER",),
    any_of=("DMLC_ROLE", "DMLC_TASK_ID", "DMLC_TRACKER_URI", "DMLC_PS_ROOT_URI"),
    advice="the scheduler or tracker numbers the processes when they come, so no "
    "variable has a rank; for torch start torchrun, or ranktable run",
)

PLATFORMS: Final = (
    *(SKYPILOT, DSTACK, LEADER_WORKER_SET, MODELARTS, MLP, SAGEMAKER, LIGHTNING),
    *(HTCONDOR, DMLC),
)
