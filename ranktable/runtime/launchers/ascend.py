"""Ascend's scripts with a rank table; often only the table has the size of the job.

``DEVICE_ID`` is the chip on its node, not a local rank; old scripts call it
``ASCEND_DEVICE_ID``.

Source: mindspore.cn, "rank table startup".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.launchers.launcher import Launcher
from ranktable.runtime.values import is_plain, read_again

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value


_DEVICE = ("DEVICE_ID", "ASCEND_DEVICE_ID")


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    yield from read_again(env, [("device_id", variable) for variable in _DEVICE])


def _numbers(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    plain = [variable for variable in _DEVICE if is_plain(env.get(variable, ""))]
    yield from read_again(env, [("device_id", variable) for variable in plain])


ASCEND = Launcher(
    name="ascend",
    any_of=("RANK_ID", "RANK_SIZE"),
    fields={"rank": "RANK_ID", "world_size": "RANK_SIZE"},
    more=_more,
    may_lack=("world_size",),
    advice="neither RANK_SIZE nor RANK_TABLE_FILE, which has the size, is set; set one",
    lacks=("RANK_SIZE", "RANK_TABLE_FILE"),
)
# Without a rank of Ascend, other programs may have set DEVICE_ID, also with a rank
# table, which SOPHGO's libraries read too: other values than numbers are ignored.
ASCEND_DEVICE = Launcher(
    name="ascend",
    markers=("RANK_TABLE_FILE",),
    any_of=_DEVICE,
    absent=("RANK_ID", "RANK_SIZE"),
    more=_numbers,
)
LAUNCHERS = (ASCEND, ASCEND_DEVICE)
