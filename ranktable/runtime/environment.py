"""The rank and job of this process, from the variables of its launcher.

The claims of all launchers are compared; the result must be complete and possible.
Nothing is guessed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.runtime.errors import MissingVariableError
from ranktable.runtime.launchers.declared import launchers_in
from ranktable.runtime.resolution import (
    FIELDS,
    believed,
    chips_of,
    number,
    resolve_claims,
)
from ranktable.runtime.values import said

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.runtime.launchers.launcher import Launcher, VariableClaim


_TABLE = "RANK_TABLE_FILE"
_TORCHRUN = "start the script with a launcher: torchrun --nproc-per-node 8 SCRIPT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A process and its job; a field is None if it is not known.

    Attributes:
        rank: Global rank, 0 to world_size - 1.
        world_size: Number of processes of the job.
        local_rank: Index of the process on its node.
        local_world_size: Number of processes on the node.
        node_rank: Index of the node in the job.
        num_nodes: Number of nodes.
        master_addr: Host of the rendezvous.
        master_port: Its port.
        host: Name of this node in the launcher's variables.
        device_id: The chip of this process on its node.
        local_chip_map: The chips of this node by local rank.
        launcher: The launcher that set the variables.
        rank_table_file: Path of the rank table.
        sources: The variable from which each field comes.
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


def resolve_environment(
    env: Mapping[str, str] | None = None, *, has_address: bool = False
) -> Environment:
    """Return the rank and job of this process; a field is None if it is not known.

    Args:
        env: The environment; by default ``os.environ``. An empty variable counts as
            unset.
        has_address: Whether the caller has an address of the rendezvous; then a
            loopback address in the environment is not an error.

    Raises:
        InvalidVariableError: A value is not a plain decimal number within its range.
        MissingVariableError: There is a rank without a size, or a size without a rank.
        ConflictingVariablesError: Two variables contradict each other.
    """
    env = os.environ if env is None else env
    won = believed(resolve_claims(env), has_address=has_address)
    sources = {name: won[name].variable for name in FIELDS if name in won}
    table = env.get(_TABLE) or None
    if table is not None:
        sources["rank_table_file"] = _TABLE
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
    """Return how to start processes with a rank here, None if this is not known."""
    launcher = advising(env)
    return None if launcher is None else f"{launcher.advice} ({launcher.name})"


def no_rank(environment: Environment, env: Mapping[str, str]) -> MissingVariableError:
    """Return the error for a process with an unknown rank or size."""
    launcher = advising(env)
    lacking = ("RANK", "WORLD_SIZE") if launcher is None else launcher.lacks
    pod = {name: env[name] for name in ("RANK", "WORLD_SIZE") if env.get(name)}
    known = pod or {
        variable: env[variable]
        for name, variable in environment.sources.items()
        if name in {"rank", "world_size", "node_rank"}
    }
    listed = " and ".join(said(*item) for item in known.items())
    if pod:
        verb = "describe" if len(pod) > 1 else "describes"
        what = f"{listed} {verb} the node or pod, not this process"
    elif known:
        what = f"the launcher set {listed}, but rank and size are both needed"
    else:
        what = "RANK and WORLD_SIZE are not set"
    return MissingVariableError(
        "RT301",
        f"{what}; {advice(env) or _TORCHRUN}",
        {**dict.fromkeys(lacking), **known},
    )


def advising(env: Mapping[str, str]) -> Launcher | None:
    """Return the first launcher here that knows how a process gets a rank."""
    found = (launcher for launcher in launchers_in(env) if launcher.advice is not None)
    return next(found, None)


def _text(won: Mapping[str, VariableClaim], name: str) -> str | None:
    value = won[name].value if name in won else None
    return value if isinstance(value, str) else None
