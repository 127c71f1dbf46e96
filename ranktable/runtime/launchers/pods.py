"""Operators whose ``RANK`` counts pods: PyTorchJob, Volcano and Alibaba's PAI DLC.

Their variables have the names of torchrun's and speak of a pod. Since
kubeflow/trainer#1840 a PyTorchJob's ``WORLD_SIZE`` counts processes while its ``RANK``
is still the pod's, so its ``WORLD_SIZE`` is not read.

Source: kubeflow/training-operator, pkg/controller.v1/pytorch/envvar.go; volcano-sh,
pytorch plugin; Alibaba PAI, "General environment variables".
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Level, Tier
from ranktable.runtime.launchers.torchrun import MARKER

_MASTER = {"master_addr": "MASTER_ADDR", "master_port": "MASTER_PORT"}

PYTORCH_JOB = Launcher(
    name="pytorchjob",
    tier=Tier.PLATFORM,
    level=Level.NODE,
    markers=("RANK", "PET_NPROC_PER_NODE"),
    absent=(MARKER,),
    fields={"node_rank": "RANK", **_MASTER},
)
VOLCANO = Launcher(
    name="volcano",
    tier=Tier.PLATFORM,
    level=Level.NODE,
    # VC_TASK_INDEX is the place within one group of tasks, so it is no node_rank.
    markers=("RANK", "VC_TASK_INDEX"),
    absent=(MARKER, "PET_NPROC_PER_NODE"),
    fields={"node_rank": "RANK", "num_nodes": "WORLD_SIZE", **_MASTER},
)
PAI = Launcher(
    name="pai dlc",
    tier=Tier.PLATFORM,
    level=Level.NODE,
    markers=("RANK", "NPROC_PER_NODE"),
    absent=(MARKER, "VC_TASK_INDEX", "PET_NPROC_PER_NODE"),
    fields={
        "node_rank": "RANK",
        "num_nodes": "WORLD_SIZE",
        "local_world_size": "NPROC_PER_NODE",
        **_MASTER,
    },
)
