"""Paddle's launcher.

Source: PaddlePaddle/Paddle, python/paddle/distributed/launch/controllers/collective.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.errors import InvalidVariableError
from ranktable.runtime.launchers.launcher import Launcher
from ranktable.runtime.values import (
    quoted,
    read_again,
    read_host,
    read_list,
    read_number,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value

_MASTER = "PADDLE_MASTER"
_OWN, _ALL = "PADDLE_CURRENT_ENDPOINT", "PADDLE_TRAINER_ENDPOINTS"
# Values that it gives twice must be the same.
_AGAIN = (
    ("rank", "PADDLE_GLOBAL_RANK"),
    ("world_size", "PADDLE_GLOBAL_SIZE"),
    ("local_rank", "PADDLE_LOCAL_RANK"),
)


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    yield from read_again(env, _AGAIN)
    yield from _endpoints(env)
    text = env.get(_MASTER, "")
    if not text:
        return
    host, _, port = text.rpartition(":")
    if not host:
        raise InvalidVariableError(
            "RT302", f"{_MASTER} is {quoted(text)}, not host:port", {_MASTER: text}
        )
    yield "master_addr", read_host("master_addr", _MASTER, text), _MASTER
    yield "master_port", read_number("master_port", _MASTER, port), _MASTER


def _endpoints(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    """Yield the fields in the list of all processes; a node is a host, without port.

    With ``--ips``, PADDLE_MASTER is not set, and the first process is the master; its
    port there is Paddle's own.
    """
    if env.get(_OWN):
        yield "host", read_host("host", _OWN, env[_OWN]), _OWN
    if not env.get(_ALL):
        return
    endpoints = env[_ALL].split(",")
    hosts = read_list(read_host, "it", _ALL, env[_ALL])
    yield "world_size", len(hosts), _ALL
    if env.get(_OWN) and endpoints.count(env[_OWN]) == 1:
        yield "rank", endpoints.index(env[_OWN]), _OWN
    if not env.get(_MASTER):
        yield "master_addr", hosts[0], _ALL


PADDLE = Launcher(
    name="paddle",
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
LAUNCHERS = (PADDLE,)
