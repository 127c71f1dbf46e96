"""``init_process_group``: join the process group of the job."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from ranktable.runtime.backends.backend import Placement, choose_backend
from ranktable.runtime.environment import no_rank, resolve_environment
from ranktable.runtime.errors import BootstrapError, MissingVariableError
from ranktable.runtime.job import Job, as_argument, as_timeout, enter
from ranktable.runtime.master_address import with_master
from ranktable.runtime.rendezvous import (
    GRACE_S,
    Deadline,
    LateError,
    first_line,
    in_time,
    open_store,
    rendezvous_barrier,
    serves_store,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    import torch

    from ranktable.runtime.backends.backend import Backend
    from ranktable.runtime.environment import Environment
    from ranktable.schema.model import RankTable

__all__ = ["Job", "init_process_group"]


DEFAULT_TIMEOUT_S = 300.0
"""Time for all processes to connect: importing torch may take minutes."""

_GONE = re.compile(r"(?i)timed? ?out|connect|closed|reset by peer|socket|peer exited")
"""Words in errors of torch and gloo about a peer that ended after the rendezvous."""


def init_process_group(
    backend: str | None = None,
    *,
    table: str | bytes | os.PathLike[str] | RankTable | None = None,
    timeout_s: float | None = None,
    master_addr: str | None = None,
    master_port: int | None = None,
) -> Job:
    """Join this process to its job and return it.

    The launcher gives the rank of the process, and the rank table its chip. Both must
    agree before anything is started. Communication starts after every rank has
    connected with the same table.

    Args:
        backend: ``sccl``, ``nccl``, ``hccl``, ``cncl``, ``mccl``, ``xccl``, ``gloo``
            or ``mpi``; or one for each type of device, ``cpu:gloo,cuda:nccl``. By
            default the first whose device this host has.
        table: A table or its path; by default ``$RANK_TABLE_FILE`` if that is set.
        timeout_s: Time for every rank to connect, and the time-out of collectives; by
            default 300 s for the first, and the backend's own for the second. It starts
            when this process begins to connect, and ends at most 2 s late.
        master_addr: Host of the rendezvous; by default the launcher's, else the host
            of rank 0 in the table.
        master_port: Port there; by default the launcher's, else 29500.

    Raises:
        LaunchEnvironmentError: The environment is incomplete, malformed, or contradicts
            itself or the table.
        RankTableError: The table is not sound.
        BootstrapError: The backend, the device or a peer is not available.
        RuntimeError: The process has a process group already.
        ValueError: An argument is wrong.
    """
    _refuse_second()
    timeout = as_timeout(timeout_s)
    environment = resolve_environment(os.environ, has_address=master_addr is not None)
    found, file = _table(table, environment)
    if found is not None:
        from ranktable.runtime.agreement import with_world_size

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
    placement = place(environment, found, file=file, needs_device=not chosen.serves_cpu)
    environment = with_master(
        environment, found, master_addr=master_addr, master_port=master_port
    )
    return join(environment, found, placement, chosen, timeout)


def _refuse_second() -> None:
    if "torch.distributed" not in sys.modules:
        return  # there is no group, and torch may not be installed
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        raise RuntimeError(
            "this process has a process group already; end it first with close() of "
            "its job, or with torch.distributed.destroy_process_group()"
        )


def _table(
    table: str | bytes | os.PathLike[str] | RankTable | None, environment: Environment
) -> tuple[RankTable | None, str | None]:
    """Return the table, and the file that it was read from."""
    name = environment.rank_table_file if table is None else None
    if table is None and name is None:
        return None, None  # then no module about tables is imported
    from ranktable.schema.check import load
    from ranktable.schema.model import RankTable
    from ranktable.schema.writing import refuse_unsound

    if isinstance(table, RankTable):
        refuse_unsound(table)
        return table, None
    if table is not None:
        name = os.fsdecode(table)
    if not name:
        raise ValueError(
            "table is an empty path; name a file, or leave table out to use the one "
            "that RANK_TABLE_FILE names"
        )
    return load(name), name


def place(
    environment: Environment,
    table: RankTable | None,
    *,
    file: str | None = None,
    needs_device: bool = False,
) -> Placement:
    """Return the placement of this process, from the table if there is one.

    Args:
        environment: The facts from the launcher; rank and world_size are known.
        table: The rank table of the job.
        file: The file it was read from, for messages.
        needs_device: Whether the process uses its chip.

    Raises:
        ConflictingVariablesError: Environment and table contradict each other.
        MissingVariableError: The chip of this process is not known.
    """
    if table is None:
        return _place_by_launcher(environment, needs_device=needs_device)
    from ranktable.runtime.agreement import refuse_other_table
    from ranktable.runtime.resolution import one_chip_by

    refuse_other_table(environment, table, file, own_chip=one_chip_by(os.environ))
    rank = environment.rank
    assert rank is not None
    return Placement(
        rank=rank,
        world_size=table.world_size,
        local_rank=table.local_rank_of(rank),
        device_id=table.chip_map[rank],
        local_chip_map=tuple(table.local_chip_map(table.node_rank_of(rank))),
        is_of_host=True,
        digest=table.digest(),
    )


def _place_by_launcher(environment: Environment, *, needs_device: bool) -> Placement:
    """Return the placement from the launcher's chips, or else from the local rank."""
    rank, local_rank = environment.rank, environment.local_rank
    assert rank is not None
    assert environment.world_size is not None
    device_id = environment.device_id
    if local_rank is None and device_id is None and needs_device:
        # With chip 0 as the default, all processes of a host would share one chip.
        raise MissingVariableError(
            "RT301",
            f"the device of rank {rank} is not known: LOCAL_RANK is not set and "
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
        world_size=environment.world_size,
        local_rank=local_rank,
        device_id=device_id,
        local_chip_map=chips or (),
    )


def join(
    environment: Environment,
    table: RankTable | None,
    placement: Placement,
    backend: Backend,
    timeout: timedelta | None,
) -> Job:
    """Connect a process whose place is known, and return its job.

    Raises:
        BootstrapError: The backend, the device or a peer is not available.
    """
    # The device is selected first, because a vendor's package registers its backend
    # when it is imported.
    device = backend.select_device(placement)
    from torch._C._distributed_c10d import PrefixStore

    # One deadline for the store, the rendezvous and the connections.
    deadline = Deadline.after(
        DEFAULT_TIMEOUT_S if timeout is None else timeout.total_seconds()
    )
    store = open_store(environment, os.environ, deadline)
    is_served_here = serves_store(placement.rank, os.environ)
    rendezvous_barrier(store, placement, deadline, serves_store=is_served_here)
    options = backend.group_options(None if table is None else table.chip_map)
    import torch.distributed as dist

    def start() -> None:
        # It is not bound to the device: otherwise torch would split it for every
        # sub-group, and all ranks would have to take part, members or not.
        dist.init_process_group(
            backend=backend.config,
            store=PrefixStore("group", store),
            rank=placement.rank,
            world_size=placement.world_size,
            pg_options=options,
            **as_argument(timeout),
        )

    _start_group(start, backend, device, placement, deadline)
    job = Job(environment, table, placement, backend, device, timeout, store)
    return enter(job)


def _start_group(
    start: Callable[[], None],
    backend: Backend,
    device: torch.device,
    member: Placement,
    deadline: Deadline,
) -> None:
    """Make torch's process group.

    Torch has one time-out for making connections and for collectives, which is too long
    for connections. On CPUs the deadline limits them. A device is current only in one
    thread, so a device backend starts in this thread and has only torch's time-out.

    Raises:
        BootstrapError: A peer ended after the rendezvous (RT404), or the backend does
            not start (RT401).
    """
    try:
        if device.type == "cpu":
            in_time(start, deadline.left_s + GRACE_S / 2)
        else:
            start()
    except LateError:
        raise BootstrapError(
            "RT404",
            f"all {member.world_size} ranks joined, but after {deadline.time_s:g} s "
            f"{backend.name} had not connected rank {member.rank} to all of them; look "
            "for a rank that ended or hangs, and check for a firewall",
        ) from None
    except (RuntimeError, ValueError) as error:
        raise _not_started(backend, member.rank, error) from error


def _not_started(backend: Backend, rank: int, error: Exception) -> BootstrapError:
    """Return the error for a group that torch could not make."""
    if _GONE.search(str(error)):
        return BootstrapError(
            "RT404",
            f"all ranks joined, but {backend.name} could not connect rank {rank} to "
            f"all of them: {first_line(error)}; look for a rank that ended",
        )
    return BootstrapError(
        "RT401",
        f"{backend.name} did not start on rank {rank}: {first_line(error)}; check how "
        "torch and its backend are installed, or choose another backend",
        (rank,),
    )
