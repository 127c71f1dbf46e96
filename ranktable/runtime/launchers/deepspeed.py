"""DeepSpeed's launcher.

Source: microsoft/DeepSpeed, deepspeed/launcher/launch.py.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher

DEEPSPEED = Launcher(
    name="deepspeed",
    markers=("RANK", "CROSS_RANK", "LOCAL_SIZE"),
    fields={
        "rank": "RANK",
        "world_size": "WORLD_SIZE",
        "local_rank": "LOCAL_RANK",
        "local_world_size": "LOCAL_SIZE",
        "node_rank": "CROSS_RANK",
        "num_nodes": "CROSS_SIZE",
        "master_addr": "MASTER_ADDR",
        "master_port": "MASTER_PORT",
    },
)
LAUNCHERS = (DEEPSPEED,)
