"""The one place that starts communication."""

from __future__ import annotations

import atexit
import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from ranktable.runtime.agreement import place
from ranktable.runtime.backends import choose_backend
from ranktable.runtime.environment import resolve_environment
from ranktable.runtime.errors import BootstrapError, MissingVariableError
from ranktable.runtime.meeting import with_master
from ranktable.runtime.rendezvous import DEFAULT_TIMEOUT_S, meet, open_store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    import torch
    from torch.distributed import ProcessGroup
    from typing_extensions import Self

    from ranktable.runtime.backends.backend import Backend, Placement
    from ranktable.runtime.environment import Environment
    from ranktable.schema.model import RankTable


class Job:
    """A process that has joined its job; leaving the block leaves the job.

    Attributes:
        environment: What the launcher said.
        table: The rank table, None if there is none.
        rank: Global rank of this process.
        world_size: Number of processes.
        local_rank: Index of this process on its node.
        device: The device that this process uses.
        device_id: Its chip.
        chip_map: The chip of every rank, None without a table.
        backend: Name of the communication library.
    """

    def __init__(
        self,
        environment: Environment,
        table: RankTable | None,
        placement: Placement,
        backend: Backend,
        device: torch.device,
    ) -> None:
        """Describe a process that has joined; ``init_process_group`` makes one."""
        assert environment.world_size is not None  # noqa: S101 - it has joined
        self.environment = environment
        self.table = table
        self.rank = placement.rank
        self.world_size = environment.world_size
        self.local_rank = placement.local_rank
        self.device = device
        self.device_id = placement.device_id
        self.chip_map = None if table is None else table.chip_map
        self.backend = backend.name
        self._backend = backend
        self._is_open = True
        atexit.register(self._close_at_exit)

    def new_group(
        self, ranks: Iterable[int], *, timeout_s: float | None = None
    ) -> ProcessGroup:
        """Return the group of these ranks, with a chip_map of its own.

        Every rank of the job must make the same calls in the same order, members or
        not. Ranks within the group follow the order of the global ranks, as torch has
        it.

        Args:
            ranks: Global ranks of the members.
            timeout_s: Time-out of the group's collectives; by default the backend's.

        Returns:
            The group; for a rank that is not a member, torch's marker for that.

        Raises:
            ValueError: A rank is repeated or not in the job, or there is none.
        """
        import torch.distributed as dist  # noqa: PLC0415 - torch is an extra

        listed = list(ranks)
        members = sorted(set(listed))
        if not members or len(members) < len(listed):
            raise ValueError(f"a group needs distinct ranks, not {listed}")
        if members[0] < 0 or members[-1] >= self.world_size:
            raise ValueError(
                f"the ranks {listed} are not all among the {self.world_size} ranks"
            )
        chips = None if self.chip_map is None else [self.chip_map[r] for r in members]
        return dist.new_group(  # type: ignore[no-any-return]
            members,
            backend=self.backend,
            timeout=None if timeout_s is None else timedelta(seconds=timeout_s),
            pg_options=self._backend.group_options(chips),
        )

    def close(self) -> None:
        """Leave the job: destroy its process groups. Calling it again does nothing."""
        if not self._is_open:
            return
        self._is_open = False
        atexit.unregister(self._close_at_exit)
        import torch.distributed as dist  # noqa: PLC0415 - torch is an extra

        if dist.is_initialized():
            dist.destroy_process_group()

    def _close_at_exit(self) -> None:
        # Without this, gloo aborts the interpreter at its end (pytorch/pytorch#190489).
        # After an exception a device backend could wait for peers that are gone; the
        # process ends anyway, and its peers see the connection close.
        failed = getattr(sys, "last_value", None) is not None
        if self._backend.name == "gloo" or not failed:
            self.close()

    def __enter__(self) -> Self:
        """Return the job."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the job; after an exception only where that cannot wait for peers."""
        if kind is None or self._backend.name == "gloo":
            self.close()


def init_process_group(
    backend: str | None = None,
    *,
    table: str | os.PathLike[str] | RankTable | None = None,
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
            default 300 s for the first, and the backend's own for the second.
        master_addr: Host where the processes meet; by default the launcher's, else the
            host of rank 0 in the table.
        master_port: Port there; by default the launcher's, else 29500.

    Raises:
        LaunchEnvironmentError: The environment is incomplete, malformed, or contradicts
            itself or the table.
        RankTableError: The table is not sound.
        BootstrapError: The backend, the device or a peer is not there.
        RuntimeError: The process has a process group already.
    """
    environment = resolve_environment(os.environ)
    if environment.rank is None or environment.world_size is None:
        raise MissingVariableError(
            "RT301",
            "RANK and WORLD_SIZE are not set; start the script with a launcher: "
            "torchrun --nproc-per-node 8 SCRIPT",
            {"RANK": None, "WORLD_SIZE": None},
        )
    if timeout_s is not None and not timeout_s > 0:
        raise ValueError(f"timeout_s is {timeout_s}, not a positive number of seconds")
    found = _table(table, environment)
    placement = place(environment, found)
    chosen = choose_backend(backend)
    if chosen.needs_chip_map and found is None:
        raise MissingVariableError(
            "RT301",
            f"{chosen.name} needs a rank table; set RANK_TABLE_FILE or pass table=",
            {"RANK_TABLE_FILE": None},
        )
    environment = with_master(
        environment, found, master_addr=master_addr, master_port=master_port
    )
    return _join(environment, found, placement, chosen, timeout_s)


def _table(
    table: str | os.PathLike[str] | RankTable | None, environment: Environment
) -> RankTable | None:
    from ranktable.schema.check import load  # noqa: PLC0415 - with the model
    from ranktable.schema.model import RankTable  # noqa: PLC0415
    from ranktable.schema.writing import dumps  # noqa: PLC0415

    if isinstance(table, RankTable):
        dumps(table)  # refuses one that was made by hand and is not sound
        return table
    if table is not None:
        return load(table)
    name = environment.rank_table_file
    return None if name is None else load(name)


def _join(
    environment: Environment,
    table: RankTable | None,
    placement: Placement,
    backend: Backend,
    timeout_s: float | None,
) -> Job:
    # The device first: a vendor's package registers its backend when it is imported.
    device = backend.select_device(placement)
    import torch.distributed as dist  # noqa: PLC0415 - torch is an extra
    from torch._C._distributed_c10d import PrefixStore  # noqa: PLC0415

    if dist.is_initialized():
        raise RuntimeError("this process has a process group already")
    world_size = environment.world_size
    assert world_size is not None  # noqa: S101 - the caller has refused it
    chip_map = None if table is None else table.chip_map
    wait_s = DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s
    store = open_store(environment, os.environ, wait_s)
    meet(store, placement.rank, world_size, chip_map, wait_s)
    try:
        dist.init_process_group(
            backend=backend.name,
            store=PrefixStore("group", store),
            rank=placement.rank,
            world_size=world_size,
            timeout=None if timeout_s is None else timedelta(seconds=timeout_s),
            pg_options=backend.group_options(chip_map),
            device_id=device if backend.binds_device else None,
        )
    except (RuntimeError, ValueError) as error:
        raise BootstrapError(
            "RT401", f"{backend.name} did not start: {error}", (placement.rank,)
        ) from error
    return Job(environment, table, placement, backend, device)
