"""Environment and rank table must say the same before anything is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.backends.backend import Placement
from ranktable.runtime.errors import ConflictingVariablesError

if TYPE_CHECKING:
    from ranktable.runtime.environment import Environment
    from ranktable.schema.model import RankTable


def place(environment: Environment, table: RankTable | None) -> Placement:
    """Return where this process runs, by the table if there is one.

    Without a table the process takes the chip of its local rank, or chip 0 when its
    launcher gives no local rank.

    Raises:
        ConflictingVariablesError: The table has another number of ranks, or puts this
            rank at another place of its node than the launcher did.
    """
    rank, world_size = environment.rank, environment.world_size
    assert rank is not None  # noqa: S101 - the caller has refused it
    assert world_size is not None  # noqa: S101
    if table is None:
        local_rank = environment.local_rank or 0
        size = environment.local_world_size or local_rank + 1
        return Placement(
            rank=rank,
            local_rank=local_rank,
            device_id=local_rank,
            local_chip_map=tuple(range(size)),
        )
    if table.world_size != world_size:
        raise _contradiction(
            environment,
            ("world_size",),
            f"the rank table has {table.world_size} ranks",
        )
    node_rank, local_rank = table.node_rank_of(rank), table.local_rank_of(rank)
    local_chip_map = table.local_chip_map(node_rank)
    if environment.local_world_size not in (None, len(local_chip_map)):
        raise _contradiction(
            environment,
            ("local_world_size",),
            f"the rank table gives node {node_rank} {len(local_chip_map)} ranks",
        )
    if environment.local_rank not in (None, local_rank):
        raise _contradiction(
            environment,
            ("rank", "local_rank"),
            f"in the rank table rank {rank} is at place {local_rank} of node "
            f"{node_rank}",
        )
    return Placement(
        rank=rank,
        local_rank=local_rank,
        device_id=table.device_of(rank).device_id,
        local_chip_map=tuple(local_chip_map),
    )


def _contradiction(
    environment: Environment, fields: tuple[str, ...], finding: str
) -> ConflictingVariablesError:
    variables = {
        environment.sources.get(name, name): str(getattr(environment, name))
        for name in fields
    }
    listed = " and ".join(f"{name}={value}" for name, value in variables.items())
    file = environment.rank_table_file
    return ConflictingVariablesError(
        "RT304",
        f"the launcher set {listed}, but {finding}"
        + (f" ({file})" if file else "")
        + "; start one process for each rank of the table, node by node",
        variables,
    )
