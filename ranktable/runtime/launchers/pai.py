"""Alibaba's PAI DLC, whose ``RANK`` and ``WORLD_SIZE`` count nodes.

Source: Alibaba PAI, "General environment variables".
"""

from __future__ import annotations

from ranktable.runtime.launchers.flux import FLUX
from ranktable.runtime.launchers.jsrun import JSRUN
from ranktable.runtime.launchers.launcher import Launcher, Level, Tier
from ranktable.runtime.launchers.mpich import MPICH
from ranktable.runtime.launchers.mvapich2 import MVAPICH2
from ranktable.runtime.launchers.open_mpi import OPEN_MPI
from ranktable.runtime.launchers.pals import PALS
from ranktable.runtime.launchers.pytorch_job import PROCESSES_PER_POD
from ranktable.runtime.launchers.slurm import SLURM
from ranktable.runtime.launchers.torchrun import MARKER

PAI = Launcher(
    name="pai dlc",
    tier=Tier.PLATFORM,
    level=Level.NODE,
    markers=("RANK", "NPROC_PER_NODE"),
    absent=(MARKER, "LOCAL_RANK", "VC_TASK_INDEX", *PROCESSES_PER_POD),
    # Anybody may export NPROC_PER_NODE; with one of these, RANK is a left-over too.
    unless=(OPEN_MPI, MVAPICH2, PALS, JSRUN, MPICH, SLURM, FLUX),
    fields={
        "node_rank": "RANK",
        "num_nodes": "WORLD_SIZE",
        "local_world_size": "NPROC_PER_NODE",
        "master_addr": "MASTER_ADDR",
        "master_port": "MASTER_PORT",
    },
    advice="start torchrun, or ranktable run, on every node",
)
