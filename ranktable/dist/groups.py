"""Groups of ranks, and the rank of this process in them."""

from __future__ import annotations

import functools
import os
from collections import Counter
from operator import index
from typing import TYPE_CHECKING, ParamSpec, TypeVar
from weakref import ref

import torch.distributed as dist

from ranktable.dist.collective_errors import DistError
from ranktable.dist.group_state import group_state
from ranktable.dist.objects import all_gather_object
from ranktable.runtime.job import as_argument, as_timeout, current_job
from ranktable.runtime.torch_versions import group_called, not_traced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torch.distributed import ProcessGroup

    from ranktable.dist.group_state import GroupState
    from ranktable.runtime.environment import Environment

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_made: Counter[tuple[int, ...]] = Counter()
"""How many times the members alone have made a group of these ranks."""


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
    """
    if not dist.is_initialized():
        return None
    members, size = _listed(ranks), dist.get_world_size()
    job = current_job()
    if job is not None:
        return job.new_group(members, timeout_s=timeout_s)
    if not members or len(set(members)) < len(members):
        raise ValueError(f"a group needs distinct ranks, not {members}")
    if min(members) < 0 or max(members) >= size:
        raise ValueError(f"the ranks {members} are not all among the {size} ranks")
    made: ProcessGroup = dist.new_group(
        sorted(members), **as_argument(as_timeout(timeout_s))
    )
    return made


def _listed(ranks: Iterable[int]) -> list[int]:
    try:
        return [index(rank) for rank in ranks]
    except TypeError:
        raise TypeError(f"ranks is {ranks!r}, not several ranks") from None


def local_group(group: ProcessGroup | None = None) -> ProcessGroup | None:
    """Return the group of the ranks on the node of this rank.

    The rank table says which ranks share a node; without one, their launchers do. Every
    rank makes the groups of all nodes in the same order, so nodes may have different
    numbers of ranks.

    Args:
        group: A group, on all of whose ranks this is called; None for all ranks.

    Returns:
        The group, the same for every call; None if there is no process group.

    Raises:
        DistError: Neither a rank table nor a launcher says which node a rank is on.
        NotMemberError: This rank is not in the group.
    """
    members = group_state(group)
    if members.is_single:
        return None
    group_of_node = None if members.local_group is None else members.local_group()
    if group_of_node is None:
        made = [(ranks, _make(members, ranks)) for ranks in _nodes(members)]
        group_of_node = next(each for ranks, each in made if members.rank in ranks)
        assert group_of_node is not None
        members.local_group = ref(group_of_node)
    return group_of_node


def _nodes(members: GroupState) -> list[tuple[int, ...]]:
    """Return the ranks of each node, the same on every rank."""
    job = current_job()
    if job is not None and job.table is not None:
        nodes = [[each.rank for each in node.devices] for node in job.table.nodes]
        found = [[rank for rank in node if rank in members.ranks] for node in nodes]
        return [tuple(sorted(node)) for node in found if node]
    environment = _environment() if job is None else job.environment
    said = all_gather_object((environment.node_rank, environment.host), members.group)
    unknown = [
        rank
        for rank, where in zip(members.ranks, said, strict=True)
        if where == (None, None)
    ]
    if unknown:
        raise DistError(
            f"the node of rank {unknown[0]} is not known; start it with a launcher "
            "that sets it, or give the job a rank table"
        )
    by_node: dict[object, list[int]] = {}
    for rank, where in zip(members.ranks, said, strict=True):
        by_node.setdefault(where, []).append(rank)
    return [tuple(sorted(ranks)) for ranks in by_node.values()]


def _make(members: GroupState, ranks: Sequence[int]) -> ProcessGroup | None:
    if members.group is dist.group.WORLD:
        return new_group(ranks)
    # Ranks outside the group do not call this, so only the members take part.
    if members.rank not in ranks:
        return None
    job = current_job()
    if job is not None:
        timeout_s = members.timeout.total_seconds()
        return job.new_group(ranks, timeout_s=timeout_s, among_members=True)
    _made[tuple(ranks)] += 1
    with group_called(f"{list(ranks)}, on a node, {_made[tuple(ranks)]}"):
        made: ProcessGroup = dist.new_group(
            ranks, members.timeout, use_local_synchronization=True
        )
    return made


def _environment() -> Environment:
    from ranktable.runtime.environment import (
        resolve_environment,
    )

    return resolve_environment(os.environ, has_address=True)  # the group exists


def is_distributed() -> bool:
    """Whether this process has joined a process group."""
    return dist.is_available() and dist.is_initialized()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Return the number of ranks of a group; 1 for a single process.

    Raises:
        NotMemberError: This rank is not in the group.
    """
    return group_state(group).size


def get_rank(group: ProcessGroup | None = None) -> int:
    """Return the rank within a group, the global rank without one; 0 if single.

    Raises:
        NotMemberError: This rank is not in the group.
    """
    return group_state(group).group_rank


def get_backend(group: ProcessGroup | None = None) -> str | None:
    """Return the backend of a group; None for a single process.

    Raises:
        NotMemberError: This rank is not in the group.
    """
    members = group_state(group)
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
        DistError: The launcher does not set it.
    """
    if not is_distributed():
        return 0
    job = current_job()
    found = _environment().local_rank if job is None else job.local_rank
    if found is None:
        raise DistError(
            "nothing says which process of its node this is; start it with a launcher "
            "that does, or give the job a rank table"
        )
    return found


def get_local_size() -> int:
    """Return the number of processes on this node; 0 without a process group.

    Raises:
        DistError: It is known neither from the rank table nor from the launcher.
    """
    if not is_distributed():
        return 0
    job = current_job()
    if job is not None and job.table is not None:
        return len(job.table.node_of(job.rank).devices)
    environment = _environment() if job is None else job.environment
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

    @not_traced
    @functools.wraps(function)
    def wrapper(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result | None:
        return function(*args, **kwargs) if is_main_process() else None

    return wrapper
