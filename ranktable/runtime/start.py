"""The process group itself, after everybody has met."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.runtime.deadline import GRACE_S, Deadline, LateError, in_time
from ranktable.runtime.errors import BootstrapError
from ranktable.runtime.rendezvous import first_line

if TYPE_CHECKING:
    from datetime import timedelta

    import torch
    from torch._C._distributed_c10d import Store

    from ranktable.runtime.backends.backend import Backend

_GONE = re.compile(r"(?i)timed? ?out|connect|closed|reset by peer|socket|peer exited")
"""How torch and gloo word a peer that has gone, after it has met the others."""


def start_group(  # noqa: PLR0913 - the arguments of torch's own function
    backend: Backend,
    device: torch.device,
    deadline: Deadline,
    *,
    store: Store,
    rank: int,
    world_size: int,
    timeout: timedelta | None,
    pg_options: object | None,
) -> None:
    """Make torch's process group.

    Torch has one time-out for making connections and for collectives, which is too
    long for the first. On CPUs the deadline ends the first; a device is current in one
    thread only, so its backend starts here and has only torch's time-out.

    Raises:
        BootstrapError: A peer has gone since it met the others (RT404), or the backend
            does not start (RT401).
    """
    import torch.distributed as dist  # noqa: PLC0415 - torch is an extra

    def start() -> None:
        dist.init_process_group(
            backend=backend.name,
            store=store,
            rank=rank,
            world_size=world_size,
            timeout=timeout,
            pg_options=pg_options,
            device_id=device if backend.binds_device else None,
        )

    try:
        if device.type == "cpu":
            in_time(start, deadline.left_s + GRACE_S / 2)
        else:
            start()
    except LateError:
        raise BootstrapError(
            "RT404",
            f"all {world_size} ranks met, but after {deadline.time_s:g} s "
            f"{backend.name} had not connected rank {rank} to all of them; look for a "
            "rank that ended or hangs, and for a firewall",
        ) from None
    except (RuntimeError, ValueError) as error:
        raise _not_started(backend, rank, error) from error


def _not_started(backend: Backend, rank: int, error: Exception) -> BootstrapError:
    """Return the error for a group that torch could not make."""
    if _GONE.search(str(error)):
        return BootstrapError(
            "RT404",
            f"all ranks met, but {backend.name} could not connect rank {rank} to all "
            f"of them: {first_line(error)}; look for a rank that ended",
        )
    return BootstrapError(
        "RT401",
        f"{backend.name} did not start on rank {rank}: {first_line(error)}; check how "
        "torch and its backend are installed, or choose another backend",
        (rank,),
    )
