"""MindSpore's msrun. ``MS_NODE_ID`` is the global rank; the scheduler has no rank.

Source: mindspore-ai/mindspore, process_entity/_api.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.errors import InvalidVariableError
from ranktable.runtime.launchers.launcher import Launcher
from ranktable.runtime.values import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value

_ROLE, _WORKER = "MS_ROLE", "MS_WORKER"
_OTHER_ROLES = ("MS_SCHED", "MS_PSERVER")


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    """Yield nothing; raise unless the role is that of a worker."""
    if env[_ROLE] != _WORKER:
        raise InvalidVariableError(
            "RT302",
            f"{_ROLE} is {quoted(env[_ROLE])}, not {_WORKER}, MS_SCHED or MS_PSERVER; "
            "correct or unset it",
            {_ROLE: env[_ROLE]},
        )
    yield from ()


MINDSPORE = Launcher(
    name="msrun",
    markers=(_ROLE,),
    not_where=tuple((_ROLE, role) for role in _OTHER_ROLES),
    fields={
        "rank": "MS_NODE_ID",
        "world_size": "MS_WORKER_NUM",
        # MS_SCHED_PORT is not the port: the scheduler listens there.
        "master_addr": "MS_SCHED_HOST",
    },
    more=_more,
    may_lack=("rank",),  # ranks may be assigned at run time
    advice="MS_NODE_ID is not set: msrun gives ranks at run time; pass --node_rank",
    lacks=("MS_NODE_ID",),
)
SCHEDULERS = tuple(
    Launcher(
        name="msrun",
        markers=(_ROLE,),
        only_where=((_ROLE, role),),
        advice=f"{_ROLE}={role} is not a worker of msrun and has no MS_NODE_ID; only "
        f"processes with {_ROLE}={_WORKER} join the job",
        lacks=("MS_NODE_ID",),
    )
    for role in _OTHER_ROLES
)
LAUNCHERS = (MINDSPORE, *SCHEDULERS)
