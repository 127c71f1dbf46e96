"""Send objects that can be pickled; a barrier; one random seed for all ranks.

An object that cannot be pickled is refused on every rank, so no rank waits for it.
"""

from __future__ import annotations

import pickle
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import torch

from ranktable.dist.calls import wait_for_all
from ranktable.dist.collective_errors import DistError, MismatchError
from ranktable.dist.group_state import group_state
from ranktable.dist.operations import begin
from ranktable.dist.steps import finish
from ranktable.dist.transfer import (
    broadcast_to_all,
    gather_numbers,
    gather_to,
    gather_uneven,
    scatter_from,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.distributed import ProcessGroup

    from ranktable.dist.group_state import GroupState
    from ranktable.dist.operations import OperationStarter


def all_gather_object(data: Any, group: ProcessGroup | None = None) -> list[Any]:
    """Return the objects of all ranks of a group, on every rank.

    Args:
        data: An object that can be pickled. A tensor on a device arrives on the same
            device of every rank, so move it to the CPU first.
        group: A group; None for all ranks.

    Returns:
        The objects in the order of the group, None included. A single process gets
        its own.

    Raises:
        DistError: An object cannot be pickled.
        NotMemberError: This rank is not in the group.
    """
    return gather_objects(group_state(group), data, "all_gather_object")


def gather_objects(
    members: GroupState,
    data: object,
    operation: str,
    root: int | None = None,
    problem: Exception | None = None,
) -> list[Any]:
    """Return the objects of all ranks, on every rank or on one.

    Args:
        members: The group.
        data: The object of this rank.
        operation: The name that the ranks compare.
        root: The group rank that gets them, None for all; the others get none.
        problem: Why this rank cannot do it.
    """
    operations = finish(begin(members, operation, None, problem, root=root))
    if operations is None:
        return [data]
    payload, error = _pickled(data, members.device)
    lengths = gather_numbers(operations, [payload.numel()])
    _refuse_failed(operations, [each for [each] in lengths], error)
    shapes = [(each,) for [each] in lengths]
    if root is None:
        parts = finish(gather_uneven(operations, payload, shapes))
    else:
        parts = finish(gather_to(operations, payload, shapes, root))
    pairs = zip(parts, members.ranks, strict=False)  # there may be no parts
    return [_unpickled(part, rank) for part, rank in pairs]


def gather_object(
    data: Any,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_dst: int | None = None,
) -> list[Any] | None:
    """Return the objects of all ranks of a group, on one of them.

    Args:
        data: An object that can be pickled.
        dst: Global rank that gets them; 0 if neither this nor ``group_dst`` is given.
        group: A group; None for all ranks.
        group_dst: The rank within the group that gets them, instead of ``dst``.

    Returns:
        The objects in the order of the group; None on the other ranks. A single
        process gets its own.

    Raises:
        DistError: An object cannot be pickled.
        NotMemberError: This rank, or the receiving one, is not in the group.
    """
    members = group_state(group)
    root, problem = members.root_of(dst, group_dst, "dst")
    found = gather_objects(members, data, "gather_object", root, problem)
    return found if members.group_rank == root else None


def broadcast_object_list(
    data: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_src: int | None = None,
) -> None:
    """Replace the objects of a list by those of one rank, in place.

    Args:
        data: A list, of the same length on every rank.
        src: Global rank that sends its objects; 0 if neither this nor ``group_src`` is
            given.
        group: A group; None for all ranks.
        group_src: Its rank within the group, instead of ``src``.

    Raises:
        DistError: An object cannot be pickled.
        MismatchError: The lists have different lengths.
        NotMemberError: This rank, or the sending one, is not in the group.
    """
    members = group_state(group)
    root, problem = members.root_of(src, group_src, "src")
    details: tuple[str, ...] = ()
    if type(data) is list:  # it is written to
        details = (f"of {len(data)} objects",)
    else:
        problem = TypeError(f"data is {type(data).__name__}, not a list")
    steps = begin(
        members, "broadcast_object_list", None, problem, root=root, details=details
    )
    operations = finish(steps)
    if operations is None:
        return
    is_root = members.group_rank == root
    payload, error = _pickled(data if is_root else None, members.device)
    numbers = gather_numbers(operations, [payload.numel(), len(data)])
    _refuse_failed(operations, [numbers[root][0]], error, root)
    counts = [count for _, count in numbers]
    if len(set(counts)) > 1:
        pairs = zip(members.ranks, counts, strict=True)
        listed = [f"{count} on rank {rank}" for rank, count in pairs]
        raise MismatchError(
            f"broadcast_object_list needs lists of one length, not {', '.join(listed)}"
        )
    payload = payload if is_root else payload.new_empty(numbers[root][0])
    sent = finish(broadcast_to_all(operations, payload, root))
    objects = list(_unpickled(sent, members.ranks[root]))
    if not is_root:
        data[:] = objects


def scatter_object_list(
    objects: Sequence[Any] | None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_src: int | None = None,
) -> Any:
    """Return the object that one rank of a group sends to this rank.

    Args:
        objects: On the sending rank one object for each rank, in the order of the
            group; ignored on the others.
        src: Global rank that sends them; 0 if neither this nor ``group_src`` is given.
        group: A group; None for all ranks.
        group_src: Its rank within the group, instead of ``src``.

    Returns:
        The object. A single process gets its only one.

    Raises:
        DistError: An object cannot be pickled.
        MismatchError: There is not one object for each rank.
        NotMemberError: This rank, or the sending one, is not in the group.
    """
    members = group_state(group)
    root, problem = members.root_of(src, group_src, "src")
    is_root = members.group_rank == root
    if is_root:
        problem = _problem_of_list(objects, members.size) or problem
    steps = begin(members, "scatter_object_list", None, problem, root=root)
    operations = finish(steps)
    given = objects if is_root and objects is not None else ()
    if operations is None:
        return given[0]
    pickles = [_pickled(each, members.device) for each in given]
    parts = [payload for payload, _ in pickles] if is_root else None
    error = next((error for _, error in pickles if error is not None), None)
    lengths = [part.numel() for part in parts or ()] or [0] * members.size
    sent = torch.tensor(lengths, device=members.device)
    operations.start("broadcast", sent, members.ranks[root]).wait()
    lengths = sent.tolist()
    _refuse_failed(operations, [min(lengths)], error, root)
    shapes = [(length,) for length in lengths]
    empty = torch.empty(0, dtype=torch.uint8, device=members.device)
    arrived = finish(scatter_from(operations, parts, shapes, empty, root))
    return _unpickled(arrived, members.ranks[root])


def _problem_of_list(objects: object, count: int) -> Exception | None:
    if not isinstance(objects, (list, tuple)):
        return TypeError(f"the objects are {type(objects).__name__}, not a list")
    if len(objects) != count:
        return ValueError(f"there are {len(objects)} objects for {count} ranks")
    return None


def _pickled(
    data: object, device: torch.device
) -> tuple[torch.Tensor, Exception | None]:
    """Return the bytes of an object; none, and the error, if it cannot be pickled."""
    try:
        payload = pickle.dumps(data)
    except Exception as error:  # noqa: BLE001 - the object's own code raises anything
        return torch.empty(0, dtype=torch.uint8, device=device), error
    writable = bytearray(payload)
    return torch.frombuffer(writable, dtype=torch.uint8).to(device), None


def _unpickled(payload: torch.Tensor, rank: int) -> Any:
    """Return the object of a rank.

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


def _refuse_failed(
    operations: OperationStarter,
    lengths: Sequence[int],
    error: Exception | None,
    first: int = 0,
) -> None:
    """Raise if a rank could not pickle its object; only that rank knows the cause.

    Args:
        operations: The operations of this collective.
        lengths: The bytes of the object of each rank; a pickle is never empty.
        error: Why this rank could not pickle its own.
        first: The group rank of the first length.
    """
    ranks = operations.members.ranks[first:]
    failed = [rank for rank, length in zip(ranks, lengths, strict=False) if not length]
    if not failed:
        return
    assert operations.call is not None
    operation = operations.call.fingerprint.operation
    raise DistError(
        f"the object that {operation} was given on rank {', '.join(map(str, failed))} "
        "cannot be pickled; the reason is in the error of that rank"
    ) from error


_LONGEST_S: Final = timedelta.max.total_seconds()


def barrier(
    group: ProcessGroup | None = None, *, timeout_s: float | None = None
) -> None:
    """Wait until all ranks of a group have called this.

    Args:
        group: A group; None for all ranks.
        timeout_s: Time after which the missing ranks are named, on every backend and
            every rank; by default the backend's own time-out applies.

    A single process goes on at once.

    Raises:
        ValueError: The time-out is not a positive number of seconds.
        DistError: Ranks did not call this in time.
        MismatchError: A rank does something else.
        NotMemberError: This rank is not in the group.
    """
    problem = None
    if timeout_s is not None and not _is_time(timeout_s):
        said = f"timeout_s is {timeout_s!r}, not a positive number of seconds"
        problem = ValueError(said)
    members = group_state(group)
    if timeout_s is not None and problem is None and not members.is_single:
        wait_for_all(members, timeout_s)
        return
    operations = finish(begin(members, "barrier", None, problem))
    if operations is not None:
        device = members.device
        # Without a device, torch guesses one (pytorch/pytorch#60752).
        listed = None if device.type == "cpu" else [device.index]
        operations.start("barrier", device_ids=listed).wait()


def _is_time(timeout_s: object) -> bool:
    return isinstance(timeout_s, (int, float)) and 0 < timeout_s < _LONGEST_S


_BITS = 31
"""Bits of a seed that every generator accepts: NumPy takes 32, others fewer."""


def sync_random_seed(group: ProcessGroup | None = None) -> int:
    """Return a random number, the same on all ranks of a group.

    The first rank of the group draws it from the system, so no random generator of the
    script changes its state.

    Args:
        group: A group; None for all ranks.

    Returns:
        A number from 0 to 2 ** 31 - 1; for a single process one of its own.

    Raises:
        NotMemberError: This rank is not in the group.
    """
    members, seed = group_state(group), secrets.randbits(_BITS)
    operations = finish(begin(members, "sync_random_seed"))
    if operations is None:
        return seed
    sent = torch.tensor([seed], device=members.device)
    operations.start("broadcast", sent, members.ranks[0]).wait()
    return int(sent)
