"""``gather``: what each rank has, one gets."""

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
from ranktable.dist.collectives.roots import root_of
from ranktable.dist.communicator import communicator
from ranktable.dist.moving import start_gather
from ranktable.dist.shapes import tell_all
from ranktable.dist.tensors import packed, problem_of

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup

    from ranktable.dist.work import Work


@overload
def gather(
    data: torch.Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_dst: int | None = None,
    even: bool = False,
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
    async_op: Literal[True],
) -> Work[list[torch.Tensor]]: ...
def gather(  # noqa: PLR0913 - torch's interface
    data: torch.Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_dst: int | None = None,
    even: bool = False,
    async_op: bool = False,
) -> Work[list[torch.Tensor]] | list[torch.Tensor]:
    """Return the tensors of all ranks of a group, on one of them.

    Args:
        data: A tensor of any shape and strides, of the same type on every rank.
        dst: Global rank that gets them; 0 if neither this nor ``group_dst`` is given.
        group: A group; None for all ranks.
        group_dst: The rank within the group that gets them, instead of ``dst``.
        even: Whether the caller knows that all ranks have the same shape.
        async_op: Whether to return at once.

    Returns:
        A new tensor for each rank, in the order of the group; on the other ranks an
        empty list. With ``async_op`` work whose result this is. A single process gets
        a copy of its own.

    Raises:
        MismatchError: The ranks differ.
        NotMemberError: This rank, or the one that gets them, is not in the group.
    """
    members = communicator(group)
    problem = problem_of(data, is_told=not even)
    if members is None:
        if problem is not None:
            raise problem
        alone = done([copy(data)])
        return alone if async_op else alone.wait()
    root, wrong_root = root_of(members, dst, group_dst, "dst")
    native = begin(
        members,
        lambda: Action(
            operation="gather",
            dtype=name_of(data),
            shape=shape_of(data) if even else None,
            root=members.ranks[root],
        ),
        problem or wrong_root,
        data,
        ("gather", name_of(data) or "", None),
    )
    source = packed(data, members.device_for(data))
    known = [tuple(source.shape)] * members.size
    shapes = known if even else tell_all(native, source)
    gathered = start_gather(native, source, shapes, root)
    work = gathered.then(partial(all_placed, data.device))
    return work if async_op else work.wait()
