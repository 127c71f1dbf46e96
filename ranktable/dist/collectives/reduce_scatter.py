"""``reduce_scatter``: what all ranks have for a rank becomes one, on that rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

import torch

from ranktable.dist import reductions
from ranktable.dist.action import Action
from ranktable.dist.collectives.calls import (
    begin,
    copy,
    done,
    name_of,
    problem_of_all,
    shape_of,
)
from ranktable.dist.communicator import communicator
from ranktable.dist.reducing import start_reduce_scatter
from ranktable.dist.tensors import packed, problem_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.distributed import ProcessGroup

    from ranktable.dist.reductions import Reduction
    from ranktable.dist.work import Work


@overload
def reduce_scatter(
    tensors: Sequence[torch.Tensor] | torch.Tensor,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    async_op: Literal[False] = False,
) -> torch.Tensor: ...
@overload
def reduce_scatter(
    tensors: Sequence[torch.Tensor] | torch.Tensor,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    async_op: Literal[True],
) -> Work[torch.Tensor]: ...
def reduce_scatter(
    tensors: Sequence[torch.Tensor] | torch.Tensor,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    async_op: bool = False,
) -> Work[torch.Tensor] | torch.Tensor:
    """Reduce a tensor for each rank over all ranks of a group, each to its own.

    Args:
        tensors: One tensor for each rank, in the order of the group, of one type; the
            i-th has the same shape on all ranks, but not that of the others. Or one
            tensor, whose dimension 0 is cut into equal parts.
        op: ``sum mean product min max band bor bxor``.
        group: A group; None for all ranks.
        async_op: Whether to return at once.

    Returns:
        A new tensor of the shape of the part of this rank; with ``async_op`` work
        whose result this is. A single process gets a copy of its only part.

    Where the backend does not do better, values are added in the order of the ranks,
    half types in float32.

    Raises:
        ValueError: There is no such reduction, or no equal parts.
        UnsupportedError: The result would not be exact.
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """
    members = communicator(group)
    size = 1 if members is None else members.size
    parts, problem = parts_of(tensors, size)
    first = parts[0] if parts else None
    problem = problem or reductions.problem_of(op, name_of(first) or "")
    if members is None:
        if problem is not None:
            raise problem
        alone = done(copy(parts[0]))
        return alone if async_op else alone.wait()
    native = begin(
        members,
        lambda: Action(
            operation="reduce_scatter",
            reduction=op,
            dtype=name_of(first),
            details=[f"{i}: {shape_of(part)}" for i, part in enumerate(parts)],
        ),
        problem,
        first,
        ("reduce_scatter", name_of(first) or "", op),
    )
    sources = [packed(part, members.device_for(part)) for part in parts]
    device = parts[0].device
    work = start_reduce_scatter(native, sources, op).then(lambda part: part.to(device))
    return work if async_op else work.wait()


def parts_of(
    tensors: Sequence[torch.Tensor] | torch.Tensor, size: int
) -> tuple[list[torch.Tensor], Exception | None]:
    """Return a tensor for each rank, and why there is not.

    Args:
        tensors: What the caller gave: one for each rank, or one to be cut.
        size: Number of ranks.
    """
    if not isinstance(tensors, torch.Tensor):
        problem = problem_of_all(tensors, size)
        return ([] if problem is not None else list(tensors)), problem
    problem = problem_of(tensors)
    if problem is not None:
        return [], problem
    if tensors.dim() == 0 or tensors.shape[0] % size:
        return [], ValueError(
            f"dimension 0 of shape {tuple(tensors.shape)} cannot be cut into {size} "
            "equal parts; pass a list with a tensor for each rank"
        )
    return list(tensors.chunk(size)) if tensors.shape[0] else [tensors] * size, None
