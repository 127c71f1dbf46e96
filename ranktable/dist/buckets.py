"""Several tensors that are reduced together: one collective for each type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch._utils import _unflatten_dense_tensors

from ranktable.dist import reductions
from ranktable.dist.native import Native
from ranktable.dist.planning import make_plan
from ranktable.dist.reducing import start_all_reduce
from ranktable.dist.tensors import dtype_name, joined, packed, problem_of, write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.dist.action import Turn
    from ranktable.dist.communicator import Communicator


def problem_of_tensors(
    tensors: Sequence[tuple[object, torch.Tensor]], op: str
) -> Exception | None:
    """Return why tensors cannot be reduced in place, None if they can.

    Args:
        tensors: Tensors, and what to call each.
        op: How to reduce.
    """
    if not reductions.is_reduction(op):
        return reductions.problem_of(op, "float32")
    for name, tensor in tensors:
        problem = problem_of(tensor, is_written=True)
        if problem is None:
            problem = reductions.problem_of(op, dtype_name(tensor.dtype))
        if problem is not None:
            return type(problem)(f"{name}: {problem}")
    return None


def reduce_together(
    members: Communicator,
    turn: Turn,
    tensors: Sequence[torch.Tensor],
    op: str,
    bucket_bytes: int | None = None,
) -> None:
    """Reduce tensors over all ranks of a group, in place.

    Args:
        members: The group.
        turn: The collective, on which the ranks have agreed.
        tensors: Tensors of any strides.
        op: How to reduce.
        bucket_bytes: The most bytes of one collective; None for no limit. A tensor is
            never cut.
    """
    buckets = list(_buckets(members, tensors, bucket_bytes))
    for bucket in buckets:  # all or none: what is refused must not leave half of them
        backend = members.table_for(bucket[0].device)
        make_plan(backend, "all_reduce", dtype_name(bucket[0].dtype), op)
    works = []
    for bucket in buckets:
        native = Native(members, turn, members.table_for(bucket[0].device))
        device = members.device_for(bucket[0])
        flat = joined([packed(each, device) for each in bucket])
        works.append(start_all_reduce(native, flat, op))
    for bucket, work in zip(buckets, works, strict=True):
        _write_all(bucket, work.wait())


def _buckets(
    members: Communicator, tensors: Sequence[torch.Tensor], limit: int | None
) -> Iterator[list[torch.Tensor]]:
    """Yield tensors of one type and device, in an order that all ranks have."""
    kinds: dict[tuple[torch.dtype, str], list[torch.Tensor]] = {}
    for tensor in tensors:
        kind = tensor.dtype, members.device_for(tensor).type
        kinds.setdefault(kind, []).append(tensor)
    for same in kinds.values():
        bucket: list[torch.Tensor] = []
        filled = 0
        for tensor in same:
            if bucket and limit is not None and filled + tensor.nbytes > limit:
                yield bucket
                bucket, filled = [], 0
            bucket.append(tensor)
            filled += tensor.nbytes
        yield bucket


def _write_all(tensors: Sequence[torch.Tensor], values: torch.Tensor) -> None:
    if len(tensors) == 1:
        write(tensors[0], values)
        return
    # Torch gives what is empty one dimension, whatever it has.
    targets = [tensor.detach() for tensor in tensors if tensor.numel()]
    if targets:
        pieces = _unflatten_dense_tensors(  # type: ignore[no-untyped-call]
            values.reshape(-1), targets
        )
        torch._foreach_copy_(targets, list(pieces))
