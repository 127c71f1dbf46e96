"""``broadcast``, ``all_gather``, ``gather``, ``scatter``: tensors are moved."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.dist.calls import shape_of
from ranktable.dist.group_state import group_state
from ranktable.dist.operations import begin
from ranktable.dist.steps import (
    direct_steps,
    mark_written,
    run,
    run_in_place,
)
from ranktable.dist.tensors import (
    copy,
    packed,
    problem_of,
    problem_of_all,
    write,
)
from ranktable.dist.transfer import (
    broadcast_to_all,
    gather_shapes,
    gather_to,
    gather_uneven,
    scatter_from,
    scatter_shapes,
)
from ranktable.dist.work import collective, in_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch.distributed import ProcessGroup

    from ranktable.dist.group_state import GroupState
    from ranktable.dist.steps import Steps
    from ranktable.dist.work import Work


@in_place
def broadcast(
    data: torch.Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_src: int | None = None,
    async_op: bool = False,
) -> Work[torch.Tensor] | None:
    """Send a tensor of one rank to all ranks of a group, in place.

    Args:
        data: A tensor of any strides, of the same shape and type on every rank.
        src: Global rank that sends its values; 0 if neither this nor ``group_src`` is
            given.
        group: A group; None for all ranks.
        group_src: Its rank within the group, instead of ``src``.
        async_op: Whether to return at once.

    Returns:
        None; with ``async_op`` work whose result is ``data``.

    A single process keeps its values.

    Raises:
        MismatchError: The ranks differ.
        NotMemberError: This rank, or the sending one, is not in the group.
    """
    members = group_state(group)
    root, problem = members.root_of(src, group_src, "src")
    steps: Steps[torch.Tensor] | None = None
    if problem is None:
        global_root = members.ranks[root]
        steps = direct_steps(
            members, "broadcast", data, root=global_root, async_op=async_op
        )
    if steps is None:
        steps = _broadcast(members, data, root, problem)
    return run_in_place(members, steps, async_op=async_op)


def _broadcast(
    members: GroupState, data: torch.Tensor, root: int, wrong_root: Exception | None
) -> Steps[torch.Tensor]:
    is_written = members.is_single or members.group_rank != root
    # The sending rank does not write to its tensor, so its elements may share memory.
    problem = problem_of(data, is_written=is_written) or wrong_root
    operations = yield from begin(
        members, "broadcast", data, problem, shape=shape_of(data), root=root
    )
    if operations is None:
        return data
    if is_written:
        mark_written(data)
    source = packed(data, members.device_for(data))
    source = yield from broadcast_to_all(operations, source, root)
    return write(data, source) if is_written else data


@collective
def all_gather(
    data: torch.Tensor,
    group: ProcessGroup | None = None,
    *,
    even: bool = False,
    uneven: bool | None = None,
    async_op: bool = False,
) -> Work[list[torch.Tensor]] | list[torch.Tensor]:
    """Return the tensors of all ranks of a group, on every rank.

    Args:
        data: A tensor of any shape and strides, of the same type on every rank.
        group: A group; None for all ranks.
        even: Whether the caller knows that all ranks have the same shape.
        uneven: Whether shapes may differ, so that the ranks exchange them first; by
            default on CPUs only, and not with ``even``.
        async_op: Whether to return at once; on devices, after shapes were exchanged.

    Returns:
        A new tensor for each rank, in the order of the group; with ``async_op`` work
        whose result this is. A single process gets a copy of its own.

    Raises:
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """
    members = group_state(group)
    is_uneven = members.is_uneven(data, even=even, uneven=uneven)
    steps: Steps[list[torch.Tensor]] | None = None
    if not is_uneven:
        steps = direct_steps(members, "all_gather", data, async_op=async_op)
    if steps is None:
        steps = _gather(members, data, is_uneven)
    return run(members, steps, async_op=async_op)


@collective
def gather(
    data: torch.Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_dst: int | None = None,
    even: bool = False,
    uneven: bool | None = None,
    async_op: bool = False,
) -> Work[list[torch.Tensor]] | list[torch.Tensor]:
    """Return the tensors of all ranks of a group, on one of them.

    Args:
        data: A tensor of any shape and strides, of the same type on every rank.
        dst: Global rank that gets them; 0 if neither this nor ``group_dst`` is given.
        group: A group; None for all ranks.
        group_dst: The rank within the group that gets them, instead of ``dst``.
        even: See ``all_gather``.
        uneven: See ``all_gather``.
        async_op: See ``all_gather``.

    Returns:
        A new tensor for each rank, in the order of the group; on the other ranks an
        empty list. With ``async_op`` work whose result this is. A single process gets
        a copy of its own.

    Raises:
        MismatchError: The ranks differ.
        NotMemberError: This rank, or the receiving one, is not in the group.
    """
    members = group_state(group)
    is_uneven = members.is_uneven(data, even=even, uneven=uneven)
    root = members.root_of(dst, group_dst, "dst")
    return run(members, _gather(members, data, is_uneven, root), async_op=async_op)


def _gather(
    members: GroupState,
    data: torch.Tensor,
    is_uneven: bool,
    checked_root: tuple[int | None, Exception | None] = (None, None),
) -> Steps[list[torch.Tensor]]:
    """Gather tensors on all ranks or on one of them."""
    root, wrong_root = checked_root
    problem = problem_of(data, sends_shape=is_uneven) or wrong_root
    operations = yield from begin(
        members,
        "all_gather" if root is None else "gather",
        data,
        problem,
        shape=None if is_uneven else shape_of(data),
        root=root,
    )
    if operations is None:
        return [copy(data)]
    source = packed(data, members.device_for(data))
    shapes = yield from gather_shapes(operations, source, is_uneven=is_uneven)
    if root is None:
        found = yield from gather_uneven(operations, source, shapes)
    else:
        found = yield from gather_to(operations, source, shapes, root)
    return [each.to(data.device) for each in found]


@collective
def scatter(
    tensors: Sequence[torch.Tensor] | None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_src: int | None = None,
    async_op: bool = False,
) -> Work[torch.Tensor] | torch.Tensor:
    """Return the tensor that one rank of a group sends to this rank.

    Args:
        tensors: On the sending rank one tensor for each rank, in the order of the
            group, of any shapes and strides and of one type; ignored on the others.
        src: Global rank that sends them; 0 if neither this nor ``group_src`` is given.
        group: A group; None for all ranks.
        group_src: Its rank within the group, instead of ``src``.
        async_op: Whether to return at once.

    Returns:
        A new tensor; with ``async_op`` work whose result this is. A single process
        gets a copy of its only one.

    Raises:
        MismatchError: The ranks differ, or there is not one tensor for each rank.
        NotMemberError: This rank, or the sending one, is not in the group.
    """
    members = group_state(group)
    root = members.root_of(src, group_src, "src")
    return run(members, _scatter(members, tensors, root), async_op=async_op)


def _scatter(
    members: GroupState,
    tensors: Sequence[torch.Tensor] | None,
    checked_root: tuple[int, Exception | None],
) -> Steps[torch.Tensor]:
    root, problem = checked_root
    given = tensors if members.group_rank == root else None
    if members.group_rank == root:
        problem = (
            problem_of_all(tensors, members.size, sends_shape=not members.is_single)
            or problem
        )
    operations = yield from begin(members, "scatter", None, problem, root=root)
    if operations is None:
        return copy(tensors[0])  # type: ignore[index] # else there is a problem
    parts = None
    if given is not None:
        parts = [packed(each, members.device_for(each)) for each in given]
    shapes, empty = yield from scatter_shapes(operations, parts, root)
    operations = replace(operations, backend=members.backend_for(empty.device))
    found = yield from scatter_from(operations, parts, shapes, empty, root)
    return found.to(empty.device if given is None else given[0].device)
