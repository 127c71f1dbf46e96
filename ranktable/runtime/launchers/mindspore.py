"""MindSpore's msrun. ``MS_NODE_ID`` is the global rank; the scheduler has none.

Source: mindspore-ai/mindspore, process_entity/_api.py.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Tier

_ROLE = "MS_ROLE"

MINDSPORE = Launcher(
    name="msrun",
    tier=Tier.WORKER,
    markers=(_ROLE,),
    not_where=((_ROLE, "MS_SCHED"), (_ROLE, "MS_PSERVER")),
    fields={
        "rank": "MS_NODE_ID",
        "world_size": "MS_WORKER_NUM",
        # Its port, MS_SCHED_PORT, is taken: the scheduler listens there.
        "master_addr": "MS_SCHED_HOST",
    },
    may_lack=("rank",),  # where ranks are handed out at run time
)
