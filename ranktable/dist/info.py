"""Who this process is among the others."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import torch.distributed as dist

from ranktable.dist.communicator import communicator
from ranktable.dist.errors import DistError
from ranktable.runtime.environment import resolve_environment
from ranktable.runtime.job import current_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.distributed import ProcessGroup

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def is_distributed() -> bool:
    """Whether this process has joined a process group."""
    return dist.is_available() and dist.is_initialized()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Return the number of ranks of a group; 1 for a single process.

    Raises:
        NotMemberError: This rank is not in the group.
    """
    members = communicator(group)
    return 1 if members is None else members.size


def get_rank(group: ProcessGroup | None = None) -> int:
    """Return the rank within a group, the global rank without one; 0 if single.

    Raises:
        NotMemberError: This rank is not in the group.
    """
    members = communicator(group)
    return 0 if members is None else members.member


def get_backend(group: ProcessGroup | None = None) -> str | None:
    """Return the backend of a group; None for a single process.

    Raises:
        NotMemberError: This rank is not in the group.
    """
    members = communicator(group)
    return None if members is None else str(dist.get_backend(members.group))


def get_dist_info(group: ProcessGroup | None = None) -> tuple[int, int]:
    """Return the rank within a group and its size; 0 and 1 for a single process.

    Raises:
        NotMemberError: This rank is not in the group.
    """
    return get_rank(group), get_world_size(group)


def is_main_process(group: ProcessGroup | None = None) -> bool:
    """Whether this is the first rank of a group; a single process is.

    Raises:
        NotMemberError: This rank is not in the group.
    """
    return get_rank(group) == 0


def get_local_rank() -> int:
    """Return the index of this process on its node; 0 for a single process.

    Raises:
        DistError: The launcher does not say it.
    """
    if not is_distributed():
        return 0
    job = current_job()
    found = (
        resolve_environment(os.environ).local_rank if job is None else job.local_rank
    )
    if found is None:
        raise DistError(
            "nothing says which process of its node this is; start it with a launcher "
            "that does, or give the job a rank table"
        )
    return found


def get_local_size() -> int:
    """Return the number of processes on this node; 0 without a process group.

    Raises:
        DistError: Neither the rank table nor the launcher says it.
    """
    if not is_distributed():
        return 0
    job = current_job()
    if job is not None and job.table is not None:
        return len(job.table.node_of(job.rank).devices)
    environment = resolve_environment(os.environ) if job is None else job.environment
    if environment.local_world_size is None:
        raise DistError(
            "nothing says how many processes are on this node; start them with a "
            "launcher that does, or give the job a rank table"
        )
    return environment.local_world_size


def master_only(
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Result | None]:
    """Return a function that only global rank 0 calls; elsewhere it returns None."""

    @functools.wraps(function)
    def wrapper(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result | None:
        return function(*args, **kwargs) if is_main_process() else None

    return wrapper
