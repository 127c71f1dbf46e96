"""The launchers, one file each; only files of present launchers are imported."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.runtime.launchers.launcher import Launcher

_MODULES: dict[str, tuple[str, ...]] = {
    "torchrun": ("TORCHELASTIC_RUN_ID",),
    "deepspeed": ("CROSS_RANK",),
    "ray_train": ("RAY_JOB_ID",),
    "mindspore": ("MS_ROLE",),
    "paddle": ("PADDLE_TRAINER_ID",),
    "open_mpi": ("OMPI_COMM_WORLD_RANK",),
    "mvapich2": ("MV2_COMM_WORLD_RANK",),
    "slurm": ("SLURM_STEP_NUM_TASKS",),
    "flux": ("FLUX_TASK_RANK", "FLUX_URI"),
    "pals": ("PALS_RANKID",),
    "jsrun": ("JSM_NAMESPACE_RANK",),
    "mpich": ("PMI_RANK", "PMI_ID"),
    "prrte": ("PMIX_RANK",),
    "torchrun_arguments": (
        *("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK"),
        *("PET_MASTER_ADDR", "PET_MASTER_PORT"),
    ),
    "pytorch_job": ("PET_NPROC_PER_NODE", "PET_N_PROC_PER_NODE"),
    "volcano": ("VC_TASK_INDEX",),
    "pai": ("NPROC_PER_NODE",),
    "kubernetes": ("JOB_COMPLETION_INDEX",),
    "sagemaker": ("SM_HOSTS",),
    "azure_ml": ("AZ_BATCH_MASTER_NODE", "AZ_BATCHAI_MPI_MASTER_NODE"),
    "cloud_tpu": ("TPU_WORKER_ID",),
    "slurm_job": ("SLURM_JOB_ID",),
    "lsf": ("LSB_JOBID",),
    "pbs": ("PBS_NODEFILE",),
    "sge": ("PE_HOSTFILE",),
    "ascend": ("RANK_ID", "RANK_SIZE", "DEVICE_ID", "ASCEND_DEVICE_ID"),
    "sophgo": ("CHIP_MAP",),
    "by_hand": (
        *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK"),
        *("MASTER_ADDR", "MASTER_PORT"),
    ),
}
"""The files, each with variables of which one is set if its launcher is present.

If two launchers agree, the first one is named: Slurm and Flux also set MPICH's
variables, and Slurm those of PALS.
"""

_OWN_TORCHS_NAMES = (
    *("torchrun", "deepspeed", "ray_train"),
    *("pytorch_job", "volcano", "pai", "by_hand"),
)
"""``RANK`` and similar variables belong to the first of these that is present."""


def launchers_in(env: Mapping[str, str]) -> list[Launcher]:
    """Return the launchers whose variables are set."""
    found: list[Launcher] = []
    is_owned = False
    for module, variables in _MODULES.items():
        owns = module in _OWN_TORCHS_NAMES
        if (owns and is_owned) or not any(env.get(name) for name in variables):
            continue
        here = [launcher for launcher in _load(module) if launcher.is_present(env)]
        is_owned = is_owned or (owns and bool(here))
        found += here
    return found


def all_launchers() -> list[Launcher]:
    """Return all launchers, in the order in which they are named."""
    return [launcher for module in _MODULES for launcher in _load(module)]


def _load(module: str) -> tuple[Launcher, ...]:
    loaded: tuple[Launcher, ...] = import_module(f"{__name__}.{module}").LAUNCHERS
    return loaded
