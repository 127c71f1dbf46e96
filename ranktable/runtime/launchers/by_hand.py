"""``RANK`` and ``WORLD_SIZE`` without a launcher that owns them.

Set by hand, by a site's script, by Azure ML, by accelerate, or left over from another
shell. They are believed when nothing else is known, and must agree with what is.
"""

from __future__ import annotations

from ranktable.runtime.launchers.deepspeed import DEEPSPEED
from ranktable.runtime.launchers.launcher import Launcher, Tier
from ranktable.runtime.launchers.pai import PAI
from ranktable.runtime.launchers.pytorch_job import PYTORCH_JOB
from ranktable.runtime.launchers.ray_train import RAY_TRAIN
from ranktable.runtime.launchers.torchrun import TORCHRUN
from ranktable.runtime.launchers.volcano import VOLCANO

BY_HAND = Launcher(
    name="environment",
    tier=Tier.BESIDE,
    markers=(),
    unless=(TORCHRUN, DEEPSPEED, RAY_TRAIN, PYTORCH_JOB, VOLCANO, PAI),
    fields={
        "rank": "RANK",
        "world_size": "WORLD_SIZE",
        "local_rank": "LOCAL_RANK",
        "local_world_size": "LOCAL_WORLD_SIZE",
        "node_rank": "NODE_RANK",
        "master_addr": "MASTER_ADDR",
        "master_port": "MASTER_PORT",
    },
    nodes_follow_ranks=True,
)
