"""``shift``: each rank sends to one some places further, as pipelines and rings do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from ranktable.dist.action import Action
from ranktable.dist.collectives.calls import (
    begin,
    copy,
    done,
    name_of,
    shape_of,
)
from ranktable.dist.communicator import communicator
from ranktable.dist.moving import gather_uneven, plan_for, restored
from ranktable.dist.shapes import tell_all
from ranktable.dist.tensors import as_bytes, packed, problem_of
from ranktable.dist.work import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch.distributed import ProcessGroup

    from ranktable.dist.native import Native
    from ranktable.dist.shapes import Shape


@overload
def shift(
    data: torch.Tensor,
    by: int = 1,
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    async_op: Literal[False] = False,
) -> torch.Tensor: ...
@overload
def shift(
    data: torch.Tensor,
    by: int = 1,
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    async_op: Literal[True],
) -> Work[torch.Tensor]: ...
def shift(
    data: torch.Tensor,
    by: int = 1,
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    async_op: bool = False,
) -> Work[torch.Tensor] | torch.Tensor:
    """Send a tensor around the ring of a group, and return what comes.

    Args:
        data: A tensor of any shape and strides, of the same type on every rank.
        by: How many places it goes: to group rank ``(i + by) % N``; may be negative.
        group: A group; None for all ranks.
        even: Whether the caller knows that all ranks have the same shape.
        async_op: Whether to return at once.

    Returns:
        A new tensor, that of group rank ``(i - by) % N``; with ``async_op`` work whose
        result this is. A single process gets a copy of its own.

    Raises:
        TypeError: ``by`` is no integer.
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """
    members = communicator(group)
    problem = problem_of(data, is_told=not even)
    if type(by) is not int:
        problem, by = TypeError(f"by is {by!r}, not a number of places"), 0
    if members is None:
        if problem is not None:
            raise problem
        alone = done(copy(data))
        return alone if async_op else alone.wait()
    places = by % members.size
    native = begin(
        members,
        lambda: Action(
            operation="shift",
            dtype=name_of(data),
            shape=shape_of(data) if even else None,
            details=[f"by {places}"],
        ),
        problem,
        data,
        ("shift", name_of(data) or "", None),
    )
    source = packed(data, members.device_for(data))
    known = [tuple(source.shape)] * members.size
    shapes = known if even else tell_all(native, source)
    work = _start(native, source, places, shapes).then(
        lambda part: part.to(data.device)
    )
    return work if async_op else work.wait()


def _start(
    native: Native, data: torch.Tensor, by: int, shapes: Sequence[Shape]
) -> Work[torch.Tensor]:
    if by == 0:
        return done(copy(data))
    size, member = native.communicator.size, native.communicator.member
    source, target = (member - by) % size, (member + by) % size
    plan = plan_for(native, "shift", data)
    if plan.recipe == "gather and cut":
        everything = gather_uneven(native, data, shapes)
        return everything.then(lambda found: found[source])
    moved = as_bytes(data) if plan.as_bytes else data
    arriving = data.new_empty(shapes[source])
    output = as_bytes(arriving) if plan.as_bytes else arriving
    pending = native.pass_on(moved, target, output, source)
    return Work(lambda: restored(output, data.dtype, shapes[source]), pending)
