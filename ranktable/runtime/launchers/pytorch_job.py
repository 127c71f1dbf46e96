"""Kubeflow's PyTorchJob, whose ``RANK`` counts pods.

Its variables have the names of torchrun's. Since kubeflow/trainer#1840 ``WORLD_SIZE``
counts processes while ``RANK`` is still the pod's, so ``WORLD_SIZE`` is not read.

Source: kubeflow/training-operator, pkg/controller.v1/pytorch/envvar.go.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Level, Tier
from ranktable.runtime.launchers.torchrun import MARKER

PYTORCH_JOB = Launcher(
    name="pytorchjob",
    tier=Tier.PLATFORM,
    level=Level.NODE,
    markers=("RANK", "PET_NPROC_PER_NODE"),
    absent=(MARKER,),
    fields={
        "node_rank": "RANK",
        "master_addr": "MASTER_ADDR",
        "master_port": "MASTER_PORT",
    },
    advice="start torchrun, or ranktable run, in every pod",
)
