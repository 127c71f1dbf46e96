"""``RANK`` and ``WORLD_SIZE`` that no known launcher has set.

They are set by hand, by a script of the site, by Azure ML, by accelerate, or left over
in a shell. They are used if nothing else is known, and must agree with other variables.
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
