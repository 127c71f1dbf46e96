"""Send objects that can be pickled; a barrier; one random seed for all ranks.

An object that cannot be pickled is an error on every rank, so no rank waits for it.
"""

from __future__ import annotations

import pickle
import secrets
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from ranktable.dist.errors import DistError
from ranktable.dist.members import Members, begin, members_of
from ranktable.dist.work import public
from ranktable.runtime.job import as_timeout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch.distributed import ProcessGroup

__all__ = ["all_gather_object", "barrier", "broadcast_object_list", "gather_object"]
__all__ += ["scatter_object_list", "sync_random_seed"]

_NOT_PICKLED = -1
"""Sent in place of a number of bytes."""

_MOST_BYTES = 1 << 40

_BITS = 31
"""Bits of a seed that every generator accepts: NumPy takes 32, others fewer."""


@public
def all_gather_object(data: Any, group: ProcessGroup | None = None) -> list[Any]:
    """Return the objects of all ranks of a group, on every rank.

    Args:
        data: An object that can be pickled. A tensor on a device arrives on the same
            device of every rank, so move it to the CPU first.
        group: A group; None for all ranks.

    Returns:
        The objects in the order of the group. A single process gets its own.

    Raises:
        DistError: An object cannot be pickled; raised on every rank.
    """
    members = members_of(group)
    begin(members, "all_gather_object", None)
    if members.is_single:
        return [data]
    found: list[Any] = exchanged(members, data)
    return found


@public
def gather_object(
    data: Any,
    dst: int = 0,
    group: ProcessGroup | None = None,
) -> list[Any] | None:
    """Return the objects of all ranks of a group, on one of them.

    Args:
        data: An object that can be pickled.
        dst: Global rank that gets them.
        group: A group; None for all ranks.

    Returns:
        The objects in the order of the group; None on the other ranks. A single
        process gets its own.

    Raises:
        DistError: An object cannot be pickled; raised on every rank.
    """
    members = members_of(group)
    root, problem = members.root_of(dst, "dst")
    begin(members, "gather_object", problem, None, "to rank", root)
    if members.is_single:
        return [data]
    found: list[Any] | None = exchanged(members, data, root)
    return found


@public
def broadcast_object_list(
    data: list[Any],
    src: int = 0,
    group: ProcessGroup | None = None,
) -> None:
    """Replace the objects of a list by those of one rank, in place.

    Args:
        data: A list, of the same length on every rank.
        src: Global rank that sends its objects.
        group: A group; None for all ranks.

    Raises:
        DistError: An object cannot be pickled; raised on every rank.
        ValueError: The list of this rank has another length.
    """
    members = members_of(group)
    problem = _problem_of_list(data, None)
    root, problem = members.root_of(src, "src", problem)
    words = [] if problem else ["of", len(data), "objects"]
    begin(members, "broadcast_object_list", problem, None, *words, "from rank", root)
    if members.is_single:
        return
    found = broadcast_of(members, data, root)
    if len(found) != len(data):
        raise ValueError(f"data has {len(data)} objects, and was sent {len(found)}")
    if members.rank != root:
        data[:] = found


@public
def scatter_object_list(
    objects: Sequence[Any] | None,
    src: int = 0,
    group: ProcessGroup | None = None,
) -> Any:
    """Return the object that one rank of a group sends to this rank.

    All ranks receive all objects, so send large ones in another way.

    Args:
        objects: On the sending rank one object for each rank, in the order of the
            group; ignored on the others.
        src: Global rank that sends them.
        group: A group; None for all ranks.

    Returns:
        The object. A single process gets its only one.

    Raises:
        DistError: An object cannot be pickled; raised on every rank.
    """
    members = members_of(group)
    root, problem = members.root_of(src, "src")
    if members.rank == root and problem is None:
        problem = _problem_of_list(objects, members.size)
    begin(members, "scatter_object_list", problem, None, "from rank", root)
    if members.is_single:
        return objects[0]  # type: ignore[index] # else a problem
    return broadcast_of(members, objects, root)[members.group_rank]


def _problem_of_list(objects: object, count: int | None) -> Exception | None:
    """Return why objects cannot be sent; to one list all ranks write."""
    kinds = list if count is None else (list, tuple)
    if not isinstance(objects, kinds):
        return TypeError(f"the objects are {type(objects).__name__}, not a list")
    if count is not None and len(objects) != count:
        return ValueError(f"there are {len(objects)} objects for {count} ranks")
    return None


def exchanged(members: Members, data: object, root: int | None = None) -> Any:
    """Return the objects of all ranks, without comparing calls.

    Args:
        members: The group.
        data: The object of this rank.
        root: The global rank that gets them, None for all; the others get None.

    Raises:
        DistError: An object cannot be pickled.
    """
    payload, error = _pickled(data)
    length = torch.tensor([_length(payload, error)], device=members.device)
    lengths = [torch.empty_like(length) for _ in members.ranks]
    dist.all_gather(lengths, length, members.group)
    counts = torch.cat(lengths).tolist()
    pairs = zip(members.ranks, counts, strict=True)
    _refuse(dict(pairs), error)
    sent = _as_tensor(members, payload, max(counts))
    is_wanted = root in (None, members.rank)
    found = [torch.empty_like(sent) for _ in members.ranks] if is_wanted else None
    if root is None:
        dist.all_gather(found, sent, members.group)
    else:
        dist.gather(sent, found, root, members.group)
    if found is None:
        return None
    return [_unpickled(*each) for each in zip(found, members.ranks, strict=True)]


def broadcast_of(members: Members, data: object, root: int) -> Any:
    """Return the object of one rank, on every rank, without comparing calls."""
    is_root = members.rank == root
    payload, error = _pickled(data) if is_root else (bytearray(), None)
    count = _broadcast_number(members, _length(payload, error), root)
    _refuse({root: count}, error)
    sent = _as_tensor(members, payload, count)
    dist.broadcast(sent, root, members.group)
    return _unpickled(sent, root)


def _broadcast_number(members: Members, number: int, root: int) -> int:
    sent = torch.tensor([number], device=members.device)
    dist.broadcast(sent, root, members.group)
    return int(sent)


def _pickled(data: object) -> tuple[bytearray, Exception | None]:
    """Return the bytes of an object; none, and the error, if it cannot be pickled."""
    try:
        return bytearray(pickle.dumps(data)), None
    except Exception as error:  # noqa: BLE001 - the object's own code raises anything
        return bytearray(), error


def _as_tensor(members: Members, payload: bytearray, count: int) -> torch.Tensor:
    padding = bytes(count - len(payload))
    found = torch.frombuffer(payload + padding, dtype=torch.uint8)
    return found.to(members.device)


def _unpickled(payload: torch.Tensor, rank: int) -> Any:
    """Return the object of a rank; padding after a pickle is not read.

    Raises:
        DistError: It cannot be unpickled here.
    """
    memory = payload.cpu().numpy().data
    try:
        return pickle.loads(memory)  # noqa: S301 - of the ranks of the same job
    except Exception as error:
        raise DistError(
            f"the object of rank {rank} cannot be unpickled here: {error}"
        ) from error


def _length(payload: bytearray, error: Exception | None) -> int:
    return len(payload) if error is None else _NOT_PICKLED


def _refuse(counts: Mapping[int, int], error: Exception | None) -> None:
    """Raise if ranks could not pickle their object; only they know why.

    A number that is no length comes from a rank that is in another call.
    """
    failed = [rank for rank, count in counts.items() if count == _NOT_PICKLED]
    others = [rank for rank, count in counts.items() if not 0 < count <= _MOST_BYTES]
    if others and not failed:
        ranks = ", ".join(map(str, others))
        raise DistError(
            f"what came from rank {ranks} is no object, so the ranks called other "
            "functions: RANKTABLE_DIST_CHECK=1 compares the calls of all ranks"
        )
    if failed:
        ranks = ", ".join(map(str, failed))
        raise DistError(
            f"the object that was given on rank {ranks} cannot be pickled; the reason "
            "is in the error of that rank"
        ) from error


@public
def barrier(
    group: ProcessGroup | None = None, *, timeout_s: float | None = None
) -> None:
    """Wait until all ranks of a group have called this.

    Args:
        group: A group; None for all ranks.
        timeout_s: Time after which the missing ranks are named, on every backend and
            every rank; by default the time-out of the group applies, and on a device
            the device waits, not the process.

    A single process goes on at once.

    Raises:
        ValueError: The time-out is not a positive number of seconds.
        DistError: Ranks did not call this in time.
    """
    as_timeout(timeout_s)
    members = members_of(group)
    if members.is_single:
        return
    if timeout_s is not None:
        call = "barrier with a time-out"
        members.rounds.compare(call, timeout_s, is_final=members.is_checking)
        return
    begin(members, "barrier", None)
    device = members.device
    # Without a device, torch guesses one (pytorch/pytorch#60752).
    listed = None if device.type == "cpu" else [device.index]
    dist.barrier(members.group, device_ids=listed)


@public
def sync_random_seed(group: ProcessGroup | None = None) -> int:
    """Return a random number from 0 to 2 ** 31 - 1, the same on all ranks of a group.

    The first rank of the group draws it from the system, so no random generator of the
    script changes its state.

    Args:
        group: A group; None for all ranks.
    """
    members, seed = members_of(group), secrets.randbits(_BITS)
    begin(members, "sync_random_seed", None)
    if members.is_single:
        return seed
    return _broadcast_number(members, seed, members.ranks[0])
