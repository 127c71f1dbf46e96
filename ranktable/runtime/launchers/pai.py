"""Alibaba's PAI DLC, whose ``RANK`` and ``WORLD_SIZE`` count nodes.

Source: Alibaba PAI, "General environment variables".
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Level, Tier
from ranktable.runtime.launchers.torchrun import MARKER

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
        "master_addr": "MASTER_ADDR",
        "master_port": "MASTER_PORT",
    },
    advice="start torchrun, or ranktable run, on every node",
)
