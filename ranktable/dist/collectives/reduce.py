"""``reduce``: what all ranks have becomes one, on one of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, overload

from ranktable.dist.action import Action
from ranktable.dist.collectives.all_reduce import problem_of_reduction
from ranktable.dist.collectives.calls import (
    begin,
    done,
    name_of,
    shape_of,
)
from ranktable.dist.collectives.roots import root_of
from ranktable.dist.communicator import communicator
from ranktable.dist.reducing import start_all_reduce
from ranktable.dist.tensors import packed, write

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup

    from ranktable.dist.reductions import Reduction
    from ranktable.dist.work import Work


@overload
def reduce(
    data: torch.Tensor,
    dst: int | None = None,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    group_dst: int | None = None,
    async_op: Literal[False] = False,
) -> None: ...
@overload
def reduce(
    data: torch.Tensor,
    dst: int | None = None,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    group_dst: int | None = None,
    async_op: Literal[True],
) -> Work[torch.Tensor]: ...
def reduce(  # noqa: PLR0913 - torch's interface
    data: torch.Tensor,
    dst: int | None = None,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    group_dst: int | None = None,
    async_op: bool = False,
) -> Work[torch.Tensor] | None:
    """Reduce a tensor over all ranks of a group, in place on one of them.

    Args:
        data: A tensor of any strides, of the same shape and type on every rank; that
            of the other ranks does not change.
        dst: Global rank that gets the result; 0 if neither this nor ``group_dst`` is
            given.
        op: ``sum mean product min max band bor bxor``.
        group: A group; None for all ranks.
        group_dst: The rank within the group that gets it, instead of ``dst``.
        async_op: Whether to return at once.

    Returns:
        None; with ``async_op`` work whose result is ``data``.

    A single process keeps its values.

    Raises:
        ValueError: There is no such reduction.
        UnsupportedError: The result would not be exact.
        MismatchError: The ranks differ.
        NotMemberError: This rank, or the one that gets the result, is not in the group.
    """
    members = communicator(group)
    if members is None:
        problem = problem_of_reduction(data, op)
        if problem is not None:
            raise problem
        return done(data) if async_op else None
    root, wrong_root = root_of(members, dst, group_dst, "dst")
    # Elsewhere nothing is written, so there elements may share memory.
    problem = problem_of_reduction(data, op, is_written=members.member == root)
    native = begin(
        members,
        lambda: Action(
            operation="reduce",
            reduction=op,
            dtype=name_of(data),
            shape=shape_of(data),
            root=members.ranks[root],
        ),
        problem or wrong_root,
        data,
        ("reduce", name_of(data) or "", op),
    )
    source = packed(data, members.device_for(data))
    is_root = members.member == root
    reduced = start_all_reduce(native, source, op, root)
    work = reduced.then(partial(write, data) if is_root else lambda _: data)
    if async_op:
        return work
    work.wait()
    return None
