"""``all_reduce_params``: the parameters or buffers of a model, over all ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

from ranktable.dist.action import Action
from ranktable.dist.agreement import agree
from ranktable.dist.buckets import problem_of_tensors, reduce_together
from ranktable.dist.communicator import communicator
from ranktable.dist.tensors import described

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from ranktable.dist.reductions import Reduction

_MEGABYTE = 1 << 20


def all_reduce_params(
    params: Iterable[torch.Tensor],
    coalesce: bool = True,  # noqa: FBT001, FBT002 - the interface that scripts use
    bucket_size_mb: int = -1,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
) -> None:
    """Reduce parameters or buffers over all ranks of a group, in place.

    Args:
        params: Tensors, of the same shapes and types on every rank, in one order. One
            that is given twice, as tied parameters are, is reduced once.
        coalesce: Whether those of one type travel together.
        bucket_size_mb: The most mebibytes that travel together; negative for no limit.
        op: ``sum mean product min max band bor bxor``.
        group: A group; None for all ranks.

    A single process keeps its values. Each tensor keeps its type.

    Raises:
        TypeError: A parameter is no tensor.
        ValueError: There is no such reduction, or the bucket has no size.
        UnsupportedError: The result would not be exact, as for the mean of the integer
            ``num_batches_tracked`` of a BatchNorm; nothing is reduced then.
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """
    members = communicator(group)
    tensors, problem = _listed(params, op, bucket_size_mb)
    if members is None:
        if problem is not None:
            raise problem
        return
    limit = None
    if not coalesce:
        limit = 0
    elif problem is None and bucket_size_mb > 0:
        limit = bucket_size_mb * _MEGABYTE
    turn = agree(
        members,
        lambda: Action(
            operation="all_reduce_params",
            reduction=op,
            details=[
                f"in buckets of {limit} bytes" if limit is not None else "together",
                *(f"{i}: {described(each)}" for i, each in enumerate(tensors)),
            ],
        ),
        problem,
    )
    reduce_together(members, turn, tensors, op, limit)


def _distinct(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return tensors, those that are the same memory once."""
    if len({each.data_ptr() or id(each) for each in tensors}) == len(tensors):
        return tensors
    return list({_memory(each): each for each in tensors}.values())


def _memory(tensor: torch.Tensor) -> object:
    """Return what tied parameters share, however many tensors name it."""
    place = tensor.data_ptr() or id(tensor)
    return tensor.device, tensor.dtype, place, tensor.shape, tensor.stride()


def _listed(
    params: object, op: str, bucket_size_mb: object
) -> tuple[list[torch.Tensor], Exception | None]:
    """Return distinct tensors, and why they cannot be reduced."""
    if isinstance(params, torch.Tensor) or not isinstance(params, Iterable):
        return [], TypeError(f"params is {type(params).__name__}, not several tensors")
    listed = list(params)
    for place, each in enumerate(listed):
        if not isinstance(each, torch.Tensor):
            return [], TypeError(
                f"parameter {place} is {type(each).__name__}, not a tensor"
            )
    if not isinstance(bucket_size_mb, (int, float)) or not bucket_size_mb:
        return [], ValueError(
            f"bucket_size_mb is {bucket_size_mb!r}, not a number of mebibytes; -1 "
            "means no limit"
        )
    named = [(f"parameter {place}", each) for place, each in enumerate(listed)]
    problem = problem_of_tensors(named, op)
    # Only what has plain memory can be looked up by it.
    return ([] if problem is not None else _distinct(listed)), problem
