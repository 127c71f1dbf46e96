"""Launchers in all their combinations, as data: the rank is right, or refused.

A row is an environment as the launchers of its name set it, and what is made of it.
"""

from __future__ import annotations

import pytest

from ranktable.runtime import LaunchEnvironmentError, resolve_environment
from ranktable.runtime.environment import no_rank
from tests.environments import variables
from tests.test_launchers import AGENTS, OPEN_MPI, SLURM, TORCHRUN
from tests.test_nested_launchers import (
    FLUX,
    HYDRA,
    OPEN_MPI_5,
    PALS_WITH_PMI,
    PODS,
    RANK_1_OF_2,
    VOLCANO,
)


def step(task: str, job: str, more: str = "") -> dict[str, str]:
    """Return what srun of Slurm 22.05 sets for a task.

    Args:
        task: Its rank, number of tasks, index on its node, and node.
        job: The tasks of each node, the nodes, and their number.
        more: Further variables, or other values.
    """
    rank, size, local, node = task.split()
    tasks, hosts, nodes = job.split()
    return variables(
        f"SLURM_JOB_ID=4711 SLURM_STEP_ID=0 SLURM_PROCID={rank} SLURM_LOCALID={local} "
        f"SLURM_NODEID={node} SLURM_NTASKS={size} SLURM_STEP_NUM_TASKS={size} "
        f"SLURM_STEP_TASKS_PER_NODE={tasks} SLURM_STEP_NODELIST={hosts} "
        f"SLURM_STEP_NUM_NODES={nodes} SLURM_JOB_NODELIST={hosts} "
        f"SLURM_NODELIST={hosts} SLURM_NNODES={nodes} {more}"
    )


def mpi(rank: int, size: int, local: int, here: int) -> dict[str, str]:
    """Return what mpirun of Open MPI 4.1.4 sets for a process."""
    return variables(
        f"OMPI_COMM_WORLD_RANK={rank} OMPI_COMM_WORLD_SIZE={size} "
        f"OMPI_COMM_WORLD_LOCAL_RANK={local} OMPI_COMM_WORLD_LOCAL_SIZE={here} "
        f"OMPI_COMM_WORLD_NODE_RANK={local} PMIX_RANK={rank}"
    )


# A step over both components of a heterogeneous job, with one task on each.
HET_AGENTS = variables(
    "SLURM_JOB_ID=11 SLURM_HET_SIZE=2 SLURM_PROCID=1 SLURM_LOCALID=0 SLURM_NODEID=1 "
    "SLURM_GTIDS=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=2 "
    "SLURM_STEP_TASKS_PER_NODE=1,1 SLURM_STEP_NODELIST=h[1-2]"
)

FOUND: dict[str, tuple[dict[str, str], tuple[object, ...]]] = {
    # name: environment, (rank, world_size, local_rank, node_rank, launcher)
    "mpirun on one of seven pods": (
        {**mpi(1, 3, 1, 3), "LWS_GROUP_SIZE": "7", "LWS_WORKER_INDEX": "5"},
        (1, 3, 1, None, "open mpi"),
    ),
    "hydra on one of three nodes": (
        variables(
            "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 SKYPILOT_NODE_RANK=2 "
            "SKYPILOT_NUM_NODES=3"
        ),
        (0, 2, 0, None, "mpich or intel mpi"),
    ),
    "srun -n4 -N2 block": (
        step("2 4 0 1", "2(x2) n[1-2] 2", "SLURM_GTIDS=2,3 SLURM_DISTRIBUTION=block"),
        (2, 4, 0, 1, "slurm"),
    ),
    "srun cyclic": (
        step("2 4 1 0", "2(x2) n[1-2] 2", "SLURM_GTIDS=0,2 SLURM_DISTRIBUTION=cyclic"),
        (2, 4, 1, 0, "slurm"),
    ),
    "srun plane": (
        step(
            "4 8 2 0",
            "4(x2) n[1-2] 2",
            "SLURM_GTIDS=0,1,4,5 SLURM_DISTRIBUTION=plane=2",
        ),
        (4, 8, 2, 0, "slurm"),
    ),
    "srun arbitrary": (
        step("1 3 0 0", "2,1 n[1-2] 2", "SLURM_GTIDS=1,2 SLURM_DISTRIBUTION=arbitrary"),
        (1, 3, 0, 0, "slurm"),
    ),
    "srun --mpi=pmi2": (
        {
            **step("1 2 0 1", "1(x2) n[1-2] 2"),
            **variables("PMI_RANK=1 PMI_SIZE=2 PMI_FD=8 PMI_JOBID=4711.0"),
        },
        (1, 2, 0, 1, "slurm"),
    ),
    "srun --mpi=pmix": (
        {
            **step("1 2 0 1", "1(x2) n[1-2] 2"),
            **variables(
                "PMIX_RANK=1 PMIX_NAMESPACE=slurm.pmix.4711.0 PMIX_HOSTNAME=n2"
            ),
        },
        (1, 2, 0, 1, "slurm"),
    ),
    "srun --overlap one task on part": (
        step(
            "0 1 0 0",
            "1 n2 1",
            "SLURM_JOB_NODELIST=n[1-4] SLURM_NODELIST=n[1-4] "
            "SLURM_NNODES=4 SLURM_NTASKS=1",
        ),
        (0, 1, 0, 0, "slurm"),
    ),
    "srun uneven 3(x2),2": (
        step("7 8 1 2", "3(x2),2 n[1-3] 3", "SLURM_GTIDS=6,7"),
        (7, 8, 1, 2, "slurm"),
    ),
    "srun in interactive salloc, own step": (
        step("1 2 0 1", "1(x2) n[1-2] 2", "SLURM_STEP_ID=1"),
        (1, 2, 0, 1, "slurm"),
    ),
    "srun array job": (
        step("0 2 0 0", "2 n1 1", "SLURM_ARRAY_JOB_ID=4700 SLURM_ARRAY_TASK_ID=11"),
        (0, 2, 0, 0, "slurm"),
    ),
    "srun ten digit hosts": (
        step(
            "1 2 0 1",
            "1(x2) gpu[2023010001-2023010002] 2",
            "SLURMD_NODENAME=gpu2023010002",
        ),
        (1, 2, 0, 1, "slurm"),
    ),
    "srun --preserve-env stale NTASKS": (
        step(
            "1 2 0 1",
            "1(x2) n[1-2] 2",
            "SLURM_NTASKS=16 SLURM_NNODES=4 SLURM_TASKS_PER_NODE=4(x4)",
        ),
        (1, 2, 0, 1, "slurm"),
    ),
    "heterogeneous step": (
        variables(
            "SLURM_JOB_ID=11 SLURM_HET_SIZE=2 SLURM_PROCID=0 SLURM_LOCALID=0 "
            "SLURM_NODEID=0 SLURM_GTIDS=0 SLURM_STEP_NUM_TASKS=3 "
            "SLURM_STEP_NUM_NODES=2 SLURM_STEP_TASKS_PER_NODE=1,2 "
            "SLURM_STEP_NODELIST=h[1-2] SLURM_JOB_NODELIST=h1"
        ),
        (0, 3, 0, 0, "slurm"),
    ),
    "torchrun in a heterogeneous step": (
        {**HET_AGENTS, **TORCHRUN},
        (5, 8, 1, 1, "torchrun"),
    ),
    "mpirun in a heterogeneous step": (
        {**HET_AGENTS, **OPEN_MPI},
        (3, 4, 1, None, "open mpi"),
    ),
    "mpirun on the batch node (no step)": (
        {
            **variables(
                "SLURM_JOB_ID=4711 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 "
                "SLURM_NTASKS=4 SLURM_NODELIST=n[1-2]"
            ),
            **mpi(0, 4, 0, 2),
        },
        (0, 4, 0, None, "open mpi"),
    ),
    "mpiexec.hydra in sbatch, launch node": (
        {
            **variables(
                "SLURM_JOB_ID=4711 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0"
            ),
            **HYDRA,
        },
        (3, 4, 1, None, "mpich or intel mpi"),
    ),
    "mpiexec.hydra -bootstrap slurm": (
        {**AGENTS, **HYDRA, "HYDRA_BOOTSTRAP": "slurm"},
        (3, 4, 1, None, "mpich or intel mpi"),
    ),
    "mpiexec.hydra slurm, 1 per node": (
        {
            **AGENTS,
            **variables(
                "PMI_RANK=1 PMI_SIZE=2 PMI_FD=7 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1"
            ),
        },
        (1, 2, 0, 1, "slurm"),
    ),
    "open mpi 5 in salloc": ({**AGENTS, **OPEN_MPI_5}, (3, 4, 1, None, "open mpi")),
    "openmpi5 in PBS": (
        {"PBS_JOBID": "1.x", "PBS_NODEFILE": "/x", **OPEN_MPI_5},
        (3, 4, 1, None, "open mpi"),
    ),
    "openmpi in LSF": (
        {"LSB_JOBID": "7", "LSB_DJOB_HOSTFILE": "/x", **OPEN_MPI},
        (3, 4, 1, None, "open mpi"),
    ),
    "openmpi in SGE": (
        {"JOB_ID": "1", "PE_HOSTFILE": "/x", **OPEN_MPI},
        (3, 4, 1, None, "open mpi"),
    ),
    "torchrun in mpirun": ({**mpi(1, 2, 0, 1), **TORCHRUN}, (5, 8, 1, 1, "torchrun")),
    "torchrun in hydra": (
        {"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "3", **TORCHRUN},
        (5, 8, 1, 1, "torchrun"),
    ),
    "torchrun --standalone in srun -n1": (
        {
            **step("0 1 0 0", "1 n1 1"),
            **TORCHRUN,
            **variables(
                "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=0 "
                "GROUP_WORLD_SIZE=1 MASTER_ADDR=localhost"
            ),
        },
        (1, 4, 1, 0, "torchrun"),
    ),
    "torchrun virtual-local-rank": (
        {**TORCHRUN, "LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": "1"},
        (5, 8, 0, 1, "torchrun"),
    ),
    "device 0 of a task with a chip of its own": (
        {**step("1 2 1 0", "2 n1 1"), "LOCAL_RANK": "0", "SLURM_STEP_GPUS": "1"},
        (1, 2, 0, 0, "slurm"),
    ),
    "device 0 of a list of one chip": (
        {**step("1 2 1 0", "2 n1 1"), "LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": "1"},
        (1, 2, 0, 0, "slurm"),
    ),
    "torchrun in flux": (
        {
            **FLUX,
            **variables("FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2 FLUX_TASK_LOCAL_ID=0"),
            **TORCHRUN,
        },
        (5, 8, 1, 1, "torchrun"),
    ),
    "torchrun in mpirun in PBS": (
        {"PBS_NODEFILE": "/x", **mpi(1, 2, 0, 1), **TORCHRUN},
        (5, 8, 1, 1, "torchrun"),
    ),
    "torchrun in volcano": ({**VOLCANO, **TORCHRUN}, (5, 8, 1, 1, "torchrun")),
    "torchrun in pytorchjob": (
        {
            **PODS,
            **variables("PET_NPROC_PER_NODE=4 PET_NNODES=2 PET_NODE_RANK=1"),
            **TORCHRUN,
        },
        (5, 8, 1, 1, "torchrun"),
    ),
    "deepspeed in srun": (
        {
            **AGENTS,
            **variables(
                "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_SIZE=2 CROSS_RANK=1 "
                "CROSS_SIZE=2 MASTER_ADDR=n1 MASTER_PORT=29500"
            ),
        },
        (3, 4, 1, 1, "deepspeed"),
    ),
    "ray in srun": (
        {
            **AGENTS,
            **variables(
                "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 NODE_RANK=1 "
                "RAY_JOB_ID=01"
            ),
        },
        (3, 4, 1, 1, "ray train"),
    ),
    "accelerate in srun": (
        {**AGENTS, **TORCHRUN, "ACCELERATE_USE_CPU": "true"},
        (5, 8, 1, 1, "torchrun"),
    ),
    "jobset torchrun": (
        {
            **variables("PET_NNODES=2 PET_NODE_RANK=1 JOB_COMPLETION_INDEX=0"),
            **TORCHRUN,
        },
        (5, 8, 1, 1, "torchrun"),
    ),
    "mpirun in an indexed job": (
        {"JOB_COMPLETION_INDEX": "1", **OPEN_MPI},
        (3, 4, 1, 1, "open mpi"),
    ),
    "volcano mpi plugin worker": (
        {**variables("VC_TASK_INDEX=1 VK_TASK_INDEX=1 VC_MPIWORKER_NUM=2"), **OPEN_MPI},
        (3, 4, 1, None, "open mpi"),
    ),
    "pytorchjob of the plain names": (
        {**PODS, **RANK_1_OF_2, "PYTHONUNBUFFERED": "0"},
        (1, 2, None, None, "environment"),
    ),
    "pals with PMI": (PALS_WITH_PMI, (1, 2, 0, 1, "pals")),
    "pals in slurm alloc batch": (
        {"SLURM_JOB_ID": "1", **PALS_WITH_PMI},
        (1, 2, 0, 1, "pals"),
    ),
    "mpich in pals, same": (
        {**PALS_WITH_PMI, "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"},
        (1, 2, 0, 1, "pals"),
    ),
    "flux in slurm": (
        {**AGENTS, **FLUX, "PMI_RANK": "5", "PMI_SIZE": "8"},
        (5, 8, 1, None, "flux"),
    ),
    "flux pmix": (
        {**FLUX, "PMIX_RANK": "5", "PMIX_NAMESPACE": "f"},
        (5, 8, 1, None, "flux"),
    ),
    "open mpi in an allocation of flux": (
        {
            **FLUX,
            **variables("FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2 FLUX_TASK_LOCAL_ID=0"),
            **OPEN_MPI,
        },
        (3, 4, 1, None, "open mpi"),
    ),
    "open mpi, one process": (
        variables(
            "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 "
            "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1"
        ),
        (0, 1, 0, None, "open mpi"),
    ),
    "RANK_ID in srun": ({**SLURM, "RANK_ID": "4"}, (4, 6, 0, 1, "slurm")),
    "worker of msrun": (
        variables(
            "MS_ROLE=MS_WORKER MS_WORKER_NUM=8 MS_NODE_ID=3 MS_SCHED_HOST=n1 "
            "MS_SCHED_PORT=8118"
        ),
        (3, 8, None, None, "msrun"),
    ),
    "paddle in srun": (
        {
            **AGENTS,
            **variables(
                "PADDLE_TRAINER_ID=3 PADDLE_TRAINERS_NUM=4 PADDLE_LOCAL_RANK=1 "
                "PADDLE_LOCAL_SIZE=2"
            ),
        },
        (3, 4, 1, None, "paddle"),
    ),
    "rank by hand in a batch script": (
        variables(
            "SLURM_JOB_ID=4711 SLURM_PROCID=0 SLURM_NTASKS=6 "
            "SLURM_NODELIST=gpu[07-08] RANK=0 WORLD_SIZE=6"
        ),
        (0, 6, None, None, "environment"),
    ),
    "deepspeed via pdsh": (
        variables(
            "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_SIZE=2 CROSS_RANK=1 CROSS_SIZE=2 "
            "MASTER_ADDR=localhost"
        ),
        (3, 4, 1, 1, "deepspeed"),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_rank_is_that_of_the_launcher(name: str) -> None:
    env, expected = FOUND[name]
    found = resolve_environment(env)

    assert expected == (
        found.rank,
        found.world_size,
        found.local_rank,
        found.node_rank,
        found.launcher,
    )


REFUSED: dict[str, tuple[dict[str, str], set[str]]] = {
    "device 0 of tasks that see all chips": (
        {**step("1 2 1 0", "2 n1 1"), "LOCAL_RANK": "0", "SLURM_STEP_GPUS": "0,1"},
        {"LOCAL_RANK", "SLURM_LOCALID"},
    ),
    # name: environment, variables that are named
    "srun in mpirun of Open MPI 5, which does not name the program": (
        {**SLURM, **mpi(0, 1, 0, 1)},
        {
            "SLURM_STEP_NUM_TASKS",
            "SLURM_PROCID",
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
            "SLURM_STEP_TASKS_PER_NODE",
            "OMPI_COMM_WORLD_SIZE",
        },
    ),
    "hydra -n1 srun": (
        {
            **SLURM,
            **variables("PMI_RANK=0 PMI_SIZE=1 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1"),
        },
        {
            "SLURM_STEP_NUM_TASKS",
            "SLURM_PROCID",
            "MPI_LOCALNRANKS",
            "PMI_RANK",
            "PMI_SIZE",
            "SLURM_STEP_TASKS_PER_NODE",
        },
    ),
    "loopback address in the second pod of volcano": (
        {**VOLCANO, **RANK_1_OF_2, "MASTER_ADDR": "localhost"},
        {"MASTER_ADDR", "WORLD_SIZE"},
    ),
    "loopback address in the second pod of a pytorchjob": (
        {
            **PODS,
            **RANK_1_OF_2,
            **variables("PET_NPROC_PER_NODE=1 PET_NNODES=2 MASTER_ADDR=localhost"),
        },
        {"PET_NNODES", "MASTER_ADDR"},
    ),
    "loopback address in the second pod of pai dlc": (
        {**RANK_1_OF_2, "NPROC_PER_NODE": "8", "MASTER_ADDR": "localhost"},
        {"MASTER_ADDR", "WORLD_SIZE"},
    ),
    "loopback address on the second node of pals": (
        {**PALS_WITH_PMI, "MASTER_ADDR": "localhost"},
        {"MASTER_ADDR", "PALS_NODEID"},
    ),
    "loopback address on the first node of srun": (
        {**SLURM, "SLURM_PROCID": "0", "SLURM_NODEID": "0", "MASTER_ADDR": "localhost"},
        {"MASTER_ADDR", "SLURM_STEP_NUM_NODES"},
    ),
    "loopback address in the first pod of volcano": (
        {**VOLCANO, **RANK_1_OF_2, "RANK": "0", "MASTER_ADDR": "localhost"},
        {"MASTER_ADDR", "WORLD_SIZE"},
    ),
    "loopback address on the first node of mpirun": (
        {**mpi(1, 4, 1, 2), "MASTER_ADDR": "localhost"},
        {"MASTER_ADDR", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    ),
    "RANK_ID contradicts srun": (
        {**SLURM, "RANK_ID": "3"},
        {"SLURM_PROCID", "RANK_ID"},
    ),
}


# Several nodes that a user starts by hand on one machine.
NODES_BY_HAND = {
    **RANK_1_OF_2,
    **variables("LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1"),
}


@pytest.mark.parametrize(
    "env",
    [
        NODES_BY_HAND,
        {**NODES_BY_HAND, "NODE_RANK": "1"},
        {**RANK_1_OF_2, "NODE_RANK": "1", "MASTER_ADDR": "localhost"},
        {**NODES_BY_HAND, "RANK": "0", "NODE_RANK": "0", "MASTER_ADDR": "localhost"},
    ],
)
def test_loopback_address_that_can_be_right_is_taken(env: dict[str, str]) -> None:
    assert resolve_environment(env).master_addr == env["MASTER_ADDR"]


def test_loopback_address_that_nobody_uses_is_not_refused() -> None:
    env = {**PALS_WITH_PMI, "MASTER_ADDR": "localhost"}

    assert resolve_environment(env, has_address=True).rank == 1
    with pytest.raises(LaunchEnvironmentError, match="MASTER_ADDR=localhost means"):
        resolve_environment(env)


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_is_refused(name: str) -> None:
    env, variables = REFUSED[name]
    with pytest.raises(LaunchEnvironmentError) as raised:
        resolve_environment(env)

    assert raised.value.code == "RT303"
    assert set(raised.value.variables) == variables


LACKING: dict[str, tuple[dict[str, str], str]] = {
    # name: environment, what to do
    "batch script of a heterogeneous job": (
        variables(
            "SLURM_JOB_ID=11 SLURM_HET_SIZE=2 SLURM_PROCID=0 SLURM_NODEID=0 "
            "SLURM_LOCALID=0 SLURM_NTASKS=1"
        ),
        "start the script with srun",
    ),
    "index of a job": (
        {"JOB_COMPLETION_INDEX": "1", "JOBSET_NAME": "x"},
        "RANK=$JOB_COMPLETION_INDEX",
    ),
    "pytorchjob, bare script, eight processes a pod": (
        {**PODS, **variables("RANK=1 WORLD_SIZE=16 PET_NPROC_PER_NODE=8 PET_NNODES=2")},
        "start torchrun, or ranktable run, in every pod",
    ),
    "pytorchjob elastic": (
        variables(
            "PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=w-0:23456 PET_NNODES=1:3 "
            "PET_NPROC_PER_NODE=1"
        ),
        "torchrun",
    ),
    "initial program of flux": (
        {"FLUX_JOB_ID": "f1", "FLUX_URI": "local:///x"},
        "flux run",
    ),
    "prun in a batch script of slurm": (
        {"PMIX_RANK": "1", "SLURM_JOB_ID": "1"},
        "PMIX_RANK",
    ),
    # Not the index, which every Job of the JobSet counts from 0.
    "pod of a jobset": (
        {"PET_NNODES": "4", "PET_NODE_RANK": "3", "JOB_COMPLETION_INDEX": "1"},
        "RANK=$PET_NODE_RANK",
    ),
}


@pytest.mark.parametrize("name", LACKING)
def test_process_without_a_rank_is_told_what_to_do(name: str) -> None:
    env, words = LACKING[name]
    found = resolve_environment(env)

    assert None in {found.rank, found.world_size}
    assert words in no_rank(found, env).message


@pytest.mark.parametrize(
    ("more", "rank"),
    [
        ({"PET_NPROC_PER_NODE": "1"}, 0),
        ({"PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": "0"}, 0),
        ({"PET_NPROC_PER_NODE": "1", "LOCAL_RANK": "0"}, 0),
        ({"PET_NPROC_PER_NODE": "8"}, None),
    ],
)
def test_master_pod_of_a_pytorchjob_may_have_the_loopback_address(
    more: dict[str, str], rank: int | None
) -> None:
    # kubeflow's pytorch-operator gives the pod of rank 0 the address localhost.
    env = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}

    found = resolve_environment({**env, **more, "PET_NNODES": "2"})

    assert (found.rank, found.master_addr) == (rank, "localhost")


@pytest.mark.parametrize(("processes", "rank"), [("1", 0), ("8", None)])
def test_master_pod_without_pet_variables_may_have_the_loopback_address(
    processes: str, rank: int | None
) -> None:
    # KubeDL sets the first three, and a user the last one.
    env = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}

    found = resolve_environment({**env, "NPROC_PER_NODE": processes})

    assert (found.rank, found.num_nodes, found.master_addr) == (rank, 2, "localhost")
