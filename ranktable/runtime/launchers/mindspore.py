"""MindSpore's msrun. ``MS_NODE_ID`` is the global rank; the scheduler has none.

Source: mindspore-ai/mindspore, process_entity/_api.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.launchers.launcher import Launcher, Tier
from ranktable.runtime.values import read_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ROLE, _WORKER = "MS_ROLE", "MS_WORKER"


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, int | str, str]]:
    if env[_ROLE] != _WORKER or not env.get("MS_NODE_ID"):
        return  # the scheduler, or ranks that are handed out at run time
    for name, variable in (("rank", "MS_NODE_ID"), ("world_size", "MS_WORKER_NUM")):
        if env.get(variable):
            yield name, read_number(name, variable, env[variable]), variable


MINDSPORE = Launcher(name="msrun", tier=Tier.WORKER, markers=(_ROLE,), more=_more)
