"""Ray Train's torch backend; the variables are set before the user's function runs.

Source: ray-project/ray, python/ray/train/torch/config.py and
src/ray/raylet/worker_pool.cc.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher

RAY_TRAIN = Launcher(
    name="ray train",
    # RAY_JOB_ID is set in every worker of Ray; torch's names alone may be left over.
    markers=("RAY_JOB_ID", "RANK", "NODE_RANK"),
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
LAUNCHERS = (RAY_TRAIN,)
