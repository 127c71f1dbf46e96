"""Volcano with its pytorch plugin, whose ``RANK`` and ``WORLD_SIZE`` count pods.

``VC_TASK_INDEX`` is the place within one group of tasks, so it is no node_rank.

Source: volcano-sh/volcano, the job controller's pytorch plugin.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Level, Tier
from ranktable.runtime.launchers.pytorch_job import PROCESSES_PER_POD
from ranktable.runtime.launchers.torchrun import MARKER

VOLCANO = Launcher(
    name="volcano",
    tier=Tier.PLATFORM,
    level=Level.NODE,
    markers=("RANK", "VC_TASK_INDEX"),
    absent=(MARKER, "LOCAL_RANK", *PROCESSES_PER_POD),
    fields={
        "node_rank": "RANK",
        "num_nodes": "WORLD_SIZE",
        "master_addr": "MASTER_ADDR",
        "master_port": "MASTER_PORT",
    },
    advice="start torchrun, or ranktable run, in every pod",
)
