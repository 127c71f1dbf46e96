"""Objects that can be pickled, from rank to rank.

An object that cannot be pickled is refused on every rank, so nobody waits for the one
that has it.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import torch

from ranktable.dist.action import Action
from ranktable.dist.collectives.calls import begin
from ranktable.dist.collectives.roots import root_of
from ranktable.dist.communicator import communicator
from ranktable.dist.errors import DistError, MismatchError
from ranktable.dist.moving import (
    gather_uneven,
    start_broadcast,
    start_gather,
    start_scatter,
)
from ranktable.dist.shapes import gather_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.distributed import ProcessGroup

    from ranktable.dist.communicator import Communicator
    from ranktable.dist.native import Native

_FAILED = -1
"""Length of what could not be pickled."""


def all_gather_object(data: Any, group: ProcessGroup | None = None) -> list[Any]:  # noqa: ANN401 - any object
    """Return the objects of all ranks of a group, on every rank.

    Args:
        data: What can be pickled; a tensor on a device is put on that device of every
            rank, so move it to the CPU before.
        group: A group; None for all ranks.

    Returns:
        The objects in the order of the group, None included. A single process gets
        its own.

    Raises:
        DistError: An object cannot be pickled.
        NotMemberError: This rank is not in the group.
    """
    members = communicator(group)
    if members is None:
        return [data]
    native = begin(members, lambda: Action(operation="all_gather_object"), None)
    payload, error = _pickled(data, members.device)
    lengths = _tell_lengths(native, payload, error)
    parts = gather_uneven(native, payload, [(length,) for length in lengths]).wait()
    return _all_unpickled(members, parts)


def gather_object(
    data: Any,  # noqa: ANN401 - any object
    dst: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_dst: int | None = None,
) -> list[Any] | None:
    """Return the objects of all ranks of a group, on one of them.

    Args:
        data: What can be pickled.
        dst: Global rank that gets them; 0 if neither this nor ``group_dst`` is given.
        group: A group; None for all ranks.
        group_dst: The rank within the group that gets them, instead of ``dst``.

    Returns:
        The objects in the order of the group; None on the other ranks. A single
        process gets its own.

    Raises:
        DistError: An object cannot be pickled.
        NotMemberError: This rank, or the one that gets them, is not in the group.
    """
    members = communicator(group)
    if members is None:
        return [data]
    root, problem = root_of(members, dst, group_dst, "dst")
    native = begin(
        members,
        lambda: Action(operation="gather_object", root=members.ranks[root]),
        problem,
    )
    payload, error = _pickled(data, members.device)
    lengths = _tell_lengths(native, payload, error)
    shapes = [(length,) for length in lengths]
    parts = start_gather(native, payload, shapes, root).wait()
    if members.member != root:
        return None
    return _all_unpickled(members, parts)


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
        src: Global rank of the one whose objects all get; 0 if neither this nor
            ``group_src`` is given.
        group: A group; None for all ranks.
        group_src: Its rank within the group, instead of ``src``.

    Raises:
        DistError: An object cannot be pickled.
        MismatchError: The lists are not of one length.
        NotMemberError: This rank, or the one with the objects, is not in the group.
    """
    members = communicator(group)
    problem: Exception | None = None
    if type(data) is not list:  # it is written to
        problem = TypeError(f"data is {type(data).__name__}, not a list")
    if members is None:
        if problem is not None:
            raise problem
        return
    root, wrong_root = root_of(members, src, group_src, "src")
    native = begin(
        members,
        lambda: Action(
            operation="broadcast_object_list",
            root=members.ranks[root],
            details=[] if problem is not None else [f"of {len(data)} objects"],
        ),
        problem or wrong_root,
    )
    objects = _broadcast(native, data, root)
    if members.member != root:
        data[:] = objects


def scatter_object_list(
    objects: Sequence[Any] | None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_src: int | None = None,
) -> Any:  # noqa: ANN401 - any object
    """Return the object that one rank of a group has for this one.

    Args:
        objects: On that rank one object for each rank, in the order of the group;
            elsewhere it is not looked at.
        src: Global rank that has them; 0 if neither this nor ``group_src`` is given.
        group: A group; None for all ranks.
        group_src: Its rank within the group, instead of ``src``.

    Returns:
        The object. A single process gets its only one.

    Raises:
        DistError: An object cannot be pickled.
        MismatchError: There is not one object for each rank.
        NotMemberError: This rank, or the one that has them, is not in the group.
    """
    members = communicator(group)
    if members is None:
        problem = _problem_of_list(objects, 1)
        if problem is not None or not objects:
            raise problem or ValueError("there is no object")
        return objects[0]
    root, wrong_root = root_of(members, src, group_src, "src")
    is_root = members.member == root
    problem = _problem_of_list(objects, members.size) if is_root else None
    native = begin(
        members,
        lambda: Action(operation="scatter_object_list", root=members.ranks[root]),
        problem or wrong_root,
    )
    given = objects if is_root and objects is not None else ()
    pickles = [_pickled(each, members.device) for each in given]
    parts = [payload for payload, _ in pickles] if is_root else None
    errors = [error for _, error in pickles if error is not None]
    lengths = [part.numel() for part in parts or ()] or [0] * members.size
    if errors and is_root:
        lengths = [_FAILED] * members.size
    told = torch.tensor(lengths, device=members.device)
    native.broadcast(told, root).wait()
    _refuse_failed(native, told.tolist()[:1], errors, [root])
    shapes = [(length,) for length in told.tolist()]
    empty = torch.empty(0, dtype=torch.uint8, device=members.device)
    arrived = start_scatter(native, parts, shapes, empty, root).wait()
    return _unpickled(arrived, members.ranks[root])


def _broadcast(native: Native, objects: list[Any], root: int) -> list[Any]:
    members = native.communicator
    is_root = members.member == root
    payload, error = _pickled(objects if is_root else None, members.device)
    length = _FAILED if error is not None else payload.numel()
    told = gather_numbers(native, [length, len(objects)])
    _refuse_failed(native, [told[root][0]], [error], [root])
    counts = [count for _, count in told]
    if len(set(counts)) > 1:
        listed = [
            f"{count} on rank {rank}"
            for rank, count in zip(members.ranks, counts, strict=True)
        ]
        raise MismatchError(
            f"broadcast_object_list needs lists of one length, not {', '.join(listed)}"
        )
    payload = payload if is_root else payload.new_empty(told[root][0])
    sent = start_broadcast(native, payload, root).wait()
    return list(_unpickled(sent, members.ranks[root]))


def _problem_of_list(objects: object, count: int) -> Exception | None:
    if not isinstance(objects, (list, tuple)):
        return TypeError(f"the objects are {type(objects).__name__}, not a list")
    if len(objects) != count:
        return ValueError(f"there are {len(objects)} objects for {count} ranks")
    return None


def _pickled(
    data: object, device: torch.device
) -> tuple[torch.Tensor, Exception | None]:
    """Return the bytes of an object, and why there are none."""
    try:
        payload = pickle.dumps(data)
    except Exception as error:  # noqa: BLE001 - the object's own code raises anything
        return torch.empty(0, dtype=torch.uint8, device=device), error
    writable = bytearray(payload)
    return torch.frombuffer(writable, dtype=torch.uint8).to(device), None


def _unpickled(payload: torch.Tensor, rank: int) -> Any:  # noqa: ANN401 - any object
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


def _all_unpickled(members: Communicator, parts: Sequence[torch.Tensor]) -> list[Any]:
    pairs = zip(parts, members.ranks, strict=True)
    return [_unpickled(part, rank) for part, rank in pairs]


def _tell_lengths(
    native: Native, payload: torch.Tensor, error: Exception | None
) -> list[int]:
    """Return how many bytes each rank has.

    Raises:
        DistError: The object of a rank cannot be pickled.
    """
    own = _FAILED if error is not None else payload.numel()
    lengths = [row[0] for row in gather_numbers(native, [own])]
    _refuse_failed(native, lengths, [error], range(native.communicator.size))
    return lengths


def _refuse_failed(
    native: Native,
    lengths: Sequence[int],
    errors: Sequence[Exception | None],
    members: Sequence[int],
) -> None:
    """Raise if a rank could not pickle its object; the cause is known there only."""
    failed = [
        native.communicator.ranks[member]
        for member, length in zip(members, lengths, strict=True)
        if length == _FAILED
    ]
    if not failed:
        return
    who = ", ".join(map(str, failed))
    operation = native.turn.action.operation if native.turn is not None else "pickle"
    cause = next((error for error in errors if error is not None), None)
    raise DistError(
        f"the object that {operation} was given on rank {who} cannot be pickled; the "
        "reason is in the error of that rank"
    ) from cause
