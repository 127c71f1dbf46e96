"""Ray Train's torch backend; the variables are set before the user's function runs.

Source: ray-project/ray, python/ray/train/torch/config.py.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Tier
from ranktable.runtime.launchers.torchrun import MARKER

RAY_TRAIN = Launcher(
    name="ray train",
    tier=Tier.WORKER,
    # No variable is its own: NODE_RANK beside LOCAL_WORLD_SIZE, without GROUP_RANK.
    markers=("RANK", "NODE_RANK", "LOCAL_WORLD_SIZE"),
    absent=(MARKER, "GROUP_RANK", "CROSS_RANK"),
    fields={
        "rank": "RANK",
        "world_size": "WORLD_SIZE",
        "local_rank": "LOCAL_RANK",
        "local_world_size": "LOCAL_WORLD_SIZE",
        "node_rank": "NODE_RANK",
        "master_addr": "MASTER_ADDR",
        "master_port": "MASTER_PORT",
    },
)
