"""torchrun, and launchers that are built on torchelastic.

Source: pytorch/pytorch, torch/distributed/elastic/agent/server/local_elastic_agent.py.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher

TORCHRUN = Launcher(
    name="torchrun",
    markers=("TORCHELASTIC_RUN_ID",),
    fields={
        "rank": "RANK",
        "world_size": "WORLD_SIZE",
        "local_rank": "LOCAL_RANK",
        "local_world_size": "LOCAL_WORLD_SIZE",
        "node_rank": "GROUP_RANK",
        "num_nodes": "GROUP_WORLD_SIZE",
        "master_addr": "MASTER_ADDR",
        "master_port": "MASTER_PORT",
    },
    advice="TORCHELASTIC_RUN_ID is set and RANK is not, so torchrun's variables were "
    "unset; keep RANK and WORLD_SIZE, or unset TORCHELASTIC_RUN_ID too",
)
LAUNCHERS = (TORCHRUN,)
