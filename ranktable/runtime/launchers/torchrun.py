"""torchrun, and everything that is built on torchelastic.

Source: pytorch/pytorch, torch/distributed/elastic/agent/server/local_elastic_agent.py.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Tier

MARKER = "TORCHELASTIC_RUN_ID"

TORCHRUN = Launcher(
    name="torchrun",
    tier=Tier.WORKER,
    markers=(MARKER, "RANK"),
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
    nodes_follow_ranks=True,
)
