"""``all_to_all`` and ``shift``: every rank sends to another rank."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Literal, overload

import torch

from ranktable.dist.calls import shape_of
from ranktable.dist.group_state import group_state
from ranktable.dist.operations import begin
from ranktable.dist.steps import direct_steps, run
from ranktable.dist.tensors import (
    copy,
    cut,
    packed,
    problem_of,
    problem_of_all,
)
from ranktable.dist.transfer import exchange, exchange_shapes, gather_shapes, shift_by
from ranktable.dist.work import collective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.distributed import ProcessGroup

    from ranktable.dist.group_state import GroupState
    from ranktable.dist.steps import Steps
    from ranktable.dist.work import Work


@overload
def all_to_all(
    data: torch.Tensor,
    group: ProcessGroup | None = None,
    *,
    input_splits: Sequence[int] | None = None,
    even: bool = False,
    uneven: bool | None = None,
    async_op: Literal[False] = False,
) -> torch.Tensor: ...
@overload
def all_to_all(
    data: torch.Tensor,
    group: ProcessGroup | None = None,
    *,
    input_splits: Sequence[int] | None = None,
    even: bool = False,
    uneven: bool | None = None,
    async_op: Literal[True],
) -> Work[torch.Tensor]: ...
@overload
def all_to_all(
    data: Sequence[torch.Tensor],
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    uneven: bool | None = None,
    async_op: Literal[False] = False,
) -> list[torch.Tensor]: ...
@overload
def all_to_all(
    data: Sequence[torch.Tensor],
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    uneven: bool | None = None,
    async_op: Literal[True],
) -> Work[list[torch.Tensor]]: ...
def all_to_all(
    data: torch.Tensor | Sequence[torch.Tensor],
    group: ProcessGroup | None = None,
    *,
    input_splits: Sequence[int] | None = None,
    even: bool = False,
    uneven: bool | None = None,
    async_op: bool = False,
) -> object:
    """Send a part to every rank of a group, and return the parts from all ranks.

    Args:
        data: A tensor whose dimension 0 is divided into one part for each rank; the
            other dimensions are the same on all ranks. Or one tensor for each rank, in
            the order of the group, with any shapes and of one type.
        group: A group; None for all ranks.
        input_splits: Length of each rank's part in dimension 0; by default all equal.
        even: Whether the caller knows that all parts of all ranks have the same shape.
        uneven: See ``all_gather``.
        async_op: See ``all_gather``.

    Returns:
        For a tensor the received parts, joined along dimension 0; for a list one new
        tensor from each rank. With ``async_op`` work with this result. A single process
        gets a copy of its own data.

    Raises:
        ValueError: There is no part for each rank.
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """
    members = group_state(group)
    first = data if isinstance(data, torch.Tensor) else next(iter(data or ()), None)
    is_uneven = members.is_uneven(first, even=even, uneven=uneven)
    steps: Steps[torch.Tensor | list[torch.Tensor]] | None = None
    if input_splits is None and not is_uneven:
        steps = direct_steps(members, "all_to_all", data, async_op=async_op)
    if steps is None:
        steps = _all_to_all(members, data, input_splits, is_uneven)
    return run(members, steps, async_op=async_op)


def _all_to_all(
    members: GroupState,
    data: torch.Tensor | Sequence[torch.Tensor],
    input_splits: Sequence[int] | None,
    is_uneven: bool,
) -> Steps[torch.Tensor | list[torch.Tensor]]:
    is_one = isinstance(data, torch.Tensor)
    parts, problem = _parts(members, data, input_splits, is_uneven=is_uneven)
    first = parts[0] if parts else None
    shape = shape_of(first)
    row = None if shape is None or not is_one else tuple(shape[1:])
    operations = yield from begin(
        members,
        "all_to_all",
        first,
        problem,
        shape=None if is_uneven else shape,
        details=(f"of rows {row}" if is_one else "of a list",),
    )
    if operations is None:
        return (
            copy(data)
            if isinstance(data, torch.Tensor)
            else [copy(each) for each in parts]
        )
    sources = [packed(part, members.device_for(part)) for part in parts]
    shapes = yield from exchange_shapes(operations, sources, is_uneven=is_uneven)
    found = yield from exchange(operations, sources, shapes, is_even=not is_uneven)
    device = parts[0].device
    if is_one:
        return torch.cat(found).to(device)
    # Each result has its own memory, so that keeping one does not keep all.
    return [copy(each).to(device) for each in found]


def _parts(
    members: GroupState,
    data: torch.Tensor | Sequence[torch.Tensor],
    input_splits: Sequence[int] | None,
    *,
    is_uneven: bool,
) -> tuple[list[torch.Tensor], Exception | None]:
    """Return a tensor for each rank, and the error if this is not possible."""
    if isinstance(data, torch.Tensor):
        parts, problem = _split(data, members.size, input_splits)
    else:
        problem = problem_of_all(data, members.size, sends_shape=is_uneven)
        if problem is None and input_splits is not None:
            problem = ValueError("input_splits is for one tensor, not for a list")
        parts = [] if problem is not None else list(data)
    if problem is not None or members.is_single:
        return parts, problem
    if is_uneven:
        problem = problem_of(parts[0], sends_shape=True)
    elif len({tuple(part.shape) for part in parts}) > 1:
        problem = ValueError(
            "the parts have different shapes; pass uneven=True so that the ranks "
            "exchange their shapes"
        )
    return parts, problem


def _split(
    data: torch.Tensor, size: int, input_splits: Sequence[int] | None
) -> tuple[list[torch.Tensor], Exception | None]:
    """Return the parts of a tensor for all ranks, and the error if there are none.

    Args:
        data: A tensor, divided along dimension 0.
        size: Number of ranks.
        input_splits: Length of each part, None for equal parts.
    """
    if input_splits is None:
        return cut(data, size)
    problem = problem_of(data)
    if problem is not None:
        return [], problem
    try:
        splits = [index(each) for each in input_splits]
    except TypeError:  # perhaps on this rank only, so the others have to know
        return [], TypeError(f"input_splits is {input_splits!r}, not several integers")
    length = data.shape[0] if data.dim() else 0
    is_possible = data.dim() and len(splits) == size and min(splits) >= 0
    if not is_possible or sum(splits) != length:
        return [], ValueError(
            f"input_splits is {splits}; it needs a number for each of the {size} "
            f"ranks, together dimension 0 of shape {tuple(data.shape)}"
        )
    return list(torch.split(data, splits)), None


@collective
def shift(
    data: torch.Tensor,
    by: int = 1,
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    uneven: bool | None = None,
    async_op: bool = False,
) -> Work[torch.Tensor] | torch.Tensor:
    """Send a tensor around the ring of a group, and return the tensor received.

    Args:
        data: A tensor of any shape and strides, of the same type on every rank.
        by: The distance: rank ``i`` sends to group rank ``(i + by) % N``. May be
            negative.
        group: A group; None for all ranks.
        even: See ``all_gather``.
        uneven: See ``all_gather``.
        async_op: See ``all_gather``.

    Returns:
        A new tensor, that of group rank ``(i - by) % N``; with ``async_op`` work with
        this result. A single process gets a copy of its own.

    Raises:
        TypeError: ``by`` is not an integer.
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """
    members = group_state(group)
    is_uneven = members.is_uneven(data, even=even, uneven=uneven)
    return run(members, _shift(members, data, by, is_uneven), async_op=async_op)


def _shift(
    members: GroupState,
    data: torch.Tensor,
    by: int,
    is_uneven: bool,
) -> Steps[torch.Tensor]:
    problem = problem_of(data, sends_shape=is_uneven)
    if type(by) is not int:
        problem, by = TypeError(f"by is {by!r}, not an integer"), 0
    operations = yield from begin(
        members,
        "shift",
        data,
        problem,
        shape=None if is_uneven else shape_of(data),
        details=(f"by {by % members.size}",),
    )
    if operations is None:
        return copy(data)
    source = packed(data, members.device_for(data))
    shapes = yield from gather_shapes(operations, source, is_uneven=is_uneven)
    found = yield from shift_by(operations, source, by % members.size, shapes)
    return found.to(data.device)
