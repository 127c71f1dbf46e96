"""``broadcast``, ``all_gather``, ``gather``, ``scatter``, ``all_to_all``, ``shift``."""

from __future__ import annotations

from functools import partial
from operator import index
from typing import TYPE_CHECKING, Literal, overload

import torch

from ranktable.dist.calls import CollectiveFingerprint, shape_of
from ranktable.dist.communicator import communicator
from ranktable.dist.operations import begin
from ranktable.dist.tensors import (
    all_placed,
    as_bytes,
    copies,
    copy,
    cut,
    name_of,
    packed,
    problem_of,
    problem_of_all,
    write,
)
from ranktable.dist.transfer import (
    exchange,
    gather_even,
    gather_uneven,
    restored,
    start_broadcast,
    start_gather,
    start_scatter,
    tell_all,
    tell_each,
    tell_from,
)
from ranktable.dist.work import Work, done

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.distributed import ProcessGroup

    from ranktable.dist.communicator import Communicator
    from ranktable.dist.operations import Operations
    from ranktable.dist.transfer import Shape


@overload
def broadcast(
    data: torch.Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_src: int | None = None,
    async_op: Literal[False] = False,
) -> None: ...
@overload
def broadcast(
    data: torch.Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_src: int | None = None,
    async_op: Literal[True],
) -> Work[torch.Tensor]: ...
def broadcast(
    data: torch.Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_src: int | None = None,
    async_op: bool = False,
) -> Work[torch.Tensor] | None:
    """Send a tensor of one rank to all ranks of a group, in place.

    Args:
        data: A tensor of any strides, of the same shape and type on every rank.
        src: Global rank of the one whose values all get; 0 if neither this nor
            ``group_src`` is given.
        group: A group; None for all ranks.
        group_src: Its rank within the group, instead of ``src``.
        async_op: Whether to return at once.

    Returns:
        None; with ``async_op`` work whose result is ``data``.

    A single process keeps its values.

    Raises:
        MismatchError: The ranks differ.
        NotMemberError: This rank, or the one with the values, is not in the group.
    """
    members = communicator(group)
    if members is None:
        problem = problem_of(data, is_written=True)
        if problem is not None:
            raise problem
        return done(data) if async_op else None
    root, wrong_root = members.root_of(src, group_src, "src")
    is_root = members.group_rank == root
    # Nothing is written where the values come from, so these may share memory.
    problem = problem_of(data, is_written=not is_root) or wrong_root
    fingerprint = CollectiveFingerprint(
        "broadcast", None, name_of(data), shape_of(data), members.ranks[root]
    )
    operations = begin(
        members, fingerprint, problem, data, is_planned=True, async_op=async_op
    )
    source = packed(data, members.device_for(data))
    sent = start_broadcast(operations, source, root)
    work = sent.then((lambda _: data) if is_root else partial(write, data))
    if async_op:
        return work
    work.wait()
    return None


@overload
def all_gather(
    data: torch.Tensor,
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    uneven: bool | None = None,
    async_op: Literal[False] = False,
) -> list[torch.Tensor]: ...
@overload
def all_gather(
    data: torch.Tensor,
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    uneven: bool | None = None,
    async_op: Literal[True],
) -> Work[list[torch.Tensor]]: ...
def all_gather(
    data: torch.Tensor,
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    uneven: bool | None = None,
    async_op: bool = False,
) -> Work[list[torch.Tensor]] | list[torch.Tensor]:
    """Return the tensors of all ranks of a group, on every rank.

    Args:
        data: A tensor of any shape and strides, of the same type on every rank.
        group: A group; None for all ranks.
        even: Whether the caller knows that all ranks have the same shape.
        uneven: Whether shapes may differ, so that the ranks tell each other theirs
            first; by default on CPUs only, and not with ``even``.
        async_op: Whether to return at once, or once shapes have been told.

    Returns:
        A new tensor for each rank, in the order of the group; with ``async_op`` work
        whose result this is. A single process gets a copy of its own.

    Raises:
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """
    members = communicator(group)
    is_uneven = _is_uneven(members, data, even=even, uneven=uneven)
    problem = problem_of(data, is_told=is_uneven)
    if members is None:
        if problem is not None:
            raise problem
        alone = done([copy(data)])
        return alone if async_op else alone.wait()
    shape = None if is_uneven else shape_of(data)
    fingerprint = CollectiveFingerprint("all_gather", None, name_of(data), shape)
    operations = begin(
        members, fingerprint, problem, data, is_planned=True, async_op=async_op
    )
    source = packed(data, members.device_for(data))
    if is_uneven:
        shapes = tell_all(operations, source)
        gathered = gather_uneven(operations, source, shapes)
    else:
        gathered = gather_even(operations, source)
    work = gathered.then(partial(all_placed, data.device))
    return work if async_op else work.wait()


@overload
def gather(
    data: torch.Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_dst: int | None = None,
    even: bool = False,
    uneven: bool | None = None,
    async_op: Literal[False] = False,
) -> list[torch.Tensor]: ...
@overload
def gather(
    data: torch.Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_dst: int | None = None,
    even: bool = False,
    uneven: bool | None = None,
    async_op: Literal[True],
) -> Work[list[torch.Tensor]]: ...
def gather(  # noqa: PLR0913 - torch's interface
    data: torch.Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_dst: int | None = None,
    even: bool = False,
    uneven: bool | None = None,
    async_op: bool = False,
) -> Work[list[torch.Tensor]] | list[torch.Tensor]:
    """Return the tensors of all ranks of a group, on one of them.

    Args:
        data: A tensor of any shape and strides, of the same type on every rank.
        dst: Global rank that gets them; 0 if neither this nor ``group_dst`` is given.
        group: A group; None for all ranks.
        group_dst: The rank within the group that gets them, instead of ``dst``.
        even: Whether the caller knows that all ranks have the same shape.
        uneven: Whether shapes may differ, so that the ranks tell each other theirs
            first; by default on CPUs only, and not with ``even``.
        async_op: Whether to return at once, or once shapes have been told.

    Returns:
        A new tensor for each rank, in the order of the group; on the other ranks an
        empty list. With ``async_op`` work whose result this is. A single process gets
        a copy of its own.

    Raises:
        MismatchError: The ranks differ.
        NotMemberError: This rank, or the one that gets them, is not in the group.
    """
    members = communicator(group)
    is_uneven = _is_uneven(members, data, even=even, uneven=uneven)
    problem = problem_of(data, is_told=is_uneven)
    if members is None:
        if problem is not None:
            raise problem
        alone = done([copy(data)])
        return alone if async_op else alone.wait()
    root, wrong_root = members.root_of(dst, group_dst, "dst")
    shape = None if is_uneven else shape_of(data)
    fingerprint = CollectiveFingerprint(
        "gather", None, name_of(data), shape, members.ranks[root]
    )
    operations = begin(
        members,
        fingerprint,
        problem or wrong_root,
        data,
        is_planned=True,
        async_op=async_op,
    )
    source = packed(data, members.device_for(data))
    same = [tuple(source.shape)] * members.size
    shapes = tell_all(operations, source) if is_uneven else same
    gathered = start_gather(operations, source, shapes, root)
    work = gathered.then(partial(all_placed, data.device))
    return work if async_op else work.wait()


@overload
def scatter(
    tensors: Sequence[torch.Tensor] | None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_src: int | None = None,
    async_op: Literal[False] = False,
) -> torch.Tensor: ...
@overload
def scatter(
    tensors: Sequence[torch.Tensor] | None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_src: int | None = None,
    async_op: Literal[True],
) -> Work[torch.Tensor]: ...
def scatter(
    tensors: Sequence[torch.Tensor] | None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_src: int | None = None,
    async_op: bool = False,
) -> Work[torch.Tensor] | torch.Tensor:
    """Return the tensor that one rank of a group has for this one.

    Args:
        tensors: On that rank one tensor for each rank, in the order of the group, of
            any shapes and strides and of one type; elsewhere it is not looked at.
        src: Global rank that has them; 0 if neither this nor ``group_src`` is given.
        group: A group; None for all ranks.
        group_src: Its rank within the group, instead of ``src``.
        async_op: Whether to return at once.

    Returns:
        A new tensor; with ``async_op`` work whose result this is. A single process
        gets a copy of its only one.

    Raises:
        MismatchError: The ranks differ, or what the one has is not one for each.
        NotMemberError: This rank, or the one that has them, is not in the group.
    """
    members = communicator(group)
    if members is None:
        problem = problem_of_all(tensors, 1)
        if problem is not None or not tensors:
            raise problem or ValueError("there is no tensor")
        alone = done(copy(tensors[0]))
        return alone if async_op else alone.wait()
    root, wrong_root = members.root_of(src, group_src, "src")
    is_root = members.group_rank == root
    problem = None
    if is_root:
        problem = problem_of_all(tensors, members.size, is_told=True)
    fingerprint = CollectiveFingerprint("scatter", root=members.ranks[root])
    operations = begin(members, fingerprint, problem or wrong_root, async_op=async_op)
    parts = None
    if is_root and tensors:
        parts = [packed(each, members.device_for(each)) for each in tensors]
    shapes, empty = tell_from(operations, parts, root)
    operations = operations.on(members.backend_for(empty.device))
    own = tensors[0].device if is_root and tensors else empty.device
    scattered = start_scatter(operations, parts, shapes, empty, root)
    work = scattered.then(lambda part: part.to(own))
    return work if async_op else work.wait()


@overload
def all_to_all(
    data: torch.Tensor,
    group: ProcessGroup | None = None,
    *,
    input_splits: Sequence[int] | None = None,
    even: bool = False,
    uneven: bool | None = None,
    async_op: Literal[False] = False,
) -> torch.Tensor: ...
@overload
def all_to_all(
    data: torch.Tensor,
    group: ProcessGroup | None = None,
    *,
    input_splits: Sequence[int] | None = None,
    even: bool = False,
    uneven: bool | None = None,
    async_op: Literal[True],
) -> Work[torch.Tensor]: ...
@overload
def all_to_all(
    data: Sequence[torch.Tensor],
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    uneven: bool | None = None,
    async_op: Literal[False] = False,
) -> list[torch.Tensor]: ...
@overload
def all_to_all(
    data: Sequence[torch.Tensor],
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    uneven: bool | None = None,
    async_op: Literal[True],
) -> Work[list[torch.Tensor]]: ...
def all_to_all(  # noqa: PLR0913 - torch's interface
    data: torch.Tensor | Sequence[torch.Tensor],
    group: ProcessGroup | None = None,
    *,
    input_splits: Sequence[int] | None = None,
    even: bool = False,
    uneven: bool | None = None,
    async_op: bool = False,
) -> object:
    """Send a part to every rank of a group, and return what comes from all.

    Args:
        data: A tensor whose dimension 0 is cut into a part for each rank; the other
            dimensions are the same on all ranks. Or a tensor for each rank, in the
            order of the group, of any shapes and of one type.
        group: A group; None for all ranks.
        input_splits: How much of dimension 0 each rank gets; by default all the same.
        even: Whether the caller knows that all parts of all ranks have one shape.
        uneven: Whether shapes may differ, so that the ranks tell each other theirs
            first; by default on CPUs only, and not with ``even``.
        async_op: Whether to return at once, or once shapes have been told.

    Returns:
        For a tensor the parts that came, one after the other along dimension 0; for a
        list a new tensor of each rank. With ``async_op`` work whose result this is. A
        single process gets a copy of what it has.

    Raises:
        ValueError: There is no part for each rank.
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """
    members = communicator(group)
    size = 1 if members is None else members.size
    first = data if isinstance(data, torch.Tensor) else next(iter(data or ()), None)
    is_uneven = _is_uneven(members, first, even=even, uneven=uneven)
    if isinstance(data, torch.Tensor):
        parts, problem = _split(data, size, input_splits)
    else:
        problem = problem_of_all(data, size, is_told=is_uneven)
        if problem is None and input_splits is not None:
            problem = ValueError("input_splits is for one tensor, not for a list")
        parts = [] if problem is not None else list(data)
    if members is None:
        if problem is not None:
            raise problem
        found = copy(data) if isinstance(data, torch.Tensor) else copies(parts)
        alone: Work[object] = done(found)
        return alone if async_op else alone.wait()
    is_one = isinstance(data, torch.Tensor)
    operations = _begin_all_to_all(
        members, parts, problem, is_uneven=is_uneven, is_one=is_one, async_op=async_op
    )
    work = _start_all_to_all(operations, parts, is_uneven=is_uneven, is_one=is_one)
    return work if async_op else work.wait()


def _begin_all_to_all(  # noqa: PLR0913 - all that is compared
    members: Communicator,
    parts: list[torch.Tensor],
    problem: Exception | None,
    *,
    is_uneven: bool,
    is_one: bool,
    async_op: bool,
) -> Operations:
    first = parts[0] if parts else None
    shape = shape_of(first)
    row = None if shape is None or not is_one else tuple(shape[1:])
    if is_uneven and problem is None and first is not None:
        problem = problem_of(first, is_told=True)
    shapes = {tuple(part.shape) for part in parts}
    if not is_uneven and problem is None and len(shapes) > 1:
        problem = ValueError(
            "the parts are of different shapes; uneven=True lets the ranks tell each "
            "other theirs"
        )
    fingerprint = CollectiveFingerprint(
        "all_to_all",
        dtype=name_of(first),
        shape=None if is_uneven else shape,
        details=(f"of rows {row}" if is_one else "of a list",),
    )
    return begin(
        members, fingerprint, problem, first, is_planned=True, async_op=async_op
    )


def _start_all_to_all(
    operations: Operations, parts: list[torch.Tensor], *, is_uneven: bool, is_one: bool
) -> Work[list[torch.Tensor]] | Work[torch.Tensor]:
    members = operations.communicator
    sources = [packed(part, members.device_for(part)) for part in parts]
    same = [tuple(sources[0].shape)] * members.size
    shapes = tell_each(operations, sources) if is_uneven else same
    arrived = exchange(operations, sources, shapes, is_even=not is_uneven)
    device = parts[0].device
    if is_one:
        return arrived.then(lambda found: torch.cat(found).to(device))
    # Of their own memory: to keep or to save one must not be to keep all.
    return arrived.then(lambda found: all_placed(device, copies(found)))


def _split(
    data: torch.Tensor, size: int, input_splits: Sequence[int] | None
) -> tuple[list[torch.Tensor], Exception | None]:
    """Return the parts of a tensor for all ranks, and why there are not.

    Args:
        data: A tensor, cut along dimension 0.
        size: Number of ranks.
        input_splits: How much each gets, None for all the same.
    """
    if input_splits is None:
        return cut(data, size)
    problem = problem_of(data)
    if problem is not None:
        return [], problem
    try:
        splits = [index(each) for each in input_splits]
    except TypeError:  # on this rank only, maybe: the others have to be told
        return [], TypeError(f"input_splits is {input_splits!r}, not several integers")
    length = data.shape[0] if data.dim() else 0
    is_possible = data.dim() and len(splits) == size and min(splits) >= 0
    if not is_possible or sum(splits) != length:
        return [], ValueError(
            f"input_splits is {splits}; it needs a number for each of the {size} "
            f"ranks, together dimension 0 of shape {tuple(data.shape)}"
        )
    return list(torch.split(data, splits)), None


@overload
def shift(
    data: torch.Tensor,
    by: int = 1,
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    uneven: bool | None = None,
    async_op: Literal[False] = False,
) -> torch.Tensor: ...
@overload
def shift(
    data: torch.Tensor,
    by: int = 1,
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    uneven: bool | None = None,
    async_op: Literal[True],
) -> Work[torch.Tensor]: ...
def shift(  # noqa: PLR0913 - torch's interface
    data: torch.Tensor,
    by: int = 1,
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    uneven: bool | None = None,
    async_op: bool = False,
) -> Work[torch.Tensor] | torch.Tensor:
    """Send a tensor around the ring of a group, and return what comes.

    Args:
        data: A tensor of any shape and strides, of the same type on every rank.
        by: How many places it goes: to group rank ``(i + by) % N``; may be negative.
        group: A group; None for all ranks.
        even: Whether the caller knows that all ranks have the same shape.
        uneven: Whether shapes may differ, so that the ranks tell each other theirs
            first; by default on CPUs only, and not with ``even``.
        async_op: Whether to return at once, or once shapes have been told.

    Returns:
        A new tensor, that of group rank ``(i - by) % N``; with ``async_op`` work whose
        result this is. A single process gets a copy of its own.

    Raises:
        TypeError: ``by`` is no integer.
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """
    members = communicator(group)
    is_uneven = _is_uneven(members, data, even=even, uneven=uneven)
    problem = problem_of(data, is_told=is_uneven)
    if type(by) is not int:
        problem, by = TypeError(f"by is {by!r}, not a number of places"), 0
    if members is None:
        if problem is not None:
            raise problem
        alone = done(copy(data))
        return alone if async_op else alone.wait()
    places = by % members.size
    fingerprint = CollectiveFingerprint(
        "shift",
        dtype=name_of(data),
        shape=None if is_uneven else shape_of(data),
        details=(f"by {places}",),
    )
    operations = begin(
        members, fingerprint, problem, data, is_planned=True, async_op=async_op
    )
    source = packed(data, members.device_for(data))
    same = [tuple(source.shape)] * members.size
    shapes = tell_all(operations, source) if is_uneven else same
    work = _start_shift(operations, source, places, shapes).then(
        lambda part: part.to(data.device)
    )
    return work if async_op else work.wait()


def _start_shift(
    operations: Operations, data: torch.Tensor, by: int, shapes: Sequence[Shape]
) -> Work[torch.Tensor]:
    if by == 0:
        return done(copy(data))
    members = operations.communicator
    size, own = members.size, members.group_rank
    source, target = (own - by) % size, (own + by) % size
    plan = operations.plan("shift", data.dtype)
    if plan.recipe == "gather and cut":
        everything = gather_uneven(operations, data, shapes)
        return everything.then(lambda found: found[source])
    moved = as_bytes(data) if plan.as_bytes else data
    arriving = data.new_empty(shapes[source])
    output = as_bytes(arriving) if plan.as_bytes else arriving
    pending = operations.pass_on(moved, target, output, source)
    work = Work(lambda: restored(output, data.dtype, shapes[source]), pending)
    for each in pending:
        members.keep(work, each)
    return work


def _is_uneven(
    members: Communicator | None, data: object, *, even: bool, uneven: bool | None
) -> bool:
    """Return whether the ranks tell each other shapes before data travels."""
    if uneven is not None:
        return uneven
    if even or members is None or not isinstance(data, torch.Tensor):
        return not even
    return members.backend_for(data.device).serves_cpu
