"""Nested launchers and the variables that they leave: the rank is right or refused.

One literal environment a case, as the launchers set it, with its version or source.
"""

from __future__ import annotations

import pytest

from ranktable.runtime import (
    ConflictingVariablesError,
    LaunchEnvironmentError,
    resolve_environment,
)
from ranktable.runtime.environment import no_rank
from ranktable.runtime.launchers.declared import LAUNCHERS
from ranktable.runtime.launchers.launcher import ClaimLevel
from ranktable.runtime.launchers.nesting import NESTINGS, SETS_TOO
from tests.environments import variables
from tests.test_launchers import AGENTS, OPEN_MPI, SLURM, TORCHRUN

# --mpi=cray_shasta, the default on Cray EX: slurm 22.05, mpi_cray_shasta.c.
SHASTA = {
    **AGENTS,
    **variables(
        "PALS_APID=4711.0 PALS_RANKID=1 PALS_NODEID=1 "
        "PALS_SPOOL_DIR=/var/spool/slurmd/mpi_cray_shasta/4711.0 "
        "PMI_CONTROL_PORT=20001"
    ),
}
# The same since Slurm 23.11, which adds what PALS itself sets.
NEW_SHASTA = {
    **SHASTA,
    **variables(
        "PALS_LOCAL_RANKID=0 PMI_LOCAL_RANK=0 PMI_LOCAL_SIZE=1 PMI_RANK=1 PMI_SIZE=2 "
        "PMI_UNIVERSE_SIZE=2"
    ),
}
# PALS 1.2, mpiexec --ppn 1 within PBS: one agent on each of two nodes.
PALS = variables(
    "PALS_RANKID=1 PALS_NODEID=1 PALS_LOCAL_RANKID=0 PALS_LOCAL_SIZE=1 "
    "PBS_NODEFILE=/var/spool/pbs/aux/1.pbs"
)
PALS_WITH_PMI = {**PALS, "PMI_RANK": "1", "PMI_SIZE": "2", "PMI_LOCAL_RANK": "0"}
OPEN_MPI_5 = {
    **OPEN_MPI,
    **variables("PRTE_LAUNCHED=1 PMIX_NAMESPACE=prterun-n1-77@1 PMIX_HOSTNAME=gpu08"),
}
# flux run -o pmi=off of flux-core 0.50, whose broker srun of Slurm 22.05 started.
FLUX = variables(
    "FLUX_TASK_RANK=5 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_SIZE=8 FLUX_JOB_NNODES=2"
)
# mpiexec.hydra of MPICH 4.0 and Intel MPI 2021.
HYDRA = variables("PMI_RANK=3 PMI_SIZE=4 PMI_FD=7 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2")
# sagemaker-training 4.8: mpirun -x SM_CURRENT_HOST gives all that of the first host
# (aws/sagemaker-training-toolkit#158).
PODS = {"MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456"}
VOLCANO = {"VC_TASK_INDEX": "0", "VK_TASK_INDEX": "0", **PODS}
RANK_1_OF_2 = {"RANK": "1", "WORLD_SIZE": "2"}

FOUND = {
    # name: environment, (rank, world_size, local_rank, node_rank, launcher)
    "torchrun in srun on a Cray EX": (
        {**SHASTA, **TORCHRUN}, (5, 8, 1, 1, "torchrun"),
    ),
    "torchrun in a newer srun on a Cray EX": (
        {**NEW_SHASTA, **TORCHRUN}, (5, 8, 1, 1, "torchrun"),
    ),
    "mpirun in srun on a Cray EX": (
        {**SHASTA, **OPEN_MPI}, (3, 4, 1, None, "open mpi"),
    ),
    "mpirun in a newer srun on a Cray EX": (
        {**NEW_SHASTA, **OPEN_MPI}, (3, 4, 1, None, "open mpi"),
    ),
    "srun on a Cray EX": (SHASTA, (1, 2, 0, 1, "slurm")),
    "newer srun on a Cray EX": (NEW_SHASTA, (1, 2, 0, 1, "slurm")),
    "torchrun in PALS": ({**PALS, **TORCHRUN}, (5, 8, 1, 1, "torchrun")),
    "torchrun in PALS with PMI": (
        {**PALS_WITH_PMI, **TORCHRUN}, (5, 8, 1, 1, "torchrun"),
    ),
    "open mpi 5 in PALS": ({**PALS, **OPEN_MPI_5}, (3, 4, 1, None, "open mpi")),
    "open mpi 5 in PALS with PMI": (
        {**PALS_WITH_PMI, **OPEN_MPI_5}, (3, 4, 1, None, "open mpi"),
    ),
    # mpirun of Open MPI 4.1.4 names the program that it has started.
    "srun in mpirun": (
        {**SLURM, **variables(
                "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 "
                "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 "
                "OMPI_COMMAND=srun"
            )},
        (4, 6, 0, 1, "slurm"),
    ),
    # salloc -N2 mpirun -n 1 from a login node, whose srun has --ntasks-per-node=1.
    "mpirun of one process in an allocation of two nodes": (
        {**AGENTS, **variables(
                "SLURM_PROCID=0 SLURM_NODEID=0 SLURM_GTIDS=0 SLURM_NTASKS_PER_NODE=1 "
                "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 "
                "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 "
                "OMPI_COMMAND=sh"
            )},
        (0, 1, 0, None, "open mpi"),
    ),
    # Open MPI 4.0 has no PMIX_HOSTNAME.
    # JobSet 0.7: every Job of it counts its own pods.
    "pod of the second job of a jobset": (
        {"PET_NNODES": "4", "PET_NODE_RANK": "3", "JOB_COMPLETION_INDEX": "1"},
        (None, None, None, 3, None),
    ),
    "flux in srun, no PMI": ({**AGENTS, **FLUX}, (5, 8, 1, None, "flux")),
    # flux-framework/flux-core#5206: what Slurm has set reaches the tasks.
    "flux in srun with PMI-2, no PMI of its own": (
        {**AGENTS, **FLUX, "PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "9"},
        (5, 8, 1, None, "flux"),
    ),
    # Sierra: jsrun -a 1 flux start.
    "flux in PALS": ({**PALS, **FLUX}, (5, 8, 1, None, "flux")),
    # torch's env://: one process in each pod, whose rank is the pod's.
    "volcano, one process a pod": (
        {**VOLCANO, **RANK_1_OF_2}, (1, 2, None, 1, "volcano"),
    ),
    "volcano, several processes a pod": (
        {**VOLCANO, **RANK_1_OF_2, "NPROC_PER_NODE": "8"},
        (None, None, None, 1, None),
    ),
    "pytorchjob, one process a pod": (
        {**PODS, **RANK_1_OF_2, "PET_NPROC_PER_NODE": "1", "PET_NNODES": "2",
         "PET_NODE_RANK": "1"},
        (1, 2, None, 1, "pytorchjob"),
    ),
    # training-operator 1.8 without nprocPerNode: auto, and WORLD_SIZE counts pods.
    "pytorchjob, as many processes as devices": (
        {**PODS, **RANK_1_OF_2, "PET_NPROC_PER_NODE": "auto", "PET_NNODES": "2",
         "PET_NODE_RANK": "1"},
        (None, None, None, 1, None),
    ),
    "pai, one process a node": (
        {**PODS, **RANK_1_OF_2, "NPROC_PER_NODE": "1"}, (1, 2, None, 1, "pai dlc"),
    ),
    # kubeflow/training-operator before 1.7 without an elastic policy.
    "pytorchjob of torch's names alone": (
        {**PODS, **RANK_1_OF_2}, (1, 2, None, None, "environment"),
    ),
    "torchrun in a pod of one process": (
        {**TORCHRUN, "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": "1"},
        (5, 8, 1, 1, "torchrun"),
    ),
    "mpich in srun": ({**AGENTS, **HYDRA}, (3, 4, 1, None, "mpich or intel mpi")),
    "torchrun in mpirun in srun": (
        {**AGENTS, **OPEN_MPI, **TORCHRUN}, (5, 8, 1, 1, "torchrun"),
    ),
    "ascend's own rank beside mpirun": (
        {**AGENTS, **OPEN_MPI, "RANK_ID": "3", "RANK_SIZE": "4"},
        (3, 4, 1, None, "open mpi"),
    ),
    # msrun of MindSpore 2.4 without --node_rank, in srun: the rank comes later.
    "msrun in srun, ranks at run time": (
        {**AGENTS, "MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "8"},
        (None, 8, None, None, None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_rank_is_the_inner_launchers(name: str) -> None:
    env, expected = FOUND[name]
    found = resolve_environment(env)

    assert expected == (
        found.rank, found.world_size, found.local_rank, found.node_rank, found.launcher
    )  # fmt: skip


REFUSED = {
    # name: environment, code, variables that are named
    "srun in mpirun, by a script": (
        {**SLURM, **variables(
                "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 "
                "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 "
                "OMPI_COMMAND=sh"
            )},
        "RT303", {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"},
    ),
    "srun in mpirun, one task a node": (
        {**AGENTS, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1",
         "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"},
        "RT303", {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"},
    ),
    "flux run in mpirun": (
        {**FLUX, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
        "RT303", {"OMPI_COMM_WORLD_SIZE", "FLUX_JOB_SIZE"},
    ),
    "tasks of the nodes are more than the step has": (
        {**SLURM, "SLURM_STEP_TASKS_PER_NODE": "4(x3)", "SLURM_STEP_NUM_TASKS": "8",
         "SLURM_STEP_NODELIST": "gpu[01-03]", "SLURM_STEP_NUM_NODES": "3"},
        "RT303", {"SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NUM_TASKS"},
    ),
    "counts of two nodes for three": (
        {**SLURM, **variables(
                "SLURM_STEP_TASKS_PER_NODE=2(x2) SLURM_STEP_NUM_TASKS=4 "
                "SLURM_PROCID=3 SLURM_STEP_NODELIST=gpu[01-03] SLURM_STEP_NUM_NODES=3"
            )},
        "RT303", {"SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NUM_NODES"},
    ),
    "counts of two nodes for three hosts": (
        {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NODEID": "1",
         "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_STEP_NODELIST": "gpu[01-03]"},
        "RT303", {"SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NODELIST"},
    ),
    # An exported LOCAL_RANK that is left over from another job.
    "local rank beyond the size of the job": (
        {**RANK_1_OF_2, "LOCAL_RANK": "3"}, "RT303", {"LOCAL_RANK", "WORLD_SIZE"},
    ),
    "address that means this machine, two nodes": (
        {**AGENTS, "MASTER_ADDR": "0.0.0.0"},  # noqa: S104
        "RT303", {"MASTER_ADDR", "SLURM_STEP_NUM_NODES"},
    ),
    "long address of this machine, two nodes": (
        {**AGENTS, "MASTER_ADDR": "0:0:0:0:0:0:0:1"},
        "RT303", {"MASTER_ADDR", "SLURM_STEP_NUM_NODES"},
    ),
    "address of one machine, two nodes": (
        {**AGENTS, "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"},
        "RT303", {"MASTER_ADDR", "SLURM_STEP_NUM_NODES"},
    ),
    "loopback address, two nodes of flux": (
        {**FLUX, "MASTER_ADDR": "127.0.0.1"}, "RT303",
        {"MASTER_ADDR", "FLUX_JOB_NNODES"},
    ),
    "loopback address, a part of mpirun's processes here": (
        {**OPEN_MPI, "MASTER_ADDR": "::1"}, "RT303",
        {"MASTER_ADDR", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    ),
    # A worker of torchrun whose size was unset, in srun of as many tasks.
    "torchrun without a size": (
        {**AGENTS, **TORCHRUN, "WORLD_SIZE": "", "RANK": "1"},
        "RT301", {"RANK", "WORLD_SIZE"},
    ),
    "open mpi without a size": (
        {**AGENTS, **OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "",
         "OMPI_COMM_WORLD_RANK": "1"},
        "RT301", {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    ),
    "pals alone without a size": (PALS, "RT301", {"PALS_RANKID", "PMI_SIZE"}),
    "left-over rank beside an mpirun in srun": (
        {**AGENTS, **OPEN_MPI, **RANK_1_OF_2}, "RT303",
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "RANK", "WORLD_SIZE"},
    ),
    "hydra within a newer srun on a Cray EX": (
        {**NEW_SHASTA, **HYDRA}, "RT303", {"PALS_RANKID", "PMI_RANK"},
    ),
    # Each srun is a job of its own, and four of them have a rank 0.
    "srun in mpirun of four": (
        {**AGENTS, **OPEN_MPI, "OMPI_COMMAND": "srun"}, "RT303",
        {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"},
    ),
    "pytorchjob of more processes than pods": (
        {**PODS, "RANK": "1", "WORLD_SIZE": "16", "PET_NPROC_PER_NODE": "1",
         "PET_NNODES": "2"},
        "RT303", {"WORLD_SIZE", "PET_NNODES"},
    ),
    "one node that has a part of the processes": (
        {**TORCHRUN, "GROUP_WORLD_SIZE": "1", "GROUP_RANK": "0"}, "RT303",
        {"GROUP_WORLD_SIZE", "LOCAL_WORLD_SIZE", "WORLD_SIZE"},
    ),
    "short loopback address": (
        {**AGENTS, "MASTER_ADDR": "127.1"}, "RT303",
        {"MASTER_ADDR", "SLURM_STEP_NUM_NODES"},
    ),
    "PALS of another rank than Slurm's": (
        {**AGENTS, "PALS_RANKID": "0"}, "RT303", {"SLURM_PROCID", "PALS_RANKID"},
    ),
    "rank beside an indexed job's count": (
        {"JOB_COMPLETION_INDEX": "1", "WORLD_SIZE": "4"}, "RT301",
        {"WORLD_SIZE", "RANK"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_ambiguous_environment_is_refused(name: str) -> None:
    env, code, variables = REFUSED[name]
    with pytest.raises(LaunchEnvironmentError) as raised:
        resolve_environment(env)

    assert raised.value.code == code
    assert variables <= set(raised.value.variables)
    assert all(variable in str(raised.value) for variable in variables)


@pytest.mark.parametrize(
    "env",
    [
        # Who has one node may well meet on it.
        {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "MASTER_ADDR": "localhost"},
        # Nodes that are on one machine, as in the tests of a cluster.
        {**AGENTS, "SLURM_STEP_NODELIST": "127.0.0.[1-2]", "MASTER_ADDR": "127.0.0.1"},
        # torchrun's own address, from agents on one machine.
        {**TORCHRUN, "MASTER_ADDR": "127.0.0.1"},
        {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"},
    ],
)
def test_loopback_address_is_right_on_one_machine(env: dict[str, str]) -> None:
    assert resolve_environment(env).master_addr == env["MASTER_ADDR"]


def test_index_beyond_its_size_gets_a_hint_that_helps() -> None:
    with pytest.raises(ConflictingVariablesError) as raised:
        resolve_environment({"RANK": "4", "WORLD_SIZE": "4"})

    assert raised.value.message == (
        "RANK=4 is not below WORLD_SIZE=4; a rank counts from 0, so the last one is 3: "
        "correct RANK, or WORLD_SIZE if it is left over"
    )


LACKING = [
    # environment, variables that are missing, words of the message
    ({"RANK_ID": "3"}, {"RANK_SIZE", "RANK_TABLE_FILE"}, "RANK_ID=3"),
    ({"MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "8"}, {"MS_NODE_ID"}, "msrun"),
    # The scheduler of msrun in srun is not a rank of srun's.
    (
        {"JOB_COMPLETION_INDEX": "2", "PET_NNODES": "4"},
        {"RANK", "WORLD_SIZE"},
        "RANK=$JOB_COMPLETION_INDEX",
    ),
    # A worker of torchrun that has unset its rank is not the agent.
    ({**AGENTS, "TORCHELASTIC_RUN_ID": "x"}, {"RANK"}, "TORCHELASTIC_RUN_ID is set"),
    ({}, {"RANK", "WORLD_SIZE"}, "torchrun"),
]


@pytest.mark.parametrize(("env", "missing", "words"), LACKING)
def test_process_without_a_rank_is_told_which_variable_is_missing(
    env: dict[str, str], missing: set[str], words: str
) -> None:
    found = resolve_environment(env)
    error = no_rank(found, env)

    assert None in {found.rank, found.world_size}
    assert missing <= {name for name, value in error.variables.items() if not value}
    assert all(name in error.message for name in missing)
    assert words in error.message


def test_every_pair_of_the_relation_is_of_launchers_that_there_are() -> None:
    names = {launcher.name for launcher in LAUNCHERS}
    named = {name for row in NESTINGS for name in (*row.inner, *row.outer)}
    named |= {name for owner, others in SETS_TOO.items() for name in (owner, *others)}

    assert named <= names
    assert all(row.source for row in NESTINGS)


def test_only_launchers_that_the_environment_distinguishes_may_be_reversed() -> None:
    pairs = {(i, o) for row in NESTINGS for i in row.inner for o in row.outer}

    assert {frozenset(pair) for pair in pairs if pair[::-1] in pairs} == {
        frozenset(("slurm", "open mpi")),
        frozenset(("flux", "open mpi")),
    }


def test_every_launcher_of_workers_is_inside_every_one_of_agents() -> None:
    pairs = {(i, o) for row in NESTINGS for i in row.inner for o in row.outer}
    processes = {
        launcher.name for launcher in LAUNCHERS if launcher.level is ClaimLevel.PROCESS
    }
    agents = {o for _, o in pairs} & processes
    workers = {i for i, _ in pairs} - {o for _, o in pairs}

    assert workers == {
        "torchrun",
        "deepspeed",
        "ray train",
        "msrun",
        "paddle",
        "horovod",
    }
    assert agents >= {"slurm", "flux", "pals", "open mpi"}
    assert {(i, o) for i in workers for o in agents} <= pairs


# prterun of PRRTE 3.0.
PRTERUN = variables("PMIX_RANK=1 PMIX_NAMESPACE=prterun-n1-77@1 PRTE_LAUNCHED=1")


@pytest.mark.parametrize(
    ("env", "launcher"),
    [
        ({"PMIX_RANK": "1"}, "pmix"),
        (PRTERUN, "prterun"),
        # Its daemons are the tasks of Slurm or PALS, one on each node.
        ({**AGENTS, **PRTERUN}, "prterun"),
        ({**PALS_WITH_PMI, **PRTERUN}, "prterun"),
    ],
)
def test_bare_process_of_prterun_says_what_is_missing(
    env: dict[str, str], launcher: str
) -> None:
    found = resolve_environment(env)
    error = no_rank(found, env)

    assert (found.rank, found.world_size) == (None, None)
    assert "PMIX_RANK is set, but not the number of processes" in str(error)
    assert f"({launcher})" in str(error)


def test_process_of_prterun_in_slurm_takes_the_rank_that_its_command_sets() -> None:
    found = resolve_environment({**AGENTS, **PRTERUN, "RANK": "3", "WORLD_SIZE": "4"})

    assert (found.rank, found.world_size, found.launcher) == (3, 4, "environment")
