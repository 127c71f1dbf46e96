"""Who this process is, from the variables that its launcher set."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.runtime.errors import (
    ConflictingVariablesError,
    InvalidVariableError,
    MissingVariableError,
)
from ranktable.runtime.table import VARIABLE as TABLE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PORT = 65535
_PLAIN = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A process and its job; every field is None when it is unknown.

    Attributes:
        rank: Global rank, 0 to world_size - 1.
        world_size: Number of processes of the job.
        local_rank: Index of the process on its node.
        local_world_size: Number of processes on the node.
        node_rank: Index of the node in the job.
        num_nodes: Number of nodes.
        master_addr: Host of the process that the others meet at.
        master_port: Its port.
        launcher: Who set the variables.
        rank_table_file: Path of the rank table.
        sources: The variable that gave each field.
    """

    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    local_world_size: int | None = None
    node_rank: int | None = None
    num_nodes: int | None = None
    master_addr: str | None = None
    master_port: int | None = None
    launcher: str | None = None
    rank_table_file: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


# Source: torch/distributed/elastic/agent/server/local_elastic_agent.py.
_TORCHRUN_NUMBERS = {
    "rank": "RANK",
    "world_size": "WORLD_SIZE",
    "local_rank": "LOCAL_RANK",
    "local_world_size": "LOCAL_WORLD_SIZE",
    "node_rank": "GROUP_RANK",
    "num_nodes": "GROUP_WORLD_SIZE",
    "master_port": "MASTER_PORT",
}
_TORCHRUN_MARKER = "TORCHELASTIC_RUN_ID"
_SIZES = (
    ("rank", "world_size"),
    ("local_rank", "local_world_size"),
    ("node_rank", "num_nodes"),
    ("local_world_size", "world_size"),
    ("num_nodes", "world_size"),
)


def resolve_environment(env: Mapping[str, str] | None = None) -> Environment:
    """Return what the environment says of this process.

    Reads torchrun's variables, or RANK and WORLD_SIZE set by hand. An empty variable
    counts as unset.

    Args:
        env: The environment; by default ``os.environ``.

    Raises:
        InvalidVariableError: A value is no plain decimal number within its range.
        MissingVariableError: RANK without WORLD_SIZE, or the other way round.
        ConflictingVariablesError: A rank is not below its size.
    """
    env = os.environ if env is None else env
    numbers: dict[str, int] = {}
    sources: dict[str, str] = {}
    for name, variable in _TORCHRUN_NUMBERS.items():
        value = env.get(variable, "")
        if value:
            numbers[name] = _number(name, variable, value)
            sources[name] = variable
    texts: dict[str, str] = {}
    for name, variable in (
        ("master_addr", "MASTER_ADDR"),
        ("rank_table_file", TABLE_VARIABLE),
    ):
        if env.get(variable):
            texts[name] = env[variable]
            sources[name] = variable
    _refuse_halves(numbers, env)
    _refuse_contradictions(numbers, sources, env)
    launcher = None
    if "rank" in numbers:
        launcher = "torchrun" if _TORCHRUN_MARKER in env else "environment"
    return Environment(
        rank=numbers.get("rank"),
        world_size=numbers.get("world_size"),
        local_rank=numbers.get("local_rank"),
        local_world_size=numbers.get("local_world_size"),
        node_rank=numbers.get("node_rank"),
        num_nodes=numbers.get("num_nodes"),
        master_addr=texts.get("master_addr"),
        master_port=numbers.get("master_port"),
        launcher=launcher,
        rank_table_file=texts.get("rank_table_file"),
        sources=sources,
    )


def _number(name: str, variable: str, value: str) -> int:
    if not _PLAIN.fullmatch(value):
        what = "a plain decimal number"
    elif name.endswith(("size", "nodes")) and int(value) == 0:
        what = "a number of at least 1"
    elif name == "master_port" and not 0 < int(value) <= MAX_PORT:
        what = f"a port from 1 to {MAX_PORT}"
    else:
        return int(value)
    raise InvalidVariableError(
        "RT302", f"{variable} is {value!r}, not {what}", {variable: value}
    )


def _refuse_halves(numbers: Mapping[str, int], env: Mapping[str, str]) -> None:
    for present, absent in (("rank", "world_size"), ("world_size", "rank")):
        if present in numbers and absent not in numbers:
            have, lack = _TORCHRUN_NUMBERS[present], _TORCHRUN_NUMBERS[absent]
            raise MissingVariableError(
                "RT301",
                f"{have} is {env[have]!r} but {lack} is not set; a launcher sets both",
                {have: env[have], lack: env.get(lack)},
            )


def _refuse_contradictions(
    numbers: Mapping[str, int], sources: Mapping[str, str], env: Mapping[str, str]
) -> None:
    for small, large in _SIZES:
        if small not in numbers or large not in numbers:
            continue
        is_index = small.endswith("rank")
        if numbers[small] + is_index <= numbers[large]:
            continue
        a, b = sources[small], sources[large]
        relation = "is not below" if is_index else "is more than"
        raise ConflictingVariablesError(
            "RT303",
            f"{a}={env[a]} {relation} {b}={env[b]}; unset the one that is left over",
            {a: env[a], b: env[b]},
        )
