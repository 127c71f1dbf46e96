"""Environment and rank table must say the same before anything is started."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.runtime.backends.backend import Placement
from ranktable.runtime.errors import ConflictingVariablesError, MissingVariableError

if TYPE_CHECKING:
    from ranktable.runtime.environment import Environment
    from ranktable.schema.model import RankTable


def place(
    environment: Environment,
    table: RankTable | None,
    *,
    file: str | None = None,
    needs_device: bool = False,
) -> Placement:
    """Return where this process runs, by the table if there is one.

    Args:
        environment: What the launcher said; rank and world_size are known.
        table: The rank table of the job.
        file: The file it was read from, for messages.
        needs_device: Whether the process is going to use the chip it is given.

    Raises:
        ConflictingVariablesError: The table has another number of ranks, or puts this
            rank at another place of its node than the launcher did.
        MissingVariableError: Nothing says which chip is this process's.
    """
    if table is None:
        return _place_by_launcher(environment, needs_device=needs_device)
    return _place_by_table(environment, table, file)


def with_world_size(
    environment: Environment, table: RankTable | None, file: str | None = None
) -> Environment:
    """Return the environment with the size of the job, which may be in the table only.

    Ascend's scripts give a process its rank and the table, and often no size.

    Raises:
        ConflictingVariablesError: The table has no such rank.
    """
    rank = environment.rank
    if table is None or rank is None or environment.world_size is not None:
        return environment
    if rank >= table.world_size:
        raise _contradiction(
            environment, ("rank",), f"the rank table has {table.world_size} ranks", file
        )
    sources = {**environment.sources, "world_size": "rank table"}
    return replace(environment, world_size=table.world_size, sources=sources)


def _place_by_launcher(environment: Environment, *, needs_device: bool) -> Placement:
    """Return a place where every process has the chip of its local rank."""
    rank, local_rank = environment.rank, environment.local_rank
    assert rank is not None  # noqa: S101 - the caller has refused it
    if local_rank is None and needs_device:
        # With chip 0 for everybody, all processes of a host would share one chip.
        raise MissingVariableError(
            "RT301",
            f"nothing says which device rank {rank} uses: LOCAL_RANK is not set and "
            "there is no rank table; export LOCAL_RANK, or set RANK_TABLE_FILE",
            {"LOCAL_RANK": None, "RANK_TABLE_FILE": None},
        )
    local_rank = local_rank or 0
    return Placement(
        rank=rank,
        local_rank=local_rank,
        device_id=local_rank,
        local_chip_map=tuple(range(environment.local_world_size or local_rank + 1)),
    )


def _place_by_table(
    environment: Environment, table: RankTable, file: str | None
) -> Placement:
    rank = environment.rank
    assert rank is not None  # noqa: S101 - the caller has refused it
    if table.world_size != environment.world_size:
        raise _contradiction(
            environment,
            ("world_size",),
            f"the rank table has {table.world_size} ranks",
            file,
        )
    if environment.num_nodes not in (None, len(table.nodes)):
        raise _contradiction(
            environment,
            ("num_nodes",),
            f"the rank table has {len(table.nodes)} nodes",
            file,
        )
    node_rank, local_rank = table.node_rank_of(rank), table.local_rank_of(rank)
    local_chip_map = tuple(table.local_chip_map(node_rank))
    if environment.local_world_size not in (None, len(local_chip_map)):
        raise _contradiction(
            environment,
            ("local_world_size",),
            f"the rank table gives node {node_rank} {len(local_chip_map)} ranks",
            file,
        )
    if environment.local_rank not in (None, local_rank):
        raise _contradiction(
            environment,
            ("rank", "local_rank"),
            f"in the rank table rank {rank} is at place {local_rank} of node "
            f"{node_rank}",
            file,
        )
    return Placement(
        rank=rank,
        local_rank=local_rank,
        device_id=table.device_of(rank).device_id,
        local_chip_map=local_chip_map,
    )


def _contradiction(
    environment: Environment,
    fields: tuple[str, ...],
    finding: str,
    file: str | None,
) -> ConflictingVariablesError:
    variables = {
        environment.sources.get(name, name): str(getattr(environment, name))
        for name in fields
    }
    listed = " and ".join(f"{name}={value}" for name, value in variables.items())
    return ConflictingVariablesError(
        "RT304",
        f"the launcher set {listed}, but {finding}"
        + (f" ({file})" if file else "")
        + "; start one process for each rank of the table, node by node",
        variables,
    )
