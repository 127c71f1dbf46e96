"""Ascend's scripts around a rank table; the size of the job is often in the table only.

``DEVICE_ID`` is the chip on its node, and no local rank; old scripts call it
``ASCEND_DEVICE_ID``.

Source: mindspore.cn, "rank table startup".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.launchers.launcher import Launcher, Tier
from ranktable.runtime.values import read_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    for variable in ("DEVICE_ID", "ASCEND_DEVICE_ID"):
        if env.get(variable):
            yield (
                "device_id",
                read_number("device_id", variable, env[variable]),
                variable,
            )


ASCEND = Launcher(
    name="ascend",
    tier=Tier.BESIDE,
    markers=(),
    any_of=("RANK_ID", "RANK_SIZE"),
    fields={"rank": "RANK_ID", "world_size": "RANK_SIZE"},
    more=_more,
    may_lack=("world_size",),
)
