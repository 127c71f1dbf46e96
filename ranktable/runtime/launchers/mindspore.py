"""MindSpore's msrun. ``MS_NODE_ID`` is the global rank; the scheduler has none.

Source: mindspore-ai/mindspore, process_entity/_api.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.launchers.launcher import Launcher, Tier
from ranktable.runtime.values import read_address, read_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value

_ROLE, _WORKER = "MS_ROLE", "MS_WORKER"
# Its port, MS_SCHED_PORT, is taken: the scheduler listens there.
_SCHEDULER = "MS_SCHED_HOST"


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    if env[_ROLE] != _WORKER or not env.get("MS_NODE_ID"):
        return  # the scheduler, or ranks that are handed out at run time
    for name, variable in (("rank", "MS_NODE_ID"), ("world_size", "MS_WORKER_NUM")):
        if env.get(variable):
            yield name, read_number(name, variable, env[variable]), variable
    if env.get(_SCHEDULER):
        yield (
            "master_addr",
            read_address("master_addr", _SCHEDULER, env[_SCHEDULER]),
            (_SCHEDULER),
        )


MINDSPORE = Launcher(name="msrun", tier=Tier.WORKER, markers=(_ROLE,), more=_more)
