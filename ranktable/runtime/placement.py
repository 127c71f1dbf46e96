"""Which chip a process uses, by the rank table or by its launcher."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.backends.backend import Placement
from ranktable.runtime.errors import MissingVariableError

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
        ConflictingVariablesError: Environment and table contradict each other.
        MissingVariableError: Nothing says which chip is this process's.
    """
    if table is None:
        return _place_by_launcher(environment, needs_device=needs_device)
    from ranktable.runtime.agreement import refuse_other_table  # noqa: PLC0415

    refuse_other_table(environment, table, file)
    rank = environment.rank
    assert rank is not None  # noqa: S101 - the caller has refused it
    return Placement(
        rank=rank,
        local_rank=table.local_rank_of(rank),
        device_id=table.chip_map[rank],
        local_chip_map=tuple(table.local_chip_map(table.node_rank_of(rank))),
    )


def _place_by_launcher(environment: Environment, *, needs_device: bool) -> Placement:
    """Return a place by the launcher's chips, else by the local rank."""
    rank, local_rank = environment.rank, environment.local_rank
    assert rank is not None  # noqa: S101 - the caller has refused it
    device_id = environment.device_id
    if local_rank is None and device_id is None and needs_device:
        # With chip 0 for everybody, all processes of a host would share one chip.
        raise MissingVariableError(
            "RT301",
            f"nothing says which device rank {rank} uses: LOCAL_RANK is not set and "
            "there is no rank table; export LOCAL_RANK, or set RANK_TABLE_FILE",
            {"LOCAL_RANK": None, "RANK_TABLE_FILE": None},
        )
    chips = environment.local_chip_map
    if device_id is None and local_rank is not None:
        device_id = local_rank if chips is None else chips[local_rank]
    if chips is None and local_rank is not None:
        chips = tuple(range(environment.local_world_size or local_rank + 1))
    return Placement(
        rank=rank,
        local_rank=local_rank,
        device_id=device_id,
        local_chip_map=chips or (),
    )
