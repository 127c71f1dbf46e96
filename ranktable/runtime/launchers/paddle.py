"""Paddle's launcher.

Source: PaddlePaddle/Paddle, python/paddle/distributed/launch/controllers/collective.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.errors import InvalidVariableError
from ranktable.runtime.launchers.launcher import Launcher, Tier
from ranktable.runtime.values import read_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MASTER = "PADDLE_MASTER"


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, int | str, str]]:
    text = env.get(_MASTER, "")
    if not text:
        return
    host, _, port = text.rpartition(":")
    if not host:
        raise InvalidVariableError(
            "RT302", f"{_MASTER} is {text!r}, not host:port", {_MASTER: text}
        )
    yield "master_addr", host, _MASTER
    yield "master_port", read_number("master_port", _MASTER, port), _MASTER


PADDLE = Launcher(
    name="paddle",
    tier=Tier.WORKER,
    markers=("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM"),
    fields={
        "rank": "PADDLE_TRAINER_ID",
        "world_size": "PADDLE_TRAINERS_NUM",
        "local_rank": "PADDLE_RANK_IN_NODE",
        "local_world_size": "PADDLE_LOCAL_SIZE",
        "num_nodes": "PADDLE_NNODES",
    },
    more=_more,
)
