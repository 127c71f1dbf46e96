"""``all_reduce``: what all ranks have becomes one, on all of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, overload

from ranktable.dist import reductions
from ranktable.dist.action import Action
from ranktable.dist.agreement import agree
from ranktable.dist.collectives.calls import (
    begin,
    done,
    name_of,
    on_backend,
    shape_of,
)
from ranktable.dist.communicator import communicator
from ranktable.dist.direct import is_direct, reduce_directly
from ranktable.dist.reducing import start_all_reduce
from ranktable.dist.tensors import dtype_name, packed, problem_of, write

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup

    from ranktable.dist.reductions import Reduction
    from ranktable.dist.work import Work


@overload
def all_reduce(
    data: torch.Tensor,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    async_op: Literal[False] = False,
) -> None: ...
@overload
def all_reduce(
    data: torch.Tensor,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    async_op: Literal[True],
) -> Work[torch.Tensor]: ...
def all_reduce(
    data: torch.Tensor,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    async_op: bool = False,
) -> Work[torch.Tensor] | None:
    """Reduce a tensor over all ranks of a group, in place on every rank.

    Args:
        data: A tensor of any strides, of the same shape and type on every rank.
        op: ``sum mean product min max band bor bxor``.
        group: A group; None for all ranks.
        async_op: Whether to return at once.

    Returns:
        None; with ``async_op`` work whose result is ``data``.

    A single process keeps its values. Integers wrap, bool stays bool, a NaN stays one;
    half types are added in float32 and rounded once.

    Raises:
        ValueError: There is no such reduction.
        UnsupportedError: The result would not be exact: the mean of integers, for
            example.
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """

    def describe() -> Action:
        return Action(
            operation="all_reduce",
            reduction=op,
            dtype=name_of(data),
            shape=shape_of(data),
        )

    members = communicator(group)
    if not async_op and members is not None and is_direct(members, data, op):
        request = ("all_reduce", dtype_name(data.dtype), op)
        turn = agree(members, lambda: on_backend(describe(), "gloo"), request=request)
        reduce_directly(members, turn, data, op)
        return None
    problem = problem_of_reduction(data, op)
    if members is None:
        if problem is not None:
            raise problem
        return done(data) if async_op else None
    native = begin(
        members,
        describe,
        problem,
        data,
        ("all_reduce", name_of(data) or "", op),
    )
    source = packed(data, members.device_for(data))
    work = start_all_reduce(native, source, op).then(partial(write, data))
    if async_op:
        return work
    work.wait()
    return None


def problem_of_reduction(
    data: torch.Tensor, op: str, *, is_written: bool = True
) -> Exception | None:
    """Return why a tensor cannot be reduced, None if it can.

    Args:
        data: A tensor.
        op: How to reduce.
        is_written: Whether the result is written to it.
    """
    problem = problem_of(data, is_written=is_written)
    if problem is not None:
        return problem
    return reductions.problem_of(op, name_of(data) or "")
