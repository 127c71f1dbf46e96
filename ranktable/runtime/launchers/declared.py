"""The launchers as data, in the order in which they are named in messages.

If two launchers agree, the first one is named: Slurm and Flux also set MPICH's
variables. A launcher that needs more than reading numbers has a function ``more``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ranktable.runtime.chip_map import VARIABLE as CHIP_MAP
from ranktable.runtime.chip_map import read_chip_map
from ranktable.runtime.errors import ConflictingVariablesError, InvalidVariableError
from ranktable.runtime.launchers.launcher import ClaimLevel, Launcher
from ranktable.runtime.launchers.platforms import JAX_JOB, PLATFORMS
from ranktable.runtime.launchers.slurm import SLURM
from ranktable.runtime.values import is_plain, read_again, read_number, said

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value

    Claims = Iterator[tuple[str, Value, str]]

_MASTER: Final = {"master_addr": "MASTER_ADDR", "master_port": "MASTER_PORT"}
_RANK: Final = {"rank": "RANK", "world_size": "WORLD_SIZE"}
_OF_TORCH: Final = {
    **_RANK,
    "local_rank": "LOCAL_RANK",
    "local_world_size": "LOCAL_WORLD_SIZE",
    **_MASTER,
}


def _of_world(prefix: str) -> dict[str, str]:
    """Return the variables of launchers whose names differ by their beginning only."""
    return {
        "rank": f"{prefix}RANK",
        "world_size": f"{prefix}SIZE",
        "local_rank": f"{prefix}LOCAL_RANK",
        "local_world_size": f"{prefix}LOCAL_SIZE",
    }


_IN_PODS: Final = "start torchrun, or ranktable run, in every pod"

# pytorch/pytorch, torch/distributed/elastic/agent/server/local_elastic_agent.py.
TORCHRUN: Final = Launcher(
    name="torchrun",
    owns_torchs_names=True,
    markers=("TORCHELASTIC_RUN_ID",),
    fields={**_OF_TORCH, "node_rank": "GROUP_RANK", "num_nodes": "GROUP_WORLD_SIZE"},
    advice="TORCHELASTIC_RUN_ID is set and RANK is not, so torchrun's variables were "
    "unset; keep RANK and WORLD_SIZE, or unset TORCHELASTIC_RUN_ID too",
)
# microsoft/DeepSpeed, deepspeed/launcher/launch.py.
DEEPSPEED: Final = Launcher(
    name="deepspeed",
    owns_torchs_names=True,
    markers=("RANK", "CROSS_RANK", "LOCAL_SIZE"),
    fields={
        **_OF_TORCH,
        "local_world_size": "LOCAL_SIZE",
        "node_rank": "CROSS_RANK",
        "num_nodes": "CROSS_SIZE",
    },
)
# ray-project/ray, python/ray/train/torch/config.py and src/ray/raylet/worker_pool.cc.
RAY_TRAIN: Final = Launcher(
    name="ray train",
    owns_torchs_names=True,
    # RAY_JOB_ID is set in every worker of Ray; torch's names alone may be left over.
    markers=("RAY_JOB_ID", "RANK", "NODE_RANK"),
    fields={**_OF_TORCH, "node_rank": "NODE_RANK"},
)
# msrun and Paddle's launcher start workers inside srun or mpirun: without their ranks
# that of the agent would be read. MS_NODE_ID is the global rank; without it msrun gives
# ranks at run time, or this is its scheduler. mindspore-ai/mindspore,
# process_entity/_api.py; PaddlePaddle/Paddle, launch/controllers/collective.py.
MSRUN: Final = Launcher(
    name="msrun",
    markers=("MS_ROLE",),
    fields={
        "rank": "MS_NODE_ID",
        "world_size": "MS_WORKER_NUM",
        "master_addr": "MS_SCHED_HOST",
    },
    may_lack=("rank",),
    advice="MS_NODE_ID is not set: msrun gives ranks at run time; pass --node_rank",
    lacks=("MS_NODE_ID",),
)
PADDLE: Final = Launcher(
    name="paddle",
    markers=("PADDLE_TRAINER_ID",),
    fields={
        "rank": "PADDLE_TRAINER_ID",
        "world_size": "PADDLE_TRAINERS_NUM",
        "local_rank": "PADDLE_LOCAL_RANK",
        "local_world_size": "PADDLE_LOCAL_SIZE",
        "num_nodes": "PADDLE_NNODES",
    },
)
# OMPI_COMM_WORLD_NODE_RANK counts the processes on this host over all jobs, so it is
# not the index of a node. open-mpi/ompi, docs/tuning-apps/environment-var.rst.
OPEN_MPI: Final = Launcher(
    name="open mpi",
    markers=("OMPI_COMM_WORLD_RANK",),
    fields={**_of_world("OMPI_COMM_WORLD_"), "host": "PMIX_HOSTNAME"},
)
# horovodrun without MPI; HOROVOD_CROSS_RANK counts only the hosts that have this local
# rank. horovod/horovod, horovod/runner/gloo_run.py.
HOROVOD: Final = Launcher(
    name="horovod",
    markers=("HOROVOD_RANK", "HOROVOD_SIZE"),
    fields={**_of_world("HOROVOD_"), "host": "HOROVOD_HOSTNAME"},
)
# mpirun_rsh. mvapich.cse.ohio-state.edu, MVAPICH2 user guide.
MVAPICH: Final = Launcher(
    name="mvapich2",
    markers=("MV2_COMM_WORLD_RANK",),
    fields=_of_world("MV2_COMM_WORLD_"),
)
# jsrun of IBM. Lightning-AI/pytorch-lightning, plugins/environments/lsf.py.
JSRUN: Final = Launcher(
    name="jsrun",
    markers=("JSM_NAMESPACE_RANK",),
    fields=_of_world("JSM_NAMESPACE_"),
)
# The first process of a job has none of these variables. flux-framework/flux-core,
# doc/man7/flux-environment.rst.
FLUX: Final = Launcher(
    name="flux",
    markers=("FLUX_TASK_RANK",),
    fields={
        "rank": "FLUX_TASK_RANK",
        "world_size": "FLUX_JOB_SIZE",
        "local_rank": "FLUX_TASK_LOCAL_ID",
        "num_nodes": "FLUX_JOB_NNODES",
    },
)
FLUX_INSTANCE: Final = Launcher(
    name="flux instance",
    level=ClaimLevel.NODE,
    markers=("FLUX_URI",),
    absent=("FLUX_TASK_RANK",),
    advice="start the script with flux run",
)


def _ranks_again(env: Mapping[str, str]) -> Claims:
    """Yield PMI's ranks, which are the same; another MPI inside would change one."""
    pairs = (("rank", "PMI_RANK"), ("local_rank", "PMI_LOCAL_RANK"))
    yield from read_again(env, pairs)


# PALS of Cray systems: under it PMI_RANK may be that of a daemon of mpirun. Only
# PMI_SIZE has the size. radical-cybertools/radical.pilot,
# docs/source/supported/polaris.rst; no page of the vendor was found.
PALS: Final = Launcher(
    name="pals",
    markers=("PALS_RANKID",),
    fields={
        "rank": "PALS_RANKID",
        "world_size": "PMI_SIZE",
        "local_rank": "PALS_LOCAL_RANKID",
        "local_world_size": "PALS_LOCAL_SIZE",
        "node_rank": "PALS_NODEID",
    },
    more=_ranks_again,
)
# MPICH's Hydra and Intel MPI. Flux, PALS, MVAPICH2 and srun --mpi=pmi2 set PMI_RANK and
# PMI_SIZE too, with the values of their own variables. pmodels/mpich,
# src/pm/hydra/proxy/pmip_cb.c.
MPICH: Final = Launcher(
    name="mpich or intel mpi",
    markers=("PMI_RANK",),
    absent=("PALS_RANKID",),
    fields={
        "rank": "PMI_RANK",
        "world_size": "PMI_SIZE",
        "local_rank": "MPI_LOCALRANKID",
        "local_world_size": "MPI_LOCALNRANKS",
    },
)
MPICH_BY_PORT: Final = Launcher(
    name="mpich by port",
    level=ClaimLevel.NODE,
    # PMI_ID is the rank, but only the server at PMI_PORT knows the size.
    markers=("PMI_PORT", "PMI_ID"),
    absent=("PMI_RANK",),
    advice="start the script with mpiexec without -pmi-port",
)
# Only the PMIx server knows the size. Slurm and Flux set PMIX_RANK too, but not
# PRTE_LAUNCHED. openpmix/prrte, prterun(1) and src/mca/schizo/prte.
PRRTE: Final = Launcher(
    name="prterun",
    markers=("PMIX_RANK", "PRTE_LAUNCHED"),
    advice="PMIX_RANK is set, but not the number of processes; start the script with "
    "mpirun of Open MPI, or set RANK=$PMIX_RANK and WORLD_SIZE in the command",
)
# The shell of salloc has it too, and is not a process of a job.
PMIX: Final = replace(
    PRRTE,
    name="pmix",
    markers=("PMIX_RANK",),
    absent=("PRTE_LAUNCHED",),
    not_where=SLURM.not_where,
)
# Other launchers set it too, with their own rank or with that of an agent. Beside PMI
# or a rank set by hand, it tells that one of them is left over.
PMIX_RANK: Final = Launcher(
    name="pmix",
    markers=("PMIX_RANK",),
    any_of=("PMI_RANK", "RANK"),
    absent=(
        *("OMPI_COMM_WORLD_RANK", "PALS_RANKID"),
        *("SLURM_STEP_NUM_TASKS", "FLUX_TASK_RANK"),
    ),
    fields={"rank": "PMIX_RANK"},
    may_lack=("world_size",),
)


_NODES, _PROCESSES = "PET_NNODES", "PET_NPROC_PER_NODE"
_RANGE = re.compile(r"[0-9]{1,9}:[0-9]{1,9}")
_DEVICE_KIND = re.compile(r"[a-z]+")
"""``auto``, ``cpu``, ``gpu``, ``xpu``, or the name of another backend for devices."""


def _sizes_of_torchrun(env: Mapping[str, str]) -> Claims:
    """Yield the sizes; a range, ``2:4``, or a kind of device gives no number."""
    nodes, processes = env.get(_NODES, ""), env.get(_PROCESSES, "")
    if _RANGE.fullmatch(nodes):
        least, most = map(int, nodes.split(":"))
        if not 0 < least <= most:
            raise InvalidVariableError(
                "RT302",
                f"{_NODES} is {nodes!r}, not a range such as 1:4; correct or unset it",
                {_NODES: nodes},
            )
    elif nodes:
        yield "num_nodes", read_number("num_nodes", _NODES, nodes), _NODES
    if processes and not _DEVICE_KIND.fullmatch(processes):
        number = read_number("local_world_size", _PROCESSES, processes)
        yield "local_world_size", number, _PROCESSES


# torchrun's arguments as variables, which JobSet and TrainJob set in every pod.
# pytorch/pytorch, torch/distributed/argparse_util.py; kubeflow/trainer,
# pkg/runtime/framework/plugins/torch/torch.go.
TORCHRUN_ARGUMENTS: Final = Launcher(
    name="torchrun's PET_* variables",
    level=ClaimLevel.NODE,
    any_of=(
        *(_NODES, _PROCESSES, "PET_NODE_RANK"),
        *("PET_MASTER_ADDR", "PET_MASTER_PORT"),
    ),
    fields={
        "node_rank": "PET_NODE_RANK",
        "master_addr": "PET_MASTER_ADDR",
        "master_port": "PET_MASTER_PORT",
    },
    more=_sizes_of_torchrun,
)
NUMBERED_POD: Final = Launcher(
    name=TORCHRUN_ARGUMENTS.name,
    level=ClaimLevel.NODE,
    markers=("PET_NODE_RANK",),
    absent=("RANK",),
    # Not $JOB_COMPLETION_INDEX: every Job of a JobSet has its own.
    advice="RANK and WORLD_SIZE are missing; start torchrun, or ranktable run, in "
    "every pod, or, for one process per pod, export RANK=$PET_NODE_RANK and "
    "WORLD_SIZE, the number of pods",
)


def _refuse_other_size(env: Mapping[str, str]) -> Claims:
    """Yield nothing; raise unless there are as many processes as pods."""
    pods, size = env.get(_NODES, ""), env.get("WORLD_SIZE", "")
    if is_plain(pods) and is_plain(size) and pods != size:
        raise ConflictingVariablesError(
            "RT303",
            f"{said('WORLD_SIZE', size)} is not {said(_NODES, pods)}, with one "
            "process per pod; unset the one that is left over",
            {"WORLD_SIZE": size, _NODES: pods},
        )
    yield from ()


# Kubeflow's PyTorchJob: since kubeflow/trainer#1840 WORLD_SIZE counts processes, but
# RANK is still that of the pod. With one process in each pod they are those of the
# process. kubeflow/training-operator, pkg/controller.v1/pytorch/envvar.go.
PYTORCH_JOB: Final = Launcher(
    name="pytorchjob",
    owns_torchs_names=True,
    level=ClaimLevel.NODE,
    markers=("RANK",),
    # torchrun reads the first; operators before kubeflow/trainer#1840 set the second.
    any_of=(_PROCESSES, "PET_N_PROC_PER_NODE"),
    absent=("LOCAL_RANK",),
    fields={"node_rank": "RANK", **_MASTER},
    advice=_IN_PODS,
)
ONE_PROCESS_OF_PYTORCH_JOB: Final = replace(
    PYTORCH_JOB,
    level=ClaimLevel.PROCESS,
    only_where=((_PROCESSES, "1"), ("PET_N_PROC_PER_NODE", "1")),
    fields=_RANK,
    more=_refuse_other_size,
    advice=None,
)
# Volcano with its pytorch plugin: RANK and WORLD_SIZE count pods, and also hold for the
# process unless something says that a pod has several. VC_TASK_INDEX is the place
# within one group of tasks. volcano-sh/volcano, the job controller's pytorch plugin.
VOLCANO: Final = Launcher(
    name="volcano",
    owns_torchs_names=True,
    level=ClaimLevel.NODE,
    markers=("RANK", "VC_TASK_INDEX"),
    absent=("LOCAL_RANK",),
    fields={"node_rank": "RANK", "num_nodes": "WORLD_SIZE", **_MASTER},
    advice=_IN_PODS,
)
_ONE_PROCESS: Final = (("NPROC_PER_NODE", "1"),)
ONE_PROCESS_OF_VOLCANO: Final = replace(
    VOLCANO,
    level=ClaimLevel.PROCESS,
    only_where=_ONE_PROCESS,
    fields=_RANK,
    advice=None,
)
# Alibaba's PAI DLC: RANK and WORLD_SIZE count nodes; read as those of the process they
# would give several processes one rank. Alibaba PAI, "General environment variables".
PAI: Final = Launcher(
    name="pai dlc",
    owns_torchs_names=True,
    level=ClaimLevel.NODE,
    markers=("RANK", "NPROC_PER_NODE"),
    # Users may export NPROC_PER_NODE; with one of these, RANK is that of the node.
    absent=(
        *("LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PALS_RANKID", "PMI_RANK"),
        *("SLURM_STEP_NUM_TASKS", "FLUX_TASK_RANK"),
    ),
    fields={
        "node_rank": "RANK",
        "num_nodes": "WORLD_SIZE",
        "local_world_size": "NPROC_PER_NODE",
        **_MASTER,
    },
    advice="start torchrun, or ranktable run, on every node",
)
ONE_PROCESS_OF_PAI: Final = replace(
    PAI, level=ClaimLevel.PROCESS, only_where=_ONE_PROCESS, fields=_RANK, advice=None
)
# The environment does not have the number of pods, and every Job of a JobSet numbers
# its own. kubernetes.io, "Job with Pod-to-Pod Communication".
INDEXED_JOB: Final = Launcher(
    name="kubernetes indexed job",
    level=ClaimLevel.NODE,
    markers=("JOB_COMPLETION_INDEX",),
    fields={"node_rank": "JOB_COMPLETION_INDEX"},
    advice="RANK and WORLD_SIZE are missing; start torchrun, or ranktable run, in "
    "every pod, or, for one process per pod, export RANK=$JOB_COMPLETION_INDEX and "
    "WORLD_SIZE, the completions of the Job",
)
# A batch script, the shell of salloc, or an ssh session into a job: it is not a task,
# although the variables have sizes and even a rank; see ``slurm.py``. SchedMD/slurm,
# doc/man/man1/sbatch.1.
SLURM_JOB: Final = Launcher(
    name="slurm job",
    level=ClaimLevel.NODE,
    markers=("SLURM_JOB_ID",),
    advice="start the script with srun",
)
# Schedulers that start one process, and list the hosts in a file; no variable has a
# rank. pmodels/mpich, src/pm/hydra/lib/tools/bootstrap/external/*_query_node_list.c.
LSF: Final = Launcher(
    name="lsf",
    level=ClaimLevel.NODE,
    markers=("LSB_JOBID",),
    advice="start the script with mpirun",
)
PBS: Final = Launcher(
    name="pbs",
    level=ClaimLevel.NODE,
    markers=("PBS_NODEFILE",),
    advice="start mpirun in the job, or ranktable run on each host of PBS_NODEFILE",
)
SGE: Final = Launcher(
    name="grid engine",
    level=ClaimLevel.NODE,
    markers=("PE_HOSTFILE",),
    advice="start mpirun in the job, or ranktable run on each host of PE_HOSTFILE",
)


_DEVICE = ("DEVICE_ID", "ASCEND_DEVICE_ID")
"""The chip on its node, not a local rank; old scripts use the second name."""


def _devices(env: Mapping[str, str]) -> Claims:
    yield from read_again(env, [("device_id", variable) for variable in _DEVICE])


def _plain_devices(env: Mapping[str, str]) -> Claims:
    plain = [variable for variable in _DEVICE if is_plain(env.get(variable, ""))]
    yield from read_again(env, [("device_id", variable) for variable in plain])


# Ascend's scripts with a rank table; often only the table has the size of the job.
# mindspore.cn, "rank table startup".
ASCEND: Final = Launcher(
    name="ascend",
    any_of=("RANK_ID", "RANK_SIZE"),
    fields={"rank": "RANK_ID", "world_size": "RANK_SIZE"},
    more=_devices,
    may_lack=("world_size",),
    advice="neither RANK_SIZE nor RANK_TABLE_FILE, which has the size, is set; set one",
    lacks=("RANK_SIZE", "RANK_TABLE_FILE"),
)
# Without a rank of Ascend, other programs may have set DEVICE_ID, also with a rank
# table, which SOPHGO's libraries read too: other values than numbers are ignored.
ASCEND_DEVICE: Final = Launcher(
    name="ascend",
    markers=("RANK_TABLE_FILE",),
    any_of=_DEVICE,
    absent=("RANK_ID", "RANK_SIZE"),
    more=_plain_devices,
)


def _chips(env: Mapping[str, str]) -> Claims:
    chips = read_chip_map(env)
    if chips is not None:
        yield "local_chip_map", tuple(chips), CHIP_MAP


# The chip of each local rank of this node; rank and size come from a launcher.
# sophgo/torch-tpu, torch_tpu/tpu/utils.py, csrc/core/TPUDeviceManager.cpp.
SOPHGO: Final = Launcher(
    name="sophgo", level=ClaimLevel.NODE, markers=(CHIP_MAP,), more=_chips
)
# RANK and WORLD_SIZE that no known launcher has set: set by hand, by a script of the
# site, by Azure ML, by accelerate, or left over in a shell. They are used if nothing
# else is known, and must agree with other variables.
BY_HAND: Final = Launcher(
    name="environment",
    owns_torchs_names=True,
    any_of=(*_OF_TORCH.values(), "NODE_RANK"),
    fields={**_OF_TORCH, "node_rank": "NODE_RANK"},
)

LAUNCHERS: Final = (
    *(TORCHRUN, DEEPSPEED, RAY_TRAIN, MSRUN, PADDLE, HOROVOD, OPEN_MPI, SLURM, FLUX),
    *(MVAPICH, JSRUN),
    *(FLUX_INSTANCE, PALS, MPICH, MPICH_BY_PORT, PRRTE, PMIX),
    *(TORCHRUN_ARGUMENTS, NUMBERED_POD, PYTORCH_JOB, ONE_PROCESS_OF_PYTORCH_JOB),
    *(VOLCANO, ONE_PROCESS_OF_VOLCANO, PAI, ONE_PROCESS_OF_PAI),
    *(JAX_JOB, *PLATFORMS, INDEXED_JOB),
    *(SLURM_JOB, LSF, PBS, SGE, ASCEND, ASCEND_DEVICE, SOPHGO, BY_HAND, PMIX_RANK),
)


def launchers_in(env: Mapping[str, str]) -> list[Launcher]:
    """Return the launchers whose variables are set.

    ``RANK`` and similar variables belong to the first one that is present of those that
    own torch's names.
    """
    found: list[Launcher] = []
    owner = ""
    for each in LAUNCHERS:
        if each.owns_torchs_names and owner not in ("", each.name):
            continue
        if each.is_present(env):
            found.append(each)
            owner = each.name if each.owns_torchs_names else owner
    return found
