"""``RANK`` and ``WORLD_SIZE`` without a launcher that owns them.

Set by hand, by a site's script, by Azure ML, by accelerate, or left over from another
shell. They are believed when nothing else is known, and must agree with what is.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher

BY_HAND = Launcher(
    name="environment",
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
LAUNCHERS = (BY_HAND,)
