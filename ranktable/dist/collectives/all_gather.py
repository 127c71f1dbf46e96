"""``all_gather``: what each rank has, all get."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, overload

from ranktable.dist.action import Action
from ranktable.dist.collectives.calls import (
    all_placed,
    begin,
    copy,
    done,
    name_of,
    shape_of,
)
from ranktable.dist.communicator import communicator
from ranktable.dist.moving import gather_even, gather_uneven
from ranktable.dist.shapes import tell_all
from ranktable.dist.tensors import packed, problem_of

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup

    from ranktable.dist.work import Work


@overload
def all_gather(
    data: torch.Tensor,
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    async_op: Literal[False] = False,
) -> list[torch.Tensor]: ...
@overload
def all_gather(
    data: torch.Tensor,
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    async_op: Literal[True],
) -> Work[list[torch.Tensor]]: ...
def all_gather(
    data: torch.Tensor,
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    async_op: bool = False,
) -> Work[list[torch.Tensor]] | list[torch.Tensor]:
    """Return the tensors of all ranks of a group, on every rank.

    Args:
        data: A tensor of any shape and strides, of the same type on every rank.
        group: A group; None for all ranks.
        even: Whether the caller knows that all ranks have the same shape; then they
            need not tell each other.
        async_op: Whether to return at once.

    Returns:
        A new tensor for each rank, in the order of the group; with ``async_op`` work
        whose result this is. A single process gets a copy of its own.

    Raises:
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """
    members = communicator(group)
    problem = problem_of(data, is_told=not even)
    if members is None:
        if problem is not None:
            raise problem
        alone = done([copy(data)])
        return alone if async_op else alone.wait()
    native = begin(
        members,
        lambda: Action(
            operation="all_gather",
            dtype=name_of(data),
            shape=shape_of(data) if even else None,
        ),
        problem,
        data,
        ("all_gather", name_of(data) or "", None),
    )
    source = packed(data, members.device_for(data))
    if even:
        gathered = gather_even(native, source)
    else:
        gathered = gather_uneven(native, source, tell_all(native, source))
    work = gathered.then(partial(all_placed, data.device))
    return work if async_op else work.wait()
