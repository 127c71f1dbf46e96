"""``all_reduce`` and similar: the values of all ranks are reduced to one."""

from __future__ import annotations

from functools import reduce as fold_all
from typing import TYPE_CHECKING, Final

import torch

from ranktable.dist.calls import shape_of
from ranktable.dist.collective_errors import UnsupportedError
from ranktable.dist.encoding import MOST_RANKS_OF_SPLIT, decode, encode
from ranktable.dist.group_state import group_state
from ranktable.dist.operations import begin
from ranktable.dist.steps import (
    OPS,
    REDUCE_SCATTER,
    direct_steps,
    mark_written,
    run,
    run_in_place,
)
from ranktable.dist.tensors import (
    copy,
    cut,
    dtype_name,
    joined,
    name_of,
    packed,
    problem_of,
    write,
)
from ranktable.dist.transfer import exchange, gather_even
from ranktable.dist.wire import problem_of_values
from ranktable.dist.work import collective, in_place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.distributed import ProcessGroup

    from ranktable.dist.collective_plan import CollectivePlan
    from ranktable.dist.group_state import GroupState
    from ranktable.dist.operations import OperationStarter
    from ranktable.dist.steps import Steps
    from ranktable.dist.wire import Reduction
    from ranktable.dist.work import Work


@in_place
def all_reduce(
    data: torch.Tensor,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    exact: bool | None = None,
    async_op: bool = False,
) -> Work[torch.Tensor] | None:
    """Reduce a tensor over all ranks of a group, in place on every rank.

    Args:
        data: A tensor of any strides, of the same shape and type on every rank.
        op: ``sum mean product min max band bor bxor``.
        group: A group; None for all ranks.
        exact: Whether half types are added in float32 and a NaN stays a NaN, on every
            backend; by default on CPUs only.
        async_op: Whether to return at once.

    Returns:
        None; with ``async_op`` work whose result is ``data``.

    A single process keeps its values. Integers wrap, bool stays bool. On CPUs, and with
    ``exact``, a NaN stays a NaN, and half types are added in float32 and rounded once.

    Raises:
        ValueError: There is no such reduction.
        UnsupportedError: The result would not be exact: the mean of integers, for
            example.
        MismatchError: The ranks differ. With ``async_op`` this is found in ``wait``.
        NotMemberError: This rank is not in the group.
    """
    members = group_state(group)
    steps: Steps[torch.Tensor] | None = None
    if exact is None:
        steps = direct_steps(members, "all_reduce", data, op, async_op=async_op)
    if steps is None:
        steps = _all_reduce(members, data, op, exact)
    return run_in_place(members, steps, async_op=async_op)


def _all_reduce(
    members: GroupState,
    data: torch.Tensor,
    op: str,
    exact: bool | None,
    checked_root: tuple[int | None, Exception | None] = (None, None),
) -> Steps[torch.Tensor]:
    """Reduce a tensor in place, on all ranks or on one of them."""
    root, wrong_root = checked_root
    # If nothing is written to the tensor, its elements may share memory.
    is_written = root is None or members.group_rank == root
    problem = problem_of(data, is_written=is_written)
    if problem is None:
        problem = problem_of_values(op, dtype_name(data.dtype)) or wrong_root
    operations = yield from begin(
        members,
        "all_reduce" if root is None else "reduce",
        data,
        problem,
        reduction=op,
        shape=shape_of(data),
        root=root,
        exact=exact,
    )
    if operations is None:
        return data
    if is_written:
        mark_written(data)
    source = packed(data, members.device_for(data))
    source = yield from reduced(operations, source, op, root)
    return write(data, source) if is_written else data


@in_place
def reduce(
    data: torch.Tensor,
    dst: int | None = None,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    group_dst: int | None = None,
    exact: bool | None = None,
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
        exact: See ``all_reduce``.
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
    members = group_state(group)
    root = members.root_of(dst, group_dst, "dst")
    return run_in_place(
        members, _all_reduce(members, data, op, exact, root), async_op=async_op
    )


@collective
def reduce_scatter(
    tensors: Sequence[torch.Tensor] | torch.Tensor,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    exact: bool | None = None,
    async_op: bool = False,
) -> Work[torch.Tensor] | torch.Tensor:
    """Reduce tensors over all ranks of a group; each rank gets the result of its part.

    Args:
        tensors: One tensor for each rank, in the order of the group, of one type; the
            i-th has the same shape on all ranks, but not that of the others. Or one
            tensor, whose dimension 0 is cut into equal parts.
        op: ``sum mean product min max band bor bxor``.
        group: A group; None for all ranks.
        exact: See ``all_reduce``.
        async_op: Whether to return at once.

    Returns:
        A new tensor of the shape of the part of this rank; with ``async_op`` work
        whose result this is. A single process gets a copy of its only part.

    If the backend has no better way, values are added in the order of the ranks, half
    types in float32.

    Raises:
        ValueError: There is no such reduction, or no equal parts.
        UnsupportedError: The result would not be exact.
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """
    members = group_state(group)
    steps: Steps[torch.Tensor] | None = None
    if exact is None:
        steps = direct_steps(members, "reduce_scatter", tensors, op, async_op=async_op)
    if steps is None:
        steps = _reduce_scatter(members, tensors, op, exact)
    return run(members, steps, async_op=async_op)


def _reduce_scatter(
    members: GroupState,
    tensors: Sequence[torch.Tensor] | torch.Tensor,
    op: str,
    exact: bool | None,
) -> Steps[torch.Tensor]:
    parts, problem = cut(tensors, members.size)
    first = parts[0] if parts else None
    problem = problem or problem_of_values(op, name_of(first) or "")
    shapes = [shape_of(part) for part in parts]
    is_even = len(set(shapes)) == 1
    operations = yield from begin(
        members,
        "reduce_scatter",
        first,
        problem,
        reduction=op,
        shape=shapes[0] if is_even else None,
        details=() if is_even else tuple(f"{i}: {s}" for i, s in enumerate(shapes)),
        exact=exact,
    )
    if operations is None:
        return copy(parts[0])
    sources = [packed(part, members.device_for(part)) for part in parts]
    found = yield from _scattered(operations, sources, op)
    return found.to(parts[0].device)


_FOLDS: Final[dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]] = {
    "sum": torch.add,
    "product": torch.mul,
    "min": torch.minimum,
    "max": torch.maximum,
    "band": torch.bitwise_and,
    "bor": torch.bitwise_or,
    "bxor": torch.bitwise_xor,
}


def reduced(
    operations: OperationStarter, data: torch.Tensor, op: str, root: int | None = None
) -> Steps[torch.Tensor]:
    """Reduce a tensor; its own memory may be overwritten.

    Args:
        operations: The backend's operations.
        data: A tensor without gaps, on a device of the backend.
        op: The reduction.
        root: The group rank that gets the result, None for all ranks.

    Returns:
        The reduced tensor; on other ranks than the root its values are undefined.
    """
    plan = operations.plan("all_reduce" if root is None else "reduce", data.dtype, op)
    if plan.recipe != "native":
        parts = yield from gather_even(operations, data)
        return _fold(parts, plan)
    wire, members = plan.wire, operations.members
    assert wire is not None
    if wire.encoding == "split integers" and members.size > MOST_RANKS_OF_SPLIT:
        raise UnsupportedError(
            f"{data.dtype} cannot be added exactly on {plan.backend} by more than "
            f"{MOST_RANKS_OF_SPLIT} ranks; reduce within smaller groups first"
        )
    encoded = encode(data, wire)
    if root is None:
        yield operations.start("all_reduce", encoded, OPS[wire.reduction])
    else:
        is_root = members.group_rank == root
        if not is_root and encoded.data_ptr() == data.data_ptr():
            encoded = encoded.clone()  # gloo leaves partial sums in the tensor
        to = members.ranks[root]
        yield operations.start("reduce", encoded, to, OPS[wire.reduction])
    return decode(encoded, wire, data.dtype, _divisor(plan, members.size))


def _scattered(
    operations: OperationStarter, parts: list[torch.Tensor], op: str
) -> Steps[torch.Tensor]:
    """Reduce one tensor for each rank.

    Args:
        operations: The backend's operations.
        parts: A tensor for each rank, without gaps; part i has the same shape
            everywhere.
        op: How to reduce.
    """
    own = parts[operations.members.group_rank]
    is_even = len({part.numel() for part in parts}) == 1
    plan = operations.plan("reduce_scatter", own.dtype, op, is_even=is_even)
    wire = plan.wire
    assert wire is not None
    if plan.recipe == "native":
        output = own.new_empty(own.numel())
        reduce_op = OPS[wire.reduction]
        yield operations.start(
            REDUCE_SCATTER.__name__, output, joined(parts), reduce_op
        )
        found = decode(output, wire, own.dtype, _divisor(plan, len(parts)))
        return found.view(own.shape)
    longest = max(part.numel() for part in parts)
    shapes = [tuple(own.shape)] * len(parts)
    arrived = yield from exchange(
        operations, parts, shapes, is_even=is_even, longest=longest
    )
    return _fold(arrived, plan)


def _divisor(plan: CollectivePlan, size: int) -> int:
    return size if plan.reduction == "mean" else 1


def _fold(parts: Sequence[torch.Tensor], plan: CollectivePlan) -> torch.Tensor:
    """Return the reduced tensor of all ranks, in the order of the ranks.

    Args:
        parts: One tensor of each rank, all of one shape.
        plan: The plan of the reduction.
    """
    wire = plan.wire
    assert wire is not None
    encoded = fold_all(_FOLDS[wire.reduction], (encode(part, wire) for part in parts))
    return decode(encoded, wire, parts[0].dtype, _divisor(plan, len(parts)))
