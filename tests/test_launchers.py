"""Every launcher by the literal environment that it sets, with its version."""

from __future__ import annotations

import re
from types import MappingProxyType

import pytest

from ranktable.runtime import (
    ConflictingVariablesError,
    InvalidVariableError,
    LaunchEnvironmentError,
    MissingVariableError,
    resolve_environment,
)
from ranktable.runtime.environment import advice
from ranktable.runtime.launchers.slurm import tasks_per_node
from ranktable.runtime.resolution import Outcome, resolve_claims

# srun of Slurm 22.05: 6 tasks on two nodes, task 4.
from tests.environments import variables

SLURM = variables(
    "SLURM_JOB_ID=4711 SLURM_STEP_ID=0 SLURM_PROCID=4 SLURM_LOCALID=0 SLURM_NODEID=1 "
    "SLURM_NTASKS=6 SLURM_STEP_NUM_TASKS=6 SLURM_STEP_TASKS_PER_NODE=4,2 "
    "SLURM_STEP_NODELIST=gpu[07-08] SLURM_STEP_NUM_NODES=2 "
    "SLURM_JOB_NODELIST=gpu[01-08] SLURM_NODELIST=gpu[01-08] SLURM_NNODES=2"
)
# srun -N2 --ntasks-per-node=1 of Slurm 22.05, task 1: the step of agents.
AGENTS = variables(
    "SLURM_JOB_ID=4711 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_LOCALID=0 SLURM_NODEID=1 "
    "SLURM_GTIDS=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=1(x2) "
    "SLURM_STEP_NODELIST=gpu[07-08] SLURM_STEP_NUM_NODES=2"
)
# torchrun of torch 2.13.0: 2 nodes, 4 processes each, rank 5.
TORCHRUN = variables(
    "TORCHELASTIC_RUN_ID=none RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 "
    "GROUP_RANK=1 GROUP_WORLD_SIZE=2 MASTER_ADDR=gpu07 MASTER_PORT=29400"
)
# mpirun of Open MPI 4.1.4: 4 processes on two hosts, rank 3.
OPEN_MPI = variables(
    "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 "
    "OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_NODE_RANK=1 OMPI_UNIVERSE_SIZE=16 "
    "PMIX_RANK=3"
)
_RANK_OF_FOUR: dict[str, object] = {
    "rank": 3,
    "world_size": 4,
    "local_rank": 1,
    "local_world_size": 2,
}

# name: environment, what it says (only what is known), launcher
CASES: dict[str, tuple[dict[str, str], dict[str, object], str | None]] = {
    # horovodrun of Horovod 0.28 with gloo.
    "horovod": (
        variables(
            "HOROVOD_RANK=3 HOROVOD_SIZE=4 HOROVOD_LOCAL_RANK=1 HOROVOD_LOCAL_SIZE=2 "
            "HOROVOD_CROSS_RANK=1 HOROVOD_CROSS_SIZE=2 HOROVOD_HOSTNAME=gpu08"
        ),
        {"rank": 3, "world_size": 4, "local_rank": 1, "local_world_size": 2,
         "host": "gpu08"},
        "horovod",
    ),
    # mpirun_rsh of MVAPICH2 2.3.7.
    "mvapich2": (
        variables(
            "MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_RANK=1 "
            "MV2_COMM_WORLD_LOCAL_SIZE=2 PMI_RANK=3 PMI_SIZE=4"
        ),
        {"rank": 3, "world_size": 4, "local_rank": 1, "local_world_size": 2},
        "mvapich2",
    ),
    # jsrun of JSM 10.3 in LSF, with Spectrum MPI.
    "jsrun": (
        variables(
            "JSM_NAMESPACE_RANK=3 JSM_NAMESPACE_SIZE=4 JSM_NAMESPACE_LOCAL_RANK=1 "
            "JSM_NAMESPACE_LOCAL_SIZE=2 PMIX_RANK=3 LSB_JOBID=5"
        ),
        {"rank": 3, "world_size": 4, "local_rank": 1, "local_world_size": 2},
        "jsrun",
    ),
    "slurm": (
        SLURM,
        {"rank": 4, "world_size": 6, "local_rank": 0, "local_world_size": 2,
         "node_rank": 1, "num_nodes": 2, "master_addr": "gpu07", "master_port": 25811},
        "slurm",
    ),
    # sbatch of Slurm 22.05: the script itself is not a task of a step.
    "slurm batch script": (
        {"SLURM_JOB_ID": "4711", "SLURM_PROCID": "0", "SLURM_LOCALID": "0",
         "SLURM_NODEID": "0", "SLURM_NTASKS": "6", "SLURM_NODELIST": "gpu[07-08]"},
        {}, None,
    ),
    # ssh into a node of a job, adopted by pam_slurm_adopt.
    "slurm adopted ssh": ({"SLURM_JOB_ID": "4711"}, {}, None),
    # srun --het-group=0,1 of Slurm 22.05: everything counts over both components.
    "slurm heterogeneous": (
        variables(
            "SLURM_JOB_ID=11 SLURM_HET_SIZE=2 SLURM_PROCID=2 SLURM_LOCALID=1 "
            "SLURM_NODEID=1 SLURM_GTIDS=1,2 SLURM_NTASKS=3 SLURM_STEP_NUM_TASKS=3 "
            "SLURM_STEP_NUM_NODES=2 SLURM_STEP_TASKS_PER_NODE=1,2 "
            "SLURM_STEP_NODELIST=h[1-2]"
        ),
        {"rank": 2, "world_size": 3, "local_rank": 1, "local_world_size": 2,
         "node_rank": 1, "num_nodes": 2, "master_addr": "h1", "master_port": 21111},
        "slurm",
    ),
    # srun -w n2 -n1 : -w n1 -n2 of Slurm 22.05: counts follow the sorted hosts.
    "slurm, components in another order": (
        variables(
            "SLURM_JOB_ID=12 SLURM_PROCID=2 SLURM_LOCALID=1 SLURM_NODEID=1 "
            "SLURM_GTIDS=1,2 SLURM_STEP_NUM_TASKS=3 SLURM_STEP_TASKS_PER_NODE=2,1"
        ),
        {"rank": 2, "world_size": 3, "local_rank": 1, "local_world_size": 2,
         "node_rank": 1},
        "slurm",
    ),
    # srun --distribution=arbitrary: rank 0 may be on any host of the sorted list.
    "slurm, arbitrary order": (
        {**SLURM, "SLURM_DISTRIBUTION": "arbitrary"},
        {"rank": 4, "world_size": 6, "local_rank": 0, "local_world_size": 2,
         "node_rank": 1, "num_nodes": 2, "master_port": 25811},
        "slurm",
    ),
    # Since Slurm 26.05 tasks follow the topology, if no --distribution is given.
    "slurm, order of the topology": (
        {**SLURM, "SLURM_TOPOLOGY_ADDR_PATTERN": "switch.switch.node"},
        {"rank": 4, "world_size": 6, "local_rank": 0, "local_world_size": 2,
         "node_rank": 1, "num_nodes": 2, "master_port": 25811},
        "slurm",
    ),
    "slurm, order of the topology, task 0": (
        {**SLURM, "SLURM_TOPOLOGY_ADDR_PATTERN": "block.node", "SLURM_PROCID": "0",
         "SLURM_NODEID": "0", "SLURM_GTIDS": "0,1,2,3", "SLURMD_NODENAME": "gpu08"},
        {"rank": 0, "world_size": 6, "local_rank": 0, "local_world_size": 4,
         "node_rank": 0, "num_nodes": 2, "master_addr": "gpu08", "host": "gpu08",
         "master_port": 25811},
        "slurm",
    ),
    "slurm, a topology and an order of blocks": (
        {**SLURM, "SLURM_TOPOLOGY_ADDR_PATTERN": "switch.node",
         "SLURM_DISTRIBUTION": "block"},
        {"rank": 4, "world_size": 6, "local_rank": 0, "local_world_size": 2,
         "node_rank": 1, "num_nodes": 2, "master_addr": "gpu07", "master_port": 25811},
        "slurm",
    ),
    # docs.skypilot.co, stable.
    "skypilot": (
        {"SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_NODES": "2",
         "SKYPILOT_NUM_GPUS_PER_NODE": "8", "SKYPILOT_NODE_IPS": "10.1.0.1\n10.1.0.2"},
        {"node_rank": 1, "num_nodes": 2, "master_addr": "10.1.0.1"}, None,
    ),
    "torchrun on skypilot, where c10d has sorted the nodes": (
        {**TORCHRUN, "SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "2",
         "SKYPILOT_NODE_IPS": "10.1.0.1\n10.1.0.2"},
        {"rank": 5, "world_size": 8, "local_rank": 1, "local_world_size": 4,
         "node_rank": 1, "num_nodes": 2, "master_addr": "gpu07", "master_port": 29400},
        "torchrun",
    ),
    # dstack's runner, 2026.
    "dstack": (
        {"DSTACK_NODE_RANK": "0", "DSTACK_NODES_NUM": "2", "DSTACK_GPUS_PER_NODE": "8",
         "DSTACK_NODES_IPS": "10.2.0.1\n10.2.0.2", "DSTACK_MASTER_NODE_IP": "10.2.0.1"},
        {"node_rank": 0, "num_nodes": 2, "master_addr": "10.2.0.1"}, None,
    ),
    # kubernetes-sigs/lws v1.
    "leaderworkerset": (
        {"LWS_LEADER_ADDRESS": "s-0.s.ns", "LWS_GROUP_SIZE": "4",
         "LWS_WORKER_INDEX": "2"},
        {"node_rank": 2, "num_nodes": 4, "master_addr": "s-0.s.ns"}, None,
    ),
    # ModelArts, 2026-08.
    "modelarts": (
        {"VC_TASK_INDEX": "1", "VC_WORKER_NUM": "2", "MA_NUM_HOSTS": "2",
         "MA_NUM_GPUS": "8", "VC_WORKER_HOSTS": "a.svc,b.svc"},
        {"node_rank": 1, "num_nodes": 2, "master_addr": "a.svc"}, None,
    ),
    # Volcengine MLP, 2026.
    "volcengine mlp": (
        variables(
            "MLP_ROLE=worker MLP_ROLE_INDEX=1 MLP_WORKER_NUM=2 MLP_WORKER_GPU=8 "
            "MLP_WORKER_0_HOST=10.3.0.1 MLP_WORKER_0_PORT=2222"
        ),
        {"node_rank": 1, "num_nodes": 2, "master_addr": "10.3.0.1",
         "master_port": 2222}, None,
    ),
    # sagemaker-training-toolkit.
    "sagemaker": (
        {"SM_HOSTS": '["algo-1","algo-2"]', "SM_CURRENT_HOST": "algo-2",
         "SM_NUM_GPUS": "8"},
        {"node_rank": 1, "num_nodes": 2, "master_addr": "algo-1"}, None,
    ),
    "sagemaker with a broken list": (
        {"SM_HOSTS": "[algo-1", "SM_CURRENT_HOST": "algo-2"}, {}, None,
    ),
    # HTCondor 25, parallel universe.
    "htcondor": (
        variables("_CONDOR_PROCNO=1 _CONDOR_NPROCS=4 _CONDOR_SLOT=slot1_1"),
        {"node_rank": 1, "num_nodes": 4}, None,
    ),
    "mpirun in htcondor": (
        variables("_CONDOR_PROCNO=0 _CONDOR_NPROCS=2 OMPI_COMM_WORLD_RANK=3 "
                  "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 "
                  "OMPI_COMM_WORLD_LOCAL_SIZE=2"),
        {"rank": 3, "world_size": 4, "local_rank": 1, "local_world_size": 2,
         "node_rank": 0, "num_nodes": 2},
        "open mpi",
    ),
    # dmlc/ps-lite, and XGBoost on Kubeflow's trainer.
    "ps-lite": (
        variables("DMLC_ROLE=worker DMLC_NUM_WORKER=4 DMLC_NUM_SERVER=2 "
                  "DMLC_PS_ROOT_URI=10.0.0.1 DMLC_PS_ROOT_PORT=9000"), {}, None,
    ),
    # lightning.ai: WORLD_SIZE counts devices.
    "lightning ai": (
        {"MASTER_ADDR": "10.4.0.1", "MASTER_PORT": "29500", "WORLD_SIZE": "16",
         "NODE_RANK": "1", "NUM_NODES": "2"},
        {"node_rank": 1, "num_nodes": 2, "master_addr": "10.4.0.1",
         "master_port": 29500}, None,
    ),
    # kubeflow/trainer v2, runtime jax.
    "jax of trainer": (
        {"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "4",
         "JAX_COORDINATOR_ADDRESS": "j-node-0-0.j:12345"},
        {"rank": 1, "world_size": 4, "master_addr": "j-node-0-0.j",
         "master_port": 12345}, "jax",
    ),
    # salloc of Slurm 22.05 where LaunchParameters has use_interactive_step.
    "slurm interactive step": (
        {**SLURM, "SLURM_STEP_ID": "4294967290", "SLURM_PROCID": "0",
         "SLURM_STEP_NUM_TASKS": "1"},
        {}, None,
    ),
    # mpirun in salloc -N2: rank and size happen to be those of the daemon's task.
    "mpirun with as many processes as daemons": (
        {**OPEN_MPI, **variables(
                "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "
                "OMPI_COMM_WORLD_LOCAL_RANK=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 "
                "SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_NODEID=0 SLURM_LOCALID=0 "
                "SLURM_GTIDS=0"
            )},
        {"rank": 0, "world_size": 2, "local_rank": 0, "local_world_size": 2},
        "open mpi",
    ),
    "torchrun": (
        TORCHRUN,
        {"rank": 5, "world_size": 8, "local_rank": 1, "local_world_size": 4,
         "node_rank": 1, "num_nodes": 2, "master_addr": "gpu07", "master_port": 29400},
        "torchrun",
    ),
    "torchrun in srun": (
        {**AGENTS, **TORCHRUN},
        {"rank": 5, "world_size": 8, "local_rank": 1, "local_world_size": 4,
         "node_rank": 1, "num_nodes": 2, "master_addr": "gpu07", "master_port": 29400},
        "torchrun",
    ),
    "open mpi 4": (OPEN_MPI, _RANK_OF_FOUR, "open mpi"),
    # mpirun of Open MPI 5.0: no ORTE address any more, PRRTE's marker instead.
    "open mpi 5": (
        {**OPEN_MPI, "PRTE_LAUNCHED": "1", "PMIX_NAMESPACE": "prterun-n1-77@1"},
        _RANK_OF_FOUR, "open mpi",
    ),
    "mpirun in an allocation": (
        {**AGENTS, **OPEN_MPI},
        _RANK_OF_FOUR, "open mpi",
    ),
    # mpiexec.hydra of MPICH 4.0.
    "mpich": (
        {"PMI_RANK": "3", "PMI_SIZE": "4", "PMI_FD": "7", "MPI_LOCALRANKID": "1",
         "MPI_LOCALNRANKS": "2"},
        _RANK_OF_FOUR, "mpich or intel mpi",
    ),
    # MPICH with -pmi-port: neither rank nor size.
    "mpich by port": ({"PMI_PORT": "n1:4000", "PMI_ID": "3"}, {}, None),
    # mpiexec of Intel MPI 2021.
    "intel mpi": (
        {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1",
         "MPI_LOCALNRANKS": "2", "I_MPI_HYDRA_BOOTSTRAP": "ssh"},
        _RANK_OF_FOUR, "mpich or intel mpi",
    ),
    # mpirun_rsh of MVAPICH2 2.3.
    # PALS on a Cray EX, as radical.pilot 1.20 describes it.
    "pals": (
        variables(
            "PALS_RANKID=3 PALS_NODEID=1 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=2 "
            "PMI_RANK=3 PMI_SIZE=4 PMI_LOCAL_RANK=1"
        ),
        {**_RANK_OF_FOUR, "node_rank": 1}, "pals",
    ),
    # jsrun of LSF 10.1.
    # LSF 10.1, OpenPBS 20.0 and Grid Engine 8.1: a job without an MPI.
    "lsf job": ({"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "h1 4 h2 4"}, {}, None),
    "pbs job": ({"PBS_JOBID": "1.pbs", "PBS_NODEFILE": "/var/spool/x"}, {}, None),
    "sge job": ({"JOB_ID": "1", "PE_HOSTFILE": "/var/spool/x"}, {}, None),
    # flux run of flux-core 0.66.
    "flux": (
        {"FLUX_TASK_RANK": "3", "FLUX_TASK_LOCAL_ID": "1", "FLUX_JOB_SIZE": "4",
         "FLUX_JOB_NNODES": "2", "PMI_RANK": "3", "PMI_SIZE": "4", "PMI_FD": "17"},
        {"rank": 3, "world_size": 4, "local_rank": 1, "num_nodes": 2}, "flux",
    ),
    # deepspeed 0.16.
    "deepspeed": (
        variables(
            "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_SIZE=2 CROSS_RANK=1 CROSS_SIZE=2 "
            "MASTER_ADDR=n1 MASTER_PORT=29500 CUDA_VISIBLE_DEVICES=0,1"
        ),
        {**_RANK_OF_FOUR, "node_rank": 1, "num_nodes": 2, "master_addr": "n1",
         "master_port": 29500},
        "deepspeed",
    ),
    # accelerate launch 1.2: torchrun's variables and its own.
    "accelerate": (
        {**TORCHRUN, "ACCELERATE_MIXED_PRECISION": "no", "ACCELERATE_USE_CPU": "true"},
        {"rank": 5, "world_size": 8, "local_rank": 1, "local_world_size": 4,
         "node_rank": 1, "num_nodes": 2, "master_addr": "gpu07", "master_port": 29400},
        "torchrun",
    ),
    # Ray Train 2.40, within the user's function.
    "ray train": (
        variables(
            "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 NODE_RANK=1 "
            "MASTER_ADDR=10.0.0.1 MASTER_PORT=40001 RAY_JOB_ID=01000000"
        ),
        {**_RANK_OF_FOUR, "node_rank": 1, "master_addr": "10.0.0.1",
         "master_port": 40001},
        "ray train",
    ),
    # mp.spawn sets nothing; tutorials export where to meet.
    "mp.spawn": (
        {"MASTER_ADDR": "localhost", "MASTER_PORT": "12355"},
        {"master_addr": "localhost", "master_port": 12355}, None,
    ),
    "by hand": (
        {"RANK": "1", "WORLD_SIZE": "2"}, {"rank": 1, "world_size": 2}, "environment",
    ),
    # Indexed Job of Kubernetes 1.31.
    "kubernetes indexed job": ({"JOB_COMPLETION_INDEX": "2"}, {"node_rank": 2}, None),
    # TrainJob of Kubeflow Trainer 2.0, in the pod and outside torchrun.
    "trainjob": (
        variables(
            "PET_NNODES=2 PET_NPROC_PER_NODE=auto PET_NODE_RANK=1 "
            "PET_MASTER_ADDR=job-node-0-0.job PET_MASTER_PORT=29500 "
            "JOB_COMPLETION_INDEX=1"
        ),
        {"node_rank": 1, "num_nodes": 2, "master_addr": "job-node-0-0.job",
         "master_port": 29500},
        None,
    ),
    "trainjob, elastic": (
        {"PET_NNODES": "2:4", "PET_NPROC_PER_NODE": "gpu", "PET_NODE_RANK": "1"},
        {"node_rank": 1}, None,
    ),
    "torchrun in a trainjob": (
        {**TORCHRUN, **variables(
                "PET_NNODES=2 PET_NODE_RANK=0 PET_NPROC_PER_NODE=4 "
                "PET_MASTER_ADDR=pod-0 JOB_COMPLETION_INDEX=0"
            )},
        {"rank": 5, "world_size": 8, "local_rank": 1, "local_world_size": 4,
         "node_rank": 1, "num_nodes": 2, "master_addr": "gpu07", "master_port": 29400},
        "torchrun",
    ),
    # PyTorchJob of training-operator 1.8: RANK counts pods, WORLD_SIZE processes.
    "pytorchjob": (
        {"RANK": "1", "WORLD_SIZE": "16", "PET_NPROC_PER_NODE": "8", "PET_NNODES": "2",
         "PET_NODE_RANK": "1", "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456"},
        {"node_rank": 1, "num_nodes": 2, "local_world_size": 8,
         "master_addr": "job-master-0", "master_port": 23456},
        None,
    ),
    # PyTorchJob before training-operator 1.7: another name that torchrun does not read.
    "pytorchjob, older": (
        {"RANK": "1", "WORLD_SIZE": "2", "PET_N_PROC_PER_NODE": "8",
         "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456"},
        {"node_rank": 1, "master_addr": "job-master-0", "master_port": 23456}, None,
    ),
    # Volcano 1.10 with its pytorch plugin.
    "volcano": (
        {"VC_TASK_INDEX": "0", "VK_TASK_INDEX": "0", "RANK": "1", "WORLD_SIZE": "2",
         "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456"},
        {"rank": 1, "world_size": 2, "node_rank": 1, "num_nodes": 2,
         "master_addr": "job-master-0", "master_port": 23456},
        "volcano",
    ),
    # Alibaba PAI DLC; its page names no version.
    "pai": (
        {"RANK": "1", "WORLD_SIZE": "2", "NPROC_PER_NODE": "8", "MASTER_ADDR": "dlc-0",
         "MASTER_PORT": "23456"},
        {"node_rank": 1, "num_nodes": 2, "local_world_size": 8,
         "master_addr": "dlc-0", "master_port": 23456},
        None,
    ),
    # MPIJob 2: the launcher pod has nothing; workers are started by Open MPI.
    "mpijob launcher": ({"OMPI_MCA_orte_default_hostfile": "/etc/mpi/hosts"}, {}, None),
    # sagemaker-training 4.8.
    # Azure ML, PyTorch kind: torch's names by its own launcher.
    "azure ml, pytorch": (
        {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "NODE_RANK": "1",
         "MASTER_ADDR": "10.0.0.4", "MASTER_PORT": "6105"},
        {"rank": 3, "world_size": 4, "local_rank": 1, "node_rank": 1,
         "master_addr": "10.0.0.4", "master_port": 6105},
        "environment",
    ),
    # Azure ML, MPI kind on two nodes; a service without versions.
    # GKE 1.30, two slices of two hosts.
    # GKE: a JobSet of two slices, each an Indexed Job with indices of its own.
    # GKE, one slice whose processes have addresses with ports.
    # CANN 8: the size of the job is in the table.
    "ascend": (
        {"RANK_ID": "3", "DEVICE_ID": "3", "RANK_TABLE_FILE": "/t.json"},
        {"rank": 3, "device_id": 3, "rank_table_file": "/t.json"}, "ascend",
    ),
    "ascend with size": (
        {"RANK_ID": "3", "RANK_SIZE": "8", "ASCEND_DEVICE_ID": "3"},
        {"rank": 3, "world_size": 8, "device_id": 3}, "ascend",
    ),
    # msrun of MindSpore 2.4.
    "msrun worker": (
        {"MS_ROLE": "MS_WORKER", "MS_NODE_ID": "3", "MS_WORKER_NUM": "8",
         "MS_SCHED_HOST": "n1", "MS_SCHED_PORT": "8118"},
        {"rank": 3, "world_size": 8, "master_addr": "n1"}, "msrun",
    ),
    "msrun, ranks at run time": (
        {"MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "8"}, {"world_size": 8}, None,
    ),
    # paddle.distributed.launch of Paddle 3.0.
    # The same with --ips: the list of all processes in place of a master.
    # CANN 8 with torchrun around it: the chip of the process, which the table has too.
    "ascend device beside a table": (
        {**TORCHRUN, "ASCEND_DEVICE_ID": "1", "RANK_TABLE_FILE": "/t.json"},
        {"rank": 5, "world_size": 8, "local_rank": 1, "local_world_size": 4,
         "node_rank": 1, "num_nodes": 2, "master_addr": "gpu07", "master_port": 29400,
         "device_id": 1, "rank_table_file": "/t.json"},
        "torchrun",
    ),
    "a DEVICE_ID of something else beside SOPHGO's table": (
        {"RANK": "1", "WORLD_SIZE": "2", "DEVICE_ID": "GPU-4711",
         "RANK_TABLE_FILE": "/t.json"},
        {"rank": 1, "world_size": 2, "rank_table_file": "/t.json"}, "environment",
    ),
    "a DEVICE_ID of something else": (
        {"RANK": "1", "WORLD_SIZE": "2", "DEVICE_ID": "sensor-7"},
        {"rank": 1, "world_size": 2}, "environment",
    ),
    # SOPHGO's torch_tpu 2.8.0.post1: the map and the table; ranks come from torchrun.
    "sophgo": (
        {"CHIP_MAP": "0,2,6,7"}, {"local_chip_map": (0, 2, 6, 7)}, None,
    ),
    # srun --mpi=pmi2 of Slurm 22.05 starts a script that starts mpirun -n 4.
    "mpirun in srun with PMI-2": (
        {**AGENTS, **OPEN_MPI, "PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "9"},
        _RANK_OF_FOUR, "open mpi",
    ),
    # salloc -N2, srun -w n2 -n1 : -w n1 -n2 of Slurm 22.05, seen from the second node.
    "slurm, components of one job in another order": (
        variables(
            "SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=2 SLURM_NODEID=1 "
            "SLURM_GTIDS=1,2 SLURM_JOB_NODELIST=n[1-2] SLURM_JOB_NUM_NODES=2 "
            "SLURM_STEP_NODELIST=n[1-2] SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=3 "
            "SLURM_STEP_TASKS_PER_NODE=2,1 SLURMD_NODENAME=n1"
        ),
        {"rank": 2, "world_size": 3, "local_world_size": 2, "node_rank": 1,
         "num_nodes": 2, "master_port": 20101, "host": "n1"},
        "slurm",
    ),
    # TrainJob: nothing but the index, torchrun's other options are in its command.
    "trainjob, index alone": ({"PET_NODE_RANK": "1"}, {"node_rank": 1}, None),
    # srun -w n2 -n1 : -w n1 -n2, seen from the second node: rank 0 is not on n1.
    "slurm, first host seen to be another": (
        variables(
            "SLURM_JOB_ID=12 SLURM_HET_SIZE=2 SLURM_PROCID=2 SLURM_LOCALID=1 "
            "SLURM_NODEID=1 SLURM_GTIDS=1,2 SLURM_STEP_NUM_TASKS=3 "
            "SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=n[1-2] SLURMD_NODENAME=n1"
        ),
        {"rank": 2, "world_size": 3, "local_rank": 1, "local_world_size": 2,
         "node_rank": 1, "num_nodes": 2, "master_port": 21212, "host": "n1"},
        "slurm",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_launcher_says_what_it_knows_and_nothing_else(name: str) -> None:
    env, expected, launcher = CASES[name]
    found = resolve_environment(env)
    known = {
        field: getattr(found, field)
        for field in found.__slots__
        if field not in ("launcher", "sources") and getattr(found, field) is not None
    }

    assert (known, found.launcher) == (expected, launcher)
    assert set(found.sources) == set(expected)
    assert all(env[variable] for variable in found.sources.values())


OUTSIDE = (
    *("socket.socket", "socket.getaddrinfo", "socket.gethostname"),
    *("subprocess.Popen", "os.system", "os.fork", "os.getenv", "os.stat", "os.open"),
    *("io.open", "builtins.open"),
)


@pytest.mark.parametrize("name", CASES)
def test_resolver_looks_at_nothing_but_the_variables(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outside(*_: object, **__: object) -> None:
        raise AssertionError(name)

    variables = MappingProxyType(CASES[name][0])
    with monkeypatch.context() as patched:
        for place in OUTSIDE:
            patched.setattr(place, outside)
        found = resolve_environment(variables)

    assert found == resolve_environment(variables)


CONFLICTS = {
    "stale RANK and WORLD_SIZE under srun": (
        {**SLURM, "RANK": "0", "WORLD_SIZE": "1"},
        {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "RANK", "WORLD_SIZE"},
    ),
    "all of torch's names stale under srun": (
        {**SLURM, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0",
         "LOCAL_WORLD_SIZE": "1", "NODE_RANK": "0"},
        {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE",
         "SLURM_NODEID", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK"},
    ),
    "NPROC_PER_NODE makes no pod of a process": (
        {**OPEN_MPI, "RANK": "0", "WORLD_SIZE": "4", "NPROC_PER_NODE": "2"},
        {"OMPI_COMM_WORLD_RANK", "RANK"},
    ),
    # sbatch -N1 from within a step of two nodes; Slurm 22.05.
    "batch script that inherited a step": (
        variables(
            "SLURM_JOB_ID=12 SLURM_JOB_NODELIST=n1 SLURM_JOB_NUM_NODES=1 "
            "SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_GTIDS=0 "
            "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=2 "
            "SLURM_STEP_NODELIST=n[1-2] SLURM_STEP_TASKS_PER_NODE=1(x2)"
        ),
        {"SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES"},
    ),
    "batch script on other hosts than the step": (
        {**SLURM, "SLURM_JOB_NODELIST": "gpu[08-09]"},
        {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"},
    ),
    "rank that is not among the node's tasks": (
        {**SLURM, "SLURM_GTIDS": "0,1"}, {"SLURM_PROCID", "SLURM_GTIDS"},
    ),
    "stale RANK alone under srun": ({**SLURM, "RANK": "0"}, {"SLURM_PROCID", "RANK"}),
    "stale WORLD_SIZE under mpirun": (
        {**OPEN_MPI, "WORLD_SIZE": "1"},
        {"OMPI_COMM_WORLD_SIZE", "WORLD_SIZE"},
    ),
    "two kinds of MPI": (
        {**OPEN_MPI, "PMI_RANK": "0", "PMI_SIZE": "4"},
        {"OMPI_COMM_WORLD_RANK", "PMI_RANK"},
    ),
    "stale RANK_ID beside torchrun": (
        {**TORCHRUN, "RANK_ID": "0"},
        {"RANK", "RANK_ID"},
    ),
    "local rank of another launcher": (
        {**OPEN_MPI, "LOCAL_RANK": "0"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK"},
    ),
    "node beyond the counts of tasks": (
        {**SLURM, "SLURM_NODEID": "2", "SLURM_STEP_NUM_NODES": "3"},
        {"SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE"},
    ),
    "another MPI within PALS": (
        {"PALS_RANKID": "3", "PALS_LOCAL_RANKID": "1", "PMI_RANK": "0",
         "PMI_SIZE": "4"},
        {"PALS_RANKID", "PMI_RANK"},
    ),
    "list of hosts that is not of so many nodes": (
        {**SLURM, "SLURM_STEP_NODELIST": "gpu[06-08]"},
        {"SLURM_STEP_NUM_NODES", "SLURM_STEP_NODELIST"},
    ),
    "addresses of dstack that are not of so many nodes": (
        {"DSTACK_NODE_RANK": "0", "DSTACK_NODES_NUM": "2",
         "DSTACK_NODES_IPS": "10.2.0.1", "DSTACK_MASTER_NODE_IP": "10.2.0.1"},
        {"DSTACK_NODES_NUM", "DSTACK_NODES_IPS"},
    ),
    "addresses of SkyPilot that are not of so many nodes": (
        {"SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "2",
         "SKYPILOT_NODE_IPS": "10.2.0.1"},
        {"SKYPILOT_NUM_NODES", "SKYPILOT_NODE_IPS"},
    ),
    "what is shadowed is not part of a dispute": (
        {**SLURM, **TORCHRUN, "RANK_ID": "0"}, {"RANK", "RANK_ID"},
    ),
    "chip that is not at the local rank of CHIP_MAP": (
        {"RANK_ID": "1", "RANK_SIZE": "2", "DEVICE_ID": "6", "LOCAL_RANK": "1",
         "CHIP_MAP": "0,2"},
        {"DEVICE_ID", "LOCAL_RANK", "CHIP_MAP"},
    ),
    "local rank beyond CHIP_MAP": (
        {**TORCHRUN, "CHIP_MAP": "3"}, {"LOCAL_RANK", "CHIP_MAP"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFLICTS)
def test_contradiction_names_every_variable_with_its_value(name: str) -> None:
    env, variables = CONFLICTS[name]
    with pytest.raises(ConflictingVariablesError) as raised:
        resolve_environment(env)

    assert set(raised.value.variables) == variables
    for variable in variables:
        assert f"{variable}={env[variable]}" in str(raised.value)


INVALID = {
    "SLURM_PROCID": {**SLURM, "SLURM_PROCID": "4 "},
    "SLURM_STEP_NODELIST": {**SLURM, "SLURM_STEP_NODELIST": "gpu[07-"},
    "SLURM_STEP_TASKS_PER_NODE": {**SLURM, "SLURM_STEP_TASKS_PER_NODE": "4(x)"},
    "OMPI_COMM_WORLD_SIZE": {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "four"},
    "SLURM_JOB_ID": {**SLURM, "SLURM_JOB_ID": "x"},
    "PET_NNODES": {"PET_NNODES": "2:", "PET_NODE_RANK": "0"},
    "PET_NPROC_PER_NODE": {"PET_NPROC_PER_NODE": "8x"},
    "CHIP_MAP": {"CHIP_MAP": "0,,1"},
    "MASTER_ADDR": {**TORCHRUN, "MASTER_ADDR": "n1:29500"},
    "MS_SCHED_HOST": variables(
        "MS_ROLE=MS_WORKER MS_NODE_ID=0 MS_WORKER_NUM=2 MS_SCHED_HOST=tcp://n1"
    ),
}


_FLUX = CASES["flux"][0]
ALSO_INVALID = [
    ("SLURM_STEP_ID", {**SLURM, "SLURM_STEP_ID": "+1"}),
    ("SLURM_GTIDS", {**SLURM, "SLURM_GTIDS": "4,x"}),
    ("SLURM_STEP_TASKS_PER_NODE",
     {**SLURM, "SLURM_GTIDS": "4,5", "SLURM_STEP_TASKS_PER_NODE": "8(x2"}),
    ("SLURM_STEP_NODELIST", {**SLURM, "SLURM_STEP_NODELIST": ","}),
    ("SLURM_JOB_NODELIST", {**SLURM, "SLURM_JOB_NODELIST": "gpu[01-"}),
    ("SLURM_JOB_NUM_NODES", {**SLURM, "SLURM_JOB_NUM_NODES": "all"}),
    # Flux and its PMI speak of one process; torchrun and the srun around it do not.
    ("FLUX_TASK_RANK", {**_FLUX, "FLUX_TASK_RANK": "x"}),
    # mpirun gives no place to meet, so that of the platform is needed.
    ("PET_NNODES", {"PET_NNODES": "4:2", "PET_NODE_RANK": "0"}),
    ("PET_NNODES", {"PET_NNODES": "0:2", "PET_NODE_RANK": "0"}),
    ("MASTER_ADDR", {**TORCHRUN, "MASTER_ADDR": "--version"}),
    ("MASTER_ADDR", {**TORCHRUN, "MASTER_ADDR": "n" * 256}),
]  # fmt: skip


@pytest.mark.parametrize(("variable", "env"), [*INVALID.items(), *ALSO_INVALID])
def test_malformed_value_names_its_variable(variable: str, env: dict[str, str]) -> None:
    with pytest.raises(InvalidVariableError) as raised:
        resolve_environment(env)

    assert list(raised.value.variables) == [variable]
    said = str(raised.value)
    assert re.match(rf"RT302 {variable}(, item [0-9]+,)? is ", said), said


@pytest.mark.parametrize(
    "env",
    [
        {"OMPI_COMM_WORLD_RANK": "1"},
        {"PMI_RANK": "3"},
        {"FLUX_TASK_RANK": "3"},
        {"PADDLE_TRAINER_ID": "3"},
        {"RANK_SIZE": "8"},
        {"MS_ROLE": "MS_WORKER", "MS_NODE_ID": "3"},
    ],
)
def test_rank_without_size_is_never_rank_of_one(env: dict[str, str]) -> None:
    with pytest.raises(MissingVariableError, match=r"is not set; set or unset both"):
        resolve_environment(env)


@pytest.mark.parametrize(
    ("env", "word"),
    [
        (CASES["slurm batch script"][0], "srun"),
        (CASES["slurm adopted ssh"][0], "srun"),
        (CASES["mpich by port"][0], "without -pmi-port"),
        (CASES["pbs job"][0], "PBS_NODEFILE"),
        (CASES["sge job"][0], "PE_HOSTFILE"),
        (CASES["kubernetes indexed job"][0], "every pod"),
    ],
)
def test_job_without_ranks_says_how_to_get_them(env: dict[str, str], word: str) -> None:
    assert resolve_environment(env).rank is None
    assert word in (advice(env) or "")


@pytest.mark.parametrize("value", ["\x1b[31m", "1\n", "9" * 9999, "\udcff", "\0"])
@pytest.mark.parametrize(
    ("env", "variable"),
    [
        (TORCHRUN, "RANK"),
        (SLURM, "SLURM_STEP_NODELIST"),
        (CASES["sophgo"][0], "CHIP_MAP"),
    ],
)
def test_message_is_one_short_line(
    env: dict[str, str], variable: str, value: str
) -> None:
    with pytest.raises(LaunchEnvironmentError) as raised:
        resolve_environment({**env, variable: value})

    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 500
    assert raised.value.variables[variable] == value


def test_invalid_claim_leaves_the_others_to_be_shown() -> None:
    resolved = resolve_claims({**TORCHRUN, "WORLD_SIZE": "8x"})
    outcomes = {(claim.variable, claim.value): outcome for claim, outcome in resolved}

    assert outcomes["RANK", 5] is Outcome.WON
    assert outcomes["WORLD_SIZE", None] is Outcome.INVALID


def test_jobs_side_by_side_have_ports_of_their_own() -> None:
    ports = {
        resolve_environment(
            {**SLURM, "SLURM_JOB_ID": str(job), "SLURM_STEP_ID": str(step)}
        ).master_port
        for job in range(4711, 4731)
        for step in range(20)
    }

    assert len(ports) == 400


def test_wrong_item_of_a_list_is_named_and_the_list_kept() -> None:
    with pytest.raises(InvalidVariableError) as raised:
        resolve_environment({**SLURM, "SLURM_GTIDS": "4,,5"})

    assert raised.value.message.startswith("SLURM_GTIDS, item 2, is '', not a plain")
    assert raised.value.variables == {"SLURM_GTIDS": "4,,5"}


def test_job_of_a_federation_has_a_port() -> None:
    env = {**SLURM, "SLURM_JOB_ID": "4227858433"}  # of the last cluster that can be

    port = resolve_environment(env).master_port
    assert port is not None
    assert 20_000 <= port < 30_000


def test_local_rank_shows_that_rank_is_the_process() -> None:
    env = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "3", "NPROC_PER_NODE": "4"}
    found = resolve_environment(env)

    assert (found.rank, found.node_rank, found.launcher) == (3, None, "environment")


def test_what_an_outer_launcher_cannot_mean_is_shadowed() -> None:
    found = resolve_environment({**SLURM, **TORCHRUN, "SLURM_JOB_NODELIST": "other"})

    assert (found.rank, found.launcher) == (5, "torchrun")


def test_step_that_a_script_inherited_is_shadowed_by_its_mpirun() -> None:
    # mpirun -n 2 has as many processes as the step had from which sbatch was called.
    inherited, _ = CONFLICTS["batch script that inherited a step"]
    ranks = {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2",
             "OMPI_COMM_WORLD_LOCAL_RANK": "0"}  # fmt: skip
    found = resolve_environment({**inherited, **ranks})

    assert (found.rank, found.world_size, found.launcher) == (0, 2, "open mpi")


def test_shadowed_claims_are_shown_as_such() -> None:
    env = {**AGENTS, **TORCHRUN}
    outcomes = {
        (claim.field, claim.launcher): outcome for claim, outcome in resolve_claims(env)
    }

    assert outcomes["rank", "torchrun"] is Outcome.WON
    assert outcomes["rank", "slurm"] is Outcome.SHADOWED
    assert outcomes["master_addr", "slurm"] is Outcome.SHADOWED


@pytest.mark.parametrize(
    ("text", "runs"),
    [("8", [(8, 1)]), ("8(x2),4", [(8, 2), (4, 1)]), ("1(x128)", [(1, 128)])],
)
def test_counts_per_node_are_read(text: str, runs: list[tuple[int, int]]) -> None:
    assert tasks_per_node(text) == runs


@pytest.mark.parametrize(
    "text", ["", "8,", "8(2)", "8(x)", "x2", "8 (x2)", "-1", "٨", "08", "8(x0)"]
)
def test_malformed_counts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        tasks_per_node(text)


@pytest.mark.parametrize(
    ("env", "stranger"),
    [
        ({"SM_HOSTS": '["algo-1","algo-2"]'}, ("SM_CURRENT_HOST", "algo-3", "algo-2")),
        (
            {"DSTACK_NODE_RANK": "1", "DSTACK_NODES_NUM": "2"}
            | {"DSTACK_NODES_IPS": "10.9.0.1\n10.9.0.2"},
            ("DSTACK_MASTER_NODE_IP", "10.9.0.7", "10.9.0.1"),
        ),
    ],
)
def test_host_that_is_not_in_the_list_of_the_platform_is_a_conflict(
    env: dict[str, str], stranger: tuple[str, str, str]
) -> None:
    variable, wrong, right = stranger

    with pytest.raises(ConflictingVariablesError, match="which is not in"):
        resolve_environment({**env, variable: wrong})
    assert resolve_environment({**env, variable: right}).num_nodes == 2
