"""Ascend's scripts around a rank table; the size of the job is often in the table only.

``DEVICE_ID`` is the chip on its node, and no local rank.

Source: mindspore.cn, "rank table startup".
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Tier

ASCEND = Launcher(
    name="ascend",
    tier=Tier.BESIDE,
    markers=("RANK_ID",),
    fields={"rank": "RANK_ID", "world_size": "RANK_SIZE"},
    may_lack=("world_size",),
)
