"""Kubeflow's PyTorchJob, whose ``RANK`` counts pods.

Its variables have the names of torchrun's. Since kubeflow/trainer#1840 ``WORLD_SIZE``
counts processes while ``RANK`` is still the pod's, so ``WORLD_SIZE`` is not read.

Source: kubeflow/training-operator, pkg/controller.v1/pytorch/envvar.go.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Level, Tier
from ranktable.runtime.launchers.torchrun import MARKER

PROCESSES_PER_POD = ("PET_NPROC_PER_NODE", "PET_N_PROC_PER_NODE")
"""torchrun reads the first; operators before kubeflow/trainer#1840 wrote the second."""

PYTORCH_JOB = Launcher(
    name="pytorchjob",
    tier=Tier.PLATFORM,
    level=Level.NODE,
    markers=("RANK",),
    any_of=PROCESSES_PER_POD,
    absent=(MARKER, "LOCAL_RANK"),
    fields={
        "node_rank": "RANK",
        "master_addr": "MASTER_ADDR",
        "master_port": "MASTER_PORT",
    },
    advice="start torchrun, or ranktable run, in every pod",
)
