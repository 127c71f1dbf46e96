"""``all_to_all``: each rank has a part for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

import torch

from ranktable.dist.action import Action
from ranktable.dist.collectives.calls import (
    all_placed,
    begin,
    copies,
    copy,
    done,
    name_of,
    problem_of_all,
    shape_of,
)
from ranktable.dist.collectives.reduce_scatter import parts_of
from ranktable.dist.communicator import communicator
from ranktable.dist.moving import exchange
from ranktable.dist.shapes import tell_each
from ranktable.dist.tensors import packed, problem_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.distributed import ProcessGroup

    from ranktable.dist.communicator import Communicator
    from ranktable.dist.work import Work


@overload
def all_to_all(
    data: torch.Tensor,
    group: ProcessGroup | None = None,
    *,
    input_splits: Sequence[int] | None = None,
    even: bool = False,
    async_op: Literal[False] = False,
) -> torch.Tensor: ...
@overload
def all_to_all(
    data: torch.Tensor,
    group: ProcessGroup | None = None,
    *,
    input_splits: Sequence[int] | None = None,
    even: bool = False,
    async_op: Literal[True],
) -> Work[torch.Tensor]: ...
@overload
def all_to_all(
    data: Sequence[torch.Tensor],
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    async_op: Literal[False] = False,
) -> list[torch.Tensor]: ...
@overload
def all_to_all(
    data: Sequence[torch.Tensor],
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    async_op: Literal[True],
) -> Work[list[torch.Tensor]]: ...
def all_to_all(
    data: torch.Tensor | Sequence[torch.Tensor],
    group: ProcessGroup | None = None,
    *,
    input_splits: Sequence[int] | None = None,
    even: bool = False,
    async_op: bool = False,
) -> object:
    """Send a part to every rank of a group, and return what comes from all.

    Args:
        data: A tensor whose dimension 0 is cut into a part for each rank; the other
            dimensions are the same on all ranks. Or a tensor for each rank, in the
            order of the group, of any shapes and of one type.
        group: A group; None for all ranks.
        input_splits: How much of dimension 0 each rank gets; by default all the same.
        even: Whether the caller knows that all parts of all ranks have one shape; then
            they need not tell each other.
        async_op: Whether to return at once.

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
    is_one = isinstance(data, torch.Tensor)
    if isinstance(data, torch.Tensor):
        parts, problem = split(data, size, input_splits)
    else:
        problem = problem_of_all(data, size, is_told=not even)
        if problem is None and input_splits is not None:
            problem = ValueError("input_splits is for one tensor, not for a list")
        parts = [] if problem is not None else list(data)
    if members is None:
        if problem is not None:
            raise problem
        found = copy(data) if isinstance(data, torch.Tensor) else copies(parts)
        alone: Work[object] = done(found)
        return alone if async_op else alone.wait()
    work = _start(members, parts, problem, even=even, is_one=is_one)
    return work if async_op else work.wait()


def split(
    data: torch.Tensor, size: int, input_splits: Sequence[int] | None
) -> tuple[list[torch.Tensor], Exception | None]:
    """Return the parts of a tensor for all ranks, and why there are not.

    Args:
        data: A tensor, cut along dimension 0.
        size: Number of ranks.
        input_splits: How much each gets, None for all the same.
    """
    if input_splits is None:
        return parts_of(data, size)
    problem = problem_of(data)
    if problem is not None:
        return [], problem
    splits = list(input_splits)
    length = data.shape[0] if data.dim() else 0
    is_possible = data.dim() and len(splits) == size and min(splits) >= 0
    if not is_possible or sum(splits) != length:
        return [], ValueError(
            f"input_splits is {splits}; it needs a number for each of the {size} "
            f"ranks, together dimension 0 of shape {tuple(data.shape)}"
        )
    return list(torch.split(data, splits)), None


def _start(
    members: Communicator,
    parts: list[torch.Tensor],
    problem: Exception | None,
    *,
    even: bool,
    is_one: bool,
) -> Work[list[torch.Tensor]] | Work[torch.Tensor]:
    first = parts[0] if parts else None
    shape = shape_of(first)
    row = None if shape is None or not is_one else shape[1:]
    if not even and problem is None and first is not None:
        problem = problem_of(first, is_told=True)
    if even and problem is None and len({tuple(part.shape) for part in parts}) > 1:
        problem = ValueError("even=True, but the parts are of different shapes")
    native = begin(
        members,
        lambda: Action(
            operation="all_to_all",
            dtype=name_of(first),
            shape=shape if even else None,
            details=[f"of rows {row}" if is_one else "of a list"],
        ),
        problem,
        first,
        ("all_to_all", name_of(first) or "", None),
    )
    sources = [packed(part, members.device_for(part)) for part in parts]
    shapes = (
        [tuple(sources[0].shape)] * members.size if even else tell_each(native, sources)
    )
    arrived = exchange(native, sources, shapes, is_even=even)
    device = parts[0].device
    if is_one:
        return arrived.then(lambda found: torch.cat(found).to(device))
    # Of their own memory: to keep or to save one must not be to keep all.
    return arrived.then(lambda found: all_placed(device, copies(found)))
