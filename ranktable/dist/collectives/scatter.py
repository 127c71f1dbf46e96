"""``scatter``: one rank has a tensor for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from ranktable.dist.action import Action
from ranktable.dist.collectives.calls import begin, copy, done, problem_of_all
from ranktable.dist.collectives.roots import root_of
from ranktable.dist.communicator import communicator
from ranktable.dist.moving import start_scatter
from ranktable.dist.native import Native
from ranktable.dist.shapes import tell_from
from ranktable.dist.tensors import packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch.distributed import ProcessGroup

    from ranktable.dist.work import Work


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
    root, wrong_root = root_of(members, src, group_src, "src")
    is_root = members.member == root
    problem = None
    if is_root:
        problem = problem_of_all(tensors, members.size, is_told=True)
    native = begin(
        members,
        lambda: Action(operation="scatter", root=members.ranks[root]),
        problem or wrong_root,
    )
    parts = None
    if is_root and tensors:
        parts = [packed(each, members.device_for(each)) for each in tensors]
    shapes, empty = tell_from(native, parts, root)
    native = Native(members, native.turn, members.table_for(empty.device))
    own = tensors[0].device if is_root and tensors else empty.device
    scattered = start_scatter(native, parts, shapes, empty, root)
    work = scattered.then(lambda part: part.to(own))
    return work if async_op else work.wait()
