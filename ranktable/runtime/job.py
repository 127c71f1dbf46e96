"""A process that has joined its job, and the groups that it makes."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ranktable.runtime import chip_map
from ranktable.runtime.torch_versions import (
    abandon_groups,
    destroy_process_groups,
    keep_groups_forever,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    import torch
    from torch._C._distributed_c10d import Store
    from torch.distributed import ProcessGroup
    from typing_extensions import Self

    from ranktable.runtime.backends.backend import Backend, Placement
    from ranktable.runtime.consensus import Spec
    from ranktable.runtime.environment import Environment
    from ranktable.runtime.store_round import StoreRound
    from ranktable.schema.model import RankTable

_LEAST_S = 0.001  # torch counts in milliseconds
_CLOSING_S = 5.0  # ranks look for an answer once a second
_YEAR_S = 366 * 24 * 3600.0  # far above any use, far below what a clock can hold

_current: Job | None = None
_old_error: BaseException | None = None
"""What an earlier cell of a notebook has raised, before this process has joined."""


def current_job() -> Job | None:
    """Return the job of this process, None if it has joined none or has left it.

    A process group that a script has made with torch itself is not a job.
    """
    return _current if _current is not None and _current.is_open else None


def enter(job: Job) -> Job:
    """Make a job that of this process, and let it close at the end; return it."""
    global _current, _old_error
    _current, _old_error = job, getattr(sys, "last_value", None)
    atexit.register(job._close_at_exit)
    return job


class Job:
    """A process that has joined its job; the end of a ``with`` block leaves the job.

    Attributes:
        environment: The facts from the launcher.
        table: The rank table, None if there is none.
        rank: Global rank of this process.
        world_size: Number of processes.
        local_rank: Index of this process on its node.
        device: The device that this process uses.
        device_id: Its chip.
        chip_map: The chip of every rank, None without a table.
        backend: Name of the communication library, or one for each type of device.
        store: The store in which the ranks of this job compare their requests.
    """

    def __init__(
        self,
        environment: Environment,
        table: RankTable | None,
        placement: Placement,
        backend: Backend,
        device: torch.device,
        timeout: timedelta | None = None,
        store: Store | None = None,
    ) -> None:
        """Describe a process that has joined; ``init_process_group`` calls this."""
        self.environment = environment
        self.table = table
        self.rank = placement.rank
        self.world_size = placement.world_size
        self.local_rank = placement.local_rank
        self.device = device
        self.device_id = placement.device_id
        self.chip_map = None if table is None else table.chip_map
        self.backend = backend.config
        self.store = store
        self._backend = backend
        self._timeout = timeout
        self._shared: dict[tuple[tuple[int, ...], float | None], ProcessGroup] = {}
        self._rounds: Counter[str] = Counter()
        self._last_round: StoreRound | None = None
        self._is_open = True
        self._process = os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether the process is still in the job."""
        import torch.distributed as dist

        return self._is_open and dist.is_initialized()

    @property
    def device_ids(self) -> list[int] | None:
        """What ``DistributedDataParallel(device_ids=...)`` takes on this backend.

        None on CPUs. Where indices go through ``CHIP_MAP``, as in SOPHGO's torch_tpu
        since July 2025, the local rank; otherwise the index of the device.
        """
        if self.device.type == "cpu":
            return None
        if chip_map.VARIABLE in os.environ and self._backend.needs_chip_map:
            return None if self.local_rank is None else [self.local_rank]
        return [self.device.index]

    def new_group(
        self, ranks: Iterable[int], *, timeout_s: float | None = None
    ) -> ProcessGroup:
        """Return the group of these ranks, with its own chip map.

        Every rank of the job must make the same calls in the same order, members or
        not. Ranks within the group follow the order of the global ranks, as in torch.

        Args:
            ranks: Global ranks of the members.
            timeout_s: Time-out of the group's collectives; by default that of the job.

        Returns:
            The group; a rank that is not a member gets torch's marker.

        Raises:
            ValueError: A rank is repeated or not in the job, or there are none; or the
                time-out is not a usable number of seconds.
            BootstrapError: Another rank asks for another group (RT405), or a member is
                missing (RT404).
        """
        listed = list(ranks)
        members = sorted(set(listed))
        if not members or len(members) < len(listed):
            raise ValueError(f"a group needs distinct ranks, not {listed}")
        if members[0] < 0 or members[-1] >= self.world_size:
            raise ValueError(
                f"the ranks {listed} are not all among the {self.world_size} ranks"
            )
        as_timeout(timeout_s)  # raises for a wrong value
        # A rank that is not a member posts its request too, but does not wait, because
        # the members may be waiting for it in the group.
        from ranktable.runtime.consensus import Spec
        from ranktable.schema.text import folded

        plural = "s" if len(members) > 1 else ""
        limit = "" if timeout_s is None else f" with timeout_s {timeout_s:g}"
        spec = Spec(
            text=f"the group of rank{plural} {folded(members)}{limit}",
            advice="let every rank make the same groups in the same order",
            noun="group",
        )
        self.refuse_other_specs("groups", spec, ranks=members, time_s=timeout_s)
        return self._make_group(members, timeout_s)

    def refuse_other_specs(
        self,
        kind: str,
        spec: Spec,
        *,
        ranks: Sequence[int] | None = None,
        time_s: float | None = None,
    ) -> None:
        """Raise unless all ranks have the same request in the same call of this kind.

        Args:
            kind: Name of this kind of request; its calls are counted.
            spec: The request of this rank.
            ranks: Global ranks that must ask; by default all.
            time_s: Seconds to wait; by default the time-out of the job.

        Raises:
            BootstrapError: A rank asks for something else (RT405), or is missing
                (RT404).
        """
        self._rounds[kind] += 1
        if self.world_size == 1:
            return
        from torch._C._distributed_c10d import PrefixStore
        from torch.distributed.distributed_c10d import (
            _get_default_store,
        )

        from ranktable.runtime.consensus import (
            refuse_other_specs,
        )

        if time_s is None and self._timeout is not None:
            time_s = self._timeout.total_seconds()
        store = self.store or _get_default_store()
        held = refuse_other_specs(
            PrefixStore(f"ranktable/{kind}", store),
            spec,
            number=self._rounds[kind],
            rank=self.rank,
            ranks=range(self.world_size) if ranks is None else ranks,
            is_urgent=ranks is not None,
            time_s=time_s,
        )
        if self.rank in held.ranks:
            self._last_round = held

    def _make_group(self, members: list[int], timeout_s: float | None) -> ProcessGroup:
        import torch.distributed as dist

        chips = None if self.chip_map is None else [self.chip_map[r] for r in members]
        timeout = self._timeout if timeout_s is None else as_timeout(timeout_s)
        return dist.new_group(  # type: ignore[no-any-return]
            members,
            backend=self.backend,
            pg_options=self._backend.group_options(chips),
            **as_argument(timeout),
        )

    def shared_group(
        self, ranks: Iterable[int], *, timeout_s: float | None = None
    ) -> ProcessGroup:
        """Return the group of these ranks, the same for every call with them.

        A communicator needs memory on every chip of its members, so axes over the same
        ranks share one. The group of all ranks is torch's default group, unless a
        time-out is given. Every rank must make the same calls in the same order. This
        is not compared here, because ``make_groups`` has compared all calls before.

        Args:
            ranks: Global ranks of the members, in any order.
            timeout_s: Time-out of the group's collectives; by default that of the job.

        Returns:
            The group; a rank that is not a member gets torch's marker.
        """
        import torch.distributed as dist

        members = tuple(sorted(ranks))
        if timeout_s is None and members == tuple(range(self.world_size)):
            assert dist.group.WORLD is not None
            return dist.group.WORLD
        key = (members, timeout_s)
        if key not in self._shared:
            self._shared[key] = self._make_group(list(members), timeout_s)
        return self._shared[key]

    def close(self) -> None:
        """Leave the job: destroy its process groups. A second call does nothing."""
        self._close()

    def _close(self, *, at_exit: bool = False) -> None:
        if not self._is_open:
            return
        self._is_open = False
        atexit.unregister(self._close_at_exit)
        if self._is_fork:
            # It has none of gloo's threads, and gloo waits for them without end when a
            # group is freed.
            keep_groups_forever()
            return
        self._shared.clear()
        import torch.distributed as dist

        if dist.is_initialized():
            # Gloo waits for what was begun, so for peers, before it ends a group.
            if self._backend.name == "gloo" and is_failing():
                abandon_groups()
            if self.rank == 0 and self._last_round is not None:
                # Most stores end with the process of rank 0.
                with contextlib.suppress(RuntimeError):  # torch's network errors
                    self._last_round.linger(_CLOSING_S)
            destroy_process_groups(at_exit=at_exit and self._backend.name == "gloo")

    def _close_at_exit(self) -> None:
        # Without this, gloo aborts the interpreter at its end (pytorch/pytorch#190489).
        # After an exception a device backend could wait for peers that ended. The
        # process ends anyway, and its peers see the connection close.
        if self._is_fork or self._backend.name == "gloo" or not is_failing():
            self._close(at_exit=True)

    @property
    def _is_fork(self) -> bool:
        """Whether this process is a fork of the one that has joined."""
        return os.getpid() != self._process

    def __enter__(self) -> Self:
        """Return the job."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the job; after an exception only if that cannot wait for peers."""
        if kind is None or self._is_fork or self._backend.name == "gloo":
            self.close()


def error_of_script() -> BaseException | None:
    """Return the exception that has ended the script since it joined, None without.

    IPython and pytest keep the last one of an earlier cell or test.
    """
    error: BaseException | None = getattr(sys, "last_value", None)
    return None if error is _old_error else error


def is_failing() -> bool:
    """Whether an exception is being handled, or has ended the script."""
    return sys.exc_info()[0] is not None or error_of_script() is not None


def as_timeout(timeout_s: float | None) -> timedelta | None:
    """Return a time-out in torch's form, None for the backend's own.

    Raises:
        ValueError: It is not a usable number of seconds.
    """
    if timeout_s is None:
        return None
    is_number = isinstance(timeout_s, (int, float))
    if not is_number or not _LEAST_S <= timeout_s <= _YEAR_S:  # NaN is not either
        raise ValueError(
            f"timeout_s is {timeout_s!r}, not a positive number of seconds from "
            f"{_LEAST_S} to {_YEAR_S:.0f} (a year)"
        )
    return timedelta(seconds=timeout_s)


def as_argument(timeout: timedelta | None) -> dict[str, Any]:
    """Return the argument of torch for a time-out; before torch 2.2 None is refused."""
    return {} if timeout is None else {"timeout": timeout}
