"""Groups of some ranks."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

import torch.distributed as dist

from ranktable.dist.communicator import communicator
from ranktable.dist.errors import DistError
from ranktable.dist.objects import all_gather_object
from ranktable.runtime.environment import resolve_environment
from ranktable.runtime.job import as_timeout, current_job

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch.distributed import ProcessGroup

    from ranktable.dist.communicator import Communicator


def new_group(
    ranks: Iterable[int], *, timeout_s: float | None = None
) -> ProcessGroup | None:
    """Return the group of some ranks, None where there is no process group at all.

    Every rank of the job must make the same calls in the same order, members or not.
    In a job with a rank table the group has a chip map of its own.

    Args:
        ranks: Global ranks of the members, in any order; in the group they are sorted.
        timeout_s: Time-out of the group's collectives; by default that of the job,
            for a group that torch has made the backend's.

    Returns:
        The group. To a rank that is not in it torch's marker, which every function of
        this package refuses with NotMemberError.

    Raises:
        TypeError: What was given is no ranks.
        ValueError: A rank is repeated or not in the job, or there is none.
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
    made: ProcessGroup = dist.new_group(sorted(members), as_timeout(timeout_s))
    return made


def _listed(ranks: Iterable[int]) -> list[int]:
    try:
        return [index(rank) for rank in ranks]
    except TypeError:
        raise TypeError(f"ranks is {ranks!r}, not several ranks") from None


def local_group(group: ProcessGroup | None = None) -> ProcessGroup | None:
    """Return the group of the ranks on the node of this one.

    Which ranks share a node comes from the rank table, else from what their launchers
    say. The groups of all nodes are made on every rank, in the same order, so any node
    may have any number of ranks, with any numbers.

    Args:
        group: A group, of which every rank calls this; None for all ranks.

    Returns:
        The group, the same for every call; None where there is no process group.

    Raises:
        DistError: Neither a rank table nor a launcher says which node a rank is on.
        NotMemberError: This rank is not in the group.
    """
    members = communicator(group)
    if members is None:
        return None
    if members.local_group is None:
        made = [(ranks, _make(members, ranks)) for ranks in _nodes(members)]
        own = next(each for ranks, each in made if members.rank in ranks)
        members.local_group = own
    return members.local_group


def _nodes(members: Communicator) -> list[tuple[int, ...]]:
    """Return the ranks of each node, alike on every rank."""
    job = current_job()
    if job is not None and job.table is not None:
        nodes = [[each.rank for each in node.devices] for node in job.table.nodes]
        found = [[rank for rank in node if rank in members.ranks] for node in nodes]
        return [tuple(sorted(node)) for node in found if node]
    environment = resolve_environment() if job is None else job.environment
    said = all_gather_object((environment.node_rank, environment.host), members.group)
    unknown = [
        rank
        for rank, where in zip(members.ranks, said, strict=True)
        if where == (None, None)
    ]
    if unknown:
        raise DistError(
            f"nothing says on which node rank {unknown[0]} is; start it with a "
            "launcher that does, or give the job a rank table"
        )
    by_node: dict[object, list[int]] = {}
    for rank, where in zip(members.ranks, said, strict=True):
        by_node.setdefault(where, []).append(rank)
    return [tuple(sorted(ranks)) for ranks in by_node.values()]


def _make(members: Communicator, ranks: Sequence[int]) -> ProcessGroup | None:
    if members.group is dist.group.WORLD:
        return new_group(ranks)
    # Those outside of the group do not call this, so only its own ranks may meet.
    if members.rank not in ranks:
        return None
    job = current_job()
    if job is not None:
        timeout_s = members.timeout.total_seconds()
        return job.new_group(ranks, timeout_s=timeout_s, among_members=True)
    made: ProcessGroup = dist.new_group(
        ranks, members.timeout, use_local_synchronization=True
    )
    return made
