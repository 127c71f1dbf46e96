"""Who this process is, from the variables of whatever started it.

The claims of all launchers are weighed; what is left has to be complete and possible.
Nothing is guessed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.runtime.consistency import (
    chips_of,
    number,
    refuse_chips,
    refuse_contradictions,
    refuse_halves,
    refuse_ranges,
)
from ranktable.runtime.launchers import LAUNCHERS
from ranktable.runtime.table import VARIABLE as TABLE_VARIABLE
from ranktable.runtime.weighing import FIELDS, Fate, weigh

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.runtime.launchers.launcher import Claim


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
        host: Name of this node, as its launcher has it.
        device_id: The chip of this process on its node.
        local_chip_map: The chips of this node by local rank.
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
    host: str | None = None
    device_id: int | None = None
    local_chip_map: tuple[int, ...] | None = None
    launcher: str | None = None
    rank_table_file: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


def resolve_environment(env: Mapping[str, str] | None = None) -> Environment:
    """Return what the environment says of this process; what it does not say is None.

    Args:
        env: The environment; by default ``os.environ``. An empty variable counts as
            unset.

    Raises:
        InvalidVariableError: A value is no plain decimal number within its range.
        MissingVariableError: A rank without the size of the job, or the other way.
        ConflictingVariablesError: Two variables cannot both be true.
    """
    env = os.environ if env is None else env
    claims = weigh(env)
    for claim, fate in claims:
        if claim.problem is not None and fate is Fate.INVALID:
            raise claim.problem
    refuse_contradictions(claims)
    won = {claim.field: claim for claim, fate in claims if fate is Fate.WON}
    refuse_halves(won)
    refuse_ranges(won)
    refuse_chips(won)
    sources = {name: won[name].variable for name in FIELDS if name in won}
    table = env.get(TABLE_VARIABLE) or None
    if table is not None:
        sources["rank_table_file"] = TABLE_VARIABLE
    return Environment(
        rank=number(won, "rank"),
        world_size=number(won, "world_size"),
        local_rank=number(won, "local_rank"),
        local_world_size=number(won, "local_world_size"),
        node_rank=number(won, "node_rank"),
        num_nodes=number(won, "num_nodes"),
        master_addr=_text(won, "master_addr"),
        master_port=number(won, "master_port"),
        host=_text(won, "host"),
        device_id=number(won, "device_id"),
        local_chip_map=chips_of(won),
        launcher=won["rank"].launcher if "rank" in won else None,
        rank_table_file=table,
        sources=sources,
    )


def advice(env: Mapping[str, str]) -> str | None:
    """Return how processes get ranks under what is there, None if nothing is known."""
    found = (
        launcher.advice
        for launcher in LAUNCHERS
        if launcher.advice is not None and launcher.is_present(env)
    )
    return next(found, None)


def _text(won: Mapping[str, Claim], name: str) -> str | None:
    value = won[name].value if name in won else None
    return value if isinstance(value, str) else None
