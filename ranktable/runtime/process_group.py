"""The one place that starts communication."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ranktable.runtime.agreement import with_world_size
from ranktable.runtime.backends import choose_backend
from ranktable.runtime.deadline import Deadline
from ranktable.runtime.environment import no_rank, resolve_environment
from ranktable.runtime.errors import MissingVariableError
from ranktable.runtime.job import Job, as_timeout
from ranktable.runtime.meeting import with_master
from ranktable.runtime.placement import place
from ranktable.runtime.rendezvous import open_store, serves_store
from ranktable.runtime.roll_call import Member, meet
from ranktable.runtime.start import start_group

if TYPE_CHECKING:
    from datetime import timedelta

    from ranktable.runtime.backends.backend import Backend, Placement
    from ranktable.runtime.environment import Environment
    from ranktable.schema.model import RankTable

__all__ = ["Job", "init_process_group"]


DEFAULT_TIMEOUT_S = 300.0
"""Time for all processes to come: slow file systems need minutes to import torch."""


def init_process_group(
    backend: str | None = None,
    *,
    table: str | bytes | os.PathLike[str] | RankTable | None = None,
    timeout_s: float | None = None,
    master_addr: str | None = None,
    master_port: int | None = None,
) -> Job:
    """Join this process to its job and return it.

    Who the process is comes from its launcher, its chip from the rank table. Both must
    agree before anything is started; every rank must come, and hold the same table,
    before communication starts.

    Args:
        backend: ``gloo``, ``nccl`` or ``sccl``; by default the first whose device is
            here.
        table: A table or its path; by default ``$RANK_TABLE_FILE`` if that is set.
        timeout_s: Time for every rank to come, and the time-out of collectives; by
            default 300 s for the first, and the backend's own for the second. It runs
            from when this process begins to look for the others, and ends at most 2 s
            late.
        master_addr: Host where the processes meet; by default the launcher's, else the
            host of rank 0 in the table.
        master_port: Port there; by default the launcher's, else 29500.

    Raises:
        LaunchEnvironmentError: The environment is incomplete, malformed, or contradicts
            itself or the table.
        RankTableError: The table is not sound.
        BootstrapError: The backend, the device or a peer is not there.
        RuntimeError: The process has a process group already.
        ValueError: An argument is wrong.
    """
    _refuse_second()
    timeout = as_timeout(timeout_s)
    environment = resolve_environment(os.environ)
    found, file = _table(table, environment)
    environment = with_world_size(environment, found, file)
    if environment.rank is None or environment.world_size is None:
        raise no_rank(environment, os.environ)
    chosen = choose_backend(backend)
    if chosen.needs_chip_map and found is None:
        raise MissingVariableError(
            "RT301",
            f"{chosen.name} needs a rank table; set RANK_TABLE_FILE or pass table=",
            {"RANK_TABLE_FILE": None},
        )
    placement = place(environment, found, file=file, needs_device=chosen.binds_device)
    environment = with_master(
        environment, found, master_addr=master_addr, master_port=master_port
    )
    return _join(environment, found, placement, chosen, timeout)


def _refuse_second() -> None:
    if "torch.distributed" not in sys.modules:
        return  # nobody can have made a group, and torch may not be installed
    import torch.distributed as dist  # noqa: PLC0415 - torch is an extra

    if dist.is_available() and dist.is_initialized():
        raise RuntimeError(
            "this process has a process group already; leave it first, with close() "
            "of its job or torch.distributed.destroy_process_group()"
        )


def _table(
    table: str | bytes | os.PathLike[str] | RankTable | None, environment: Environment
) -> tuple[RankTable | None, str | None]:
    """Return the table, and the file that it was read from."""
    from ranktable.schema.check import load  # noqa: PLC0415 - with the model
    from ranktable.schema.model import RankTable  # noqa: PLC0415
    from ranktable.schema.writing import refuse_unsound  # noqa: PLC0415

    if isinstance(table, RankTable):
        refuse_unsound(table)
        return table, None
    name = environment.rank_table_file if table is None else os.fsdecode(table)
    if name == "":
        raise ValueError(
            "table is an empty path; name a file, or leave table out to use the one "
            "that RANK_TABLE_FILE names"
        )
    return (None, None) if name is None else (load(name), name)


def _join(
    environment: Environment,
    table: RankTable | None,
    placement: Placement,
    backend: Backend,
    timeout: timedelta | None,
) -> Job:
    # The device first: a vendor's package registers its backend when it is imported.
    device = backend.select_device(placement)
    from torch._C._distributed_c10d import PrefixStore  # noqa: PLC0415 - an extra

    world_size = environment.world_size
    assert world_size is not None  # noqa: S101 - the caller has refused it
    member = Member(
        rank=placement.rank,
        world_size=world_size,
        digest=None if table is None else table.digest(),
        serves_store=serves_store(placement.rank, os.environ),
    )
    # One end for all that waits for others: the store, the meeting, the connections.
    deadline = Deadline.after(
        DEFAULT_TIMEOUT_S if timeout is None else timeout.total_seconds()
    )
    store = open_store(environment, os.environ, deadline)
    meet(store, member, deadline)
    start_group(
        backend,
        device,
        deadline,
        store=PrefixStore("group", store),
        rank=placement.rank,
        world_size=world_size,
        timeout=timeout,
        pg_options=backend.group_options(None if table is None else table.chip_map),
    )
    return Job(environment, table, placement, backend, device, timeout)
