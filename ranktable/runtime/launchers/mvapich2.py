"""MVAPICH2.

Source: huggingface/accelerate, src/accelerate/utils/environment.py;
nv-legate/legate#832.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher

MVAPICH2 = Launcher(
    name="mvapich2",
    markers=("MV2_COMM_WORLD_RANK",),
    fields={
        "rank": "MV2_COMM_WORLD_RANK",
        "world_size": "MV2_COMM_WORLD_SIZE",
        "local_rank": "MV2_COMM_WORLD_LOCAL_RANK",
        "local_world_size": "MV2_COMM_WORLD_LOCAL_SIZE",
    },
)
LAUNCHERS = (MVAPICH2,)
