"""The launchers, one file each, the innermost first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.launchers.ascend import ASCEND, ASCEND_DEVICE
from ranktable.runtime.launchers.azure_ml import AZURE_ML, AZURE_ML_ONE_NODE
from ranktable.runtime.launchers.by_hand import BY_HAND
from ranktable.runtime.launchers.cloud_tpu import CLOUD_TPU
from ranktable.runtime.launchers.deepspeed import DEEPSPEED
from ranktable.runtime.launchers.flux import FLUX
from ranktable.runtime.launchers.jsrun import JSRUN
from ranktable.runtime.launchers.kubernetes import INDEXED_JOB
from ranktable.runtime.launchers.lsf import LSF
from ranktable.runtime.launchers.mindspore import MINDSPORE
from ranktable.runtime.launchers.mpich import MPICH, MPICH_BY_PORT
from ranktable.runtime.launchers.mvapich2 import MVAPICH2
from ranktable.runtime.launchers.open_mpi import OPEN_MPI
from ranktable.runtime.launchers.paddle import PADDLE
from ranktable.runtime.launchers.pai import PAI
from ranktable.runtime.launchers.pals import PALS
from ranktable.runtime.launchers.pbs import PBS
from ranktable.runtime.launchers.pytorch_job import PYTORCH_JOB
from ranktable.runtime.launchers.ray_train import RAY_TRAIN
from ranktable.runtime.launchers.sagemaker import SAGEMAKER
from ranktable.runtime.launchers.sge import SGE
from ranktable.runtime.launchers.slurm import SLURM
from ranktable.runtime.launchers.slurm_job import SLURM_JOB
from ranktable.runtime.launchers.sophgo import SOPHGO
from ranktable.runtime.launchers.torchrun import TORCHRUN
from ranktable.runtime.launchers.torchrun_arguments import TORCHRUN_ARGUMENTS
from ranktable.runtime.launchers.volcano import VOLCANO

if TYPE_CHECKING:
    from ranktable.runtime.launchers.launcher import Launcher

LAUNCHERS: tuple[Launcher, ...] = (
    TORCHRUN,
    DEEPSPEED,
    RAY_TRAIN,
    MINDSPORE,
    PADDLE,
    OPEN_MPI,
    MVAPICH2,
    PALS,
    JSRUN,
    SLURM,
    FLUX,
    MPICH,
    TORCHRUN_ARGUMENTS,
    PYTORCH_JOB,
    VOLCANO,
    PAI,
    INDEXED_JOB,
    SAGEMAKER,
    AZURE_ML,
    AZURE_ML_ONE_NODE,
    CLOUD_TPU,
    SLURM_JOB,
    MPICH_BY_PORT,
    LSF,
    PBS,
    SGE,
    ASCEND,
    ASCEND_DEVICE,
    SOPHGO,
    BY_HAND,
)
"""Of two that agree, the first is named: Slurm and Flux set MPICH's variables too."""
