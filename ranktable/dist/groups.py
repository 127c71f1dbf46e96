"""Groups of ranks, and the rank of this process in them."""

from __future__ import annotations

import functools
import os
from operator import index
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import torch.distributed as dist

from ranktable.dist.check import announce_end
from ranktable.dist.errors import DistError
from ranktable.dist.members import members_of
from ranktable.dist.work import public
from ranktable.runtime.environment import Environment, resolve_environment
from ranktable.runtime.job import as_argument, as_timeout, current_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch.distributed import ProcessGroup

__all__ = ["get_backend", "get_dist_info", "get_local_rank", "get_local_size"]
__all__ += ["get_rank", "get_world_size", "is_distributed", "is_main_process"]
__all__ += ["master_only", "new_group"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@public
def new_group(
    ranks: Iterable[int], *, timeout_s: float | None = None
) -> ProcessGroup | None:
    """Return the group of some ranks, None if there is no process group.

    Every rank of the job must make the same calls in the same order, members or not.
    In a job with a rank table the group has its own chip map.

    Args:
        ranks: Global ranks of the members, in any order; in the group they are sorted.
        timeout_s: Time-out of the group's collectives; by default that of the job, or
            the backend's default if torch made the default group.

    Returns:
        The group. A rank that is not a member gets torch's marker, which every function
        of this package refuses with NotMemberError.

    Raises:
        TypeError: ``ranks`` is not a list of ranks.
        ValueError: A rank is repeated or not in the job, or the list is empty.
        BootstrapError: In a job of this package, another rank asks for another group.
        DistError: Torch cannot make it.
    """
    if not is_distributed():
        return None
    try:
        members = [index(rank) for rank in ranks]
    except TypeError:
        raise TypeError(f"ranks is {ranks!r}, not several ranks") from None
    group = _made(members, timeout_s)
    if dist.get_rank() in members:
        announce_end(members_of(group))
    return group


def _made(members: list[int], timeout_s: float | None) -> ProcessGroup:
    job = current_job()
    if job is not None:
        return job.new_group(members, timeout_s=timeout_s)
    if not members or len(set(members)) < len(members):
        raise ValueError(f"a group needs distinct ranks, not {members}")
    timeout = as_argument(as_timeout(timeout_s))
    made: ProcessGroup = dist.new_group(sorted(members), **timeout)
    return made


def is_distributed() -> bool:
    """Whether this process has joined a process group."""
    return dist.is_initialized()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Return the number of ranks of a group; 1 for a single process.

    Raises:
        NotMemberError: This rank is not in the group.
    """
    return members_of(group).size


def get_rank(group: ProcessGroup | None = None) -> int:
    """Return the rank within a group, the global rank without one; 0 if single.

    Raises:
        NotMemberError: This rank is not in the group.
    """
    return members_of(group).group_rank


def get_backend(group: ProcessGroup | None = None) -> str | None:
    """Return the backend of a group; None for a single process.

    Raises:
        NotMemberError: This rank is not in the group.
    """
    members = members_of(group)
    return None if members.is_single else str(dist.get_backend(members.group))


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
        DistError: Neither the launcher nor a rank table says it.
    """
    if not is_distributed():
        return 0
    job = current_job()
    found = _environment().local_rank if job is None else job.local_rank
    return _known(found, "which process of its node this is")


def get_local_size() -> int:
    """Return the number of processes on this node; 0 without a process group.

    Raises:
        DistError: Neither the launcher nor a rank table says it.
    """
    if not is_distributed():
        return 0
    job = current_job()
    if job is not None and job.table is not None:
        return len(job.table.node_of(job.rank).devices)
    environment = _environment() if job is None else job.environment
    return _known(environment.local_world_size, "how many processes are on this node")


def _environment() -> Environment:
    return resolve_environment(os.environ, has_address=True)  # the group exists


def _known(found: int | None, what: str) -> int:
    if found is None:
        raise DistError(
            f"nothing says {what}; start it with a launcher that does, or give the job "
            "a rank table"
        )
    return found


def master_only(
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Result | None]:
    """Return a function that only global rank 0 calls; elsewhere it returns None."""

    @functools.wraps(function)
    def wrapper(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result | None:
        return function(*args, **kwargs) if is_main_process() else None

    return wrapper
