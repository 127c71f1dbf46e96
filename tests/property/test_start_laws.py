"""Laws of starting a job: a right one is silent, whatever is beside it; wrong is told.

A job is a launcher, nodes, and processes on each; the processes of a node see all of
its chips, or each has a list with its own one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.preflight.chips_of_ranks import ChipUser, judge_chips
from ranktable.runtime import LaunchEnvironmentError, resolve_environment
from ranktable.runtime.process_chip import SeenChip, process_chip
from ranktable.schema.finding import Severity
from tests.effort import law

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    Env = dict[str, str]

LIST = "CUDA_VISIBLE_DEVICES"
ADDRESS = {"MASTER_ADDR": "fd00::7", "MASTER_PORT": "29511"}


class Job(NamedTuple):
    """The sizes of a job, and whether each process has a list with its own chip."""

    launcher: str
    nodes: int
    here: int
    has_own: bool


def numbers(names: str, *values: int) -> Env:
    return dict(zip(names.split(), map(str, values), strict=True))


def of_torchrun(job: Job, node: int, local: int) -> Env:
    size = job.nodes * job.here
    names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE"
    sizes = (node * job.here + local, size, local, job.here, node, job.nodes)
    return {"TORCHELASTIC_RUN_ID": "x", **numbers(names, *sizes), **ADDRESS}


def of_deepspeed(job: Job, node: int, local: int) -> Env:
    size = job.nodes * job.here
    names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE"
    sizes = (node * job.here + local, size, local, job.here, node, job.nodes)
    return {**numbers(names, *sizes), **ADDRESS}


def of_slurm(job: Job, node: int, local: int) -> Env:
    size = job.nodes * job.here
    names = "SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_LOCALID SLURM_NODEID"
    return {
        **numbers(names, node * job.here + local, size, local, node),
        "SLURM_JOB_ID": "31",
        "SLURM_STEP_ID": "2",
        "SLURM_STEP_NUM_NODES": str(job.nodes),
        "SLURM_STEP_TASKS_PER_NODE": f"{job.here}(x{job.nodes})",
        "SLURM_STEP_NODELIST": f"box[1-{job.nodes}]" if job.nodes > 1 else "box1",
        "SLURM_GPUS_ON_NODE": str(job.here),
        "SLURMD_NODENAME": f"box{node + 1}",
    }


def of_open_mpi(job: Job, node: int, local: int) -> Env:
    names = " ".join(
        f"OMPI_COMM_WORLD_{each}"
        for each in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    )
    size = job.nodes * job.here
    return numbers(names, node * job.here + local, size, local, job.here)


def of_hydra(job: Job, node: int, local: int) -> Env:
    names = "PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS"
    size = job.nodes * job.here
    return numbers(names, node * job.here + local, size, local, job.here)


LAUNCHERS: dict[str, Callable[[Job, int, int], Env]] = {
    "torchrun": of_torchrun,
    "deepspeed": of_deepspeed,
    "slurm": of_slurm,
    "open mpi": of_open_mpi,
    "mpich or intel mpi": of_hydra,
}
BESIDE: tuple[Env, ...] = (
    {"OMP_NUM_THREADS": "4", "NCCL_DEBUG": "INFO"},
    {"NVIDIA_VISIBLE_DEVICES": "all", "HOSTNAME": "pod-3"},
    {"ZE_AFFINITY_MASK": "0", "GPU_DEVICE_ORDINAL": "0"},
    {"ROCR_VISIBLE_DEVICES": "0"},
    {"PBS_NODEFILE": "/var/spool/pbs/aux/9", "PBS_JOBID": "9.head"},
    {"LSB_JOBID": "9", "LSB_HOSTS": "a b"},
    {"PE_HOSTFILE": "/var/spool/sge/pe", "NSLOTS": "12"},
    {"_CONDOR_PROCNO": "0", "_CONDOR_NPROCS": "3"},
    {"AZUREML_RUN_ID": "r", "AZ_BATCH_MASTER_NODE": "10.0.0.4:6000"},
    {"SKYPILOT_NODE_RANK": "7", "SKYPILOT_NUM_NODES": "9"},
    {"LWS_GROUP_SIZE": "9", "LWS_WORKER_INDEX": "7"},
    {"JOB_COMPLETION_INDEX": "7"},
)
OF_SALLOC: Env = {
    "SLURM_JOB_ID": "77", "SLURM_JOB_NODELIST": "login9", "SLURM_NTASKS": "3",
    "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0",
    "SLURM_TASKS_PER_NODE": "3", "SLURM_JOB_NUM_NODES": "1",
}  # fmt: skip

JOBS = st.builds(
    Job,
    launcher=st.sampled_from(sorted(LAUNCHERS)),
    nodes=st.integers(1, 3),
    here=st.integers(1, 4),
    has_own=st.booleans(),
)


def processes(job: Job) -> list[Env]:
    """Return the variables of each process of a job, by rank."""
    found = []
    for node in range(job.nodes):
        for local in range(job.here):
            env = LAUNCHERS[job.launcher](job, node, local)
            chips = [local] if job.has_own else range(job.here)
            found.append({**env, LIST: ",".join(map(str, chips))})
    return found


def told(job: Job, envs: list[Env], name: str = "box") -> set[str]:
    """Return the codes of errors about the chips of all processes of a job."""
    users = []
    for rank, env in enumerate(envs):
        node = rank // job.here
        seen = [SeenChip(n, f"GPU-{node:04}{n:04}") for n in range(job.here)]
        environment = resolve_environment(env, has_address=True)
        chip = process_chip(env, environment, "nvidia", seen)
        users.append(ChipUser(rank, f"{name}{node}", f"boot {name} {node}", chip))
    found = judge_chips(users, is_whole=True)
    return {each.rule.code for each in found if each.severity is Severity.ERROR}


def explicit(job: Job) -> bool:
    """Whether a list of its own contradicts the local rank of a process.

    A program that takes LOCAL_RANK for the number of its device then finds none.
    """
    return job.has_own and job.launcher in ("torchrun", "deepspeed")


@given(
    job=JOBS,
    beside=st.lists(st.sampled_from(BESIDE), max_size=4),
    order=st.randoms(use_true_random=False),
    name=st.sampled_from(["n", "gpu-", "a.b.c-"]),
    is_in_salloc=st.booleans(),
)
@law(60)
def test_right_job_is_silent_whatever_is_beside_it(
    job: Job,
    beside: list[Env],
    order: Random,
    name: str,
    *,
    is_in_salloc: bool,
) -> None:
    envs = processes(job)
    others: list[Env] = []
    for env in envs:
        more = {key: value for each in beside for key, value in each.items()}
        outer = OF_SALLOC if is_in_salloc and job.launcher != "slurm" else {}
        items = list({**more, **outer, **env}.items())
        order.shuffle(items)
        others.append(dict(items))

    for rank, (env, other) in enumerate(zip(envs, others, strict=True)):
        for each in (env, other):
            said = resolve_environment(each, has_address=True)
            assert said.launcher == job.launcher
            assert (said.rank, said.world_size) == (rank, len(envs))
            assert said.local_rank == rank % job.here
            assert said.local_world_size == job.here
    assert told(job, others, name) == told(job, envs)
    if not explicit(job):
        assert told(job, envs) == set()


@given(job=JOBS.filter(lambda job: job.here > 1 and not job.has_own), data=st.data())
@law(60)
def test_one_wrong_list_is_told(job: Job, data: st.DataObject) -> None:
    envs = processes(job)
    rank = data.draw(st.integers(0, len(envs) - 1))
    local = rank % job.here
    other = data.draw(st.integers(0, job.here - 1).filter(lambda at: at != local))
    listed = list(range(job.here))
    listed[local] = other  # a chip twice
    envs[rank][LIST] = ",".join(map(str, listed))

    assert told(job, envs)


@given(job=JOBS.filter(lambda job: job.here > 1), data=st.data())
@law(60)
def test_local_rank_beyond_the_chips_is_told(job: Job, data: st.DataObject) -> None:
    envs = processes(job)
    shown = data.draw(st.integers(1, job.here - 1))
    for env in envs:
        env[LIST] = ",".join(map(str, range(shown)))

    codes = told(job, envs)

    # With one chip a process may have been given its own; several ranks then share it.
    assert codes or shown == 1


@given(job=JOBS, off=st.sampled_from([-1, 1]))
@law(60)
def test_other_size_beside_the_launcher_is_refused(job: Job, off: int) -> None:
    size = job.nodes * job.here
    env = processes(job)[-1]
    left_over = {"RANK": str(size - 1), "WORLD_SIZE": str(size + off)}
    if job.launcher in ("torchrun", "deepspeed") and off > 0:
        return  # nothing else says the size to one process of these
    with pytest.raises(LaunchEnvironmentError):
        resolve_environment({**env, **left_over}, has_address=True)
