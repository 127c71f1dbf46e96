"""Paddle's launcher.

Source: PaddlePaddle/Paddle, python/paddle/distributed/launch/controllers/collective.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.errors import InvalidVariableError
from ranktable.runtime.launchers.launcher import Launcher, Tier
from ranktable.runtime.values import read_host, read_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value

_MASTER = "PADDLE_MASTER"
# What it says twice has to be the same.
_AGAIN = (
    ("rank", "PADDLE_GLOBAL_RANK"),
    ("world_size", "PADDLE_GLOBAL_SIZE"),
    ("local_rank", "PADDLE_LOCAL_RANK"),
)


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    for name, variable in _AGAIN:
        if env.get(variable):
            yield name, read_number(name, variable, env[variable]), variable
    text = env.get(_MASTER, "")
    if not text:
        return
    host, _, port = text.rpartition(":")
    if not host:
        raise InvalidVariableError(
            "RT302", f"{_MASTER} is {text!r}, not host:port", {_MASTER: text}
        )
    yield "master_addr", read_host("master_addr", _MASTER, text), _MASTER
    yield "master_port", read_number("master_port", _MASTER, port), _MASTER


PADDLE = Launcher(
    name="paddle",
    tier=Tier.WORKER,
    markers=("PADDLE_TRAINER_ID",),
    fields={
        "rank": "PADDLE_TRAINER_ID",
        "world_size": "PADDLE_TRAINERS_NUM",
        "local_rank": "PADDLE_RANK_IN_NODE",
        "local_world_size": "PADDLE_LOCAL_SIZE",
        "num_nodes": "PADDLE_NNODES",
    },
    more=_more,
)
