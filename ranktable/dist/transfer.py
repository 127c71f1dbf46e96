"""Moving tensors without gaps on any backend, and exchanging their shapes before."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

import torch

from ranktable.dist.calls import table_of
from ranktable.dist.collective_errors import MismatchError
from ranktable.dist.operations import Transfer, start_transfers
from ranktable.dist.tensors import (
    DTYPES,
    MOST_DIMENSIONS,
    as_bytes,
    copy,
    dtype_name,
    joined,
    padded,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.dist.collective_plan import CollectivePlan
    from ranktable.dist.operations import OperationStarter
    from ranktable.dist.steps import Steps
    from ranktable.dist.work import Pending

    Tensors = list[torch.Tensor]

_SHIFT_TAG: Final = 32_766
"""The tag of a shift, which gloo must not confuse with transfers of the script; MPI has
tags up to 32,767."""

Shape = tuple[int, ...]


def broadcast_to_all(
    operations: OperationStarter, data: torch.Tensor, root: int
) -> Steps[torch.Tensor]:
    """Send a tensor of one rank to all, in its own memory."""
    plan = operations.plan("broadcast", data.dtype)
    yield operations.start(
        "broadcast", _moved(data, plan), operations.members.ranks[root]
    )
    return data


def gather_even(operations: OperationStarter, data: torch.Tensor) -> Steps[Tensors]:
    """Gather tensors of equal shape on all ranks."""
    plan = operations.plan("all_gather", data.dtype)
    moved = _moved(data, plan)
    outputs = [_empty_like(moved) for _ in range(operations.members.size)]
    yield operations.start("all_gather", outputs, moved)
    return [restored(each, data.dtype, data.shape) for each in outputs]


def gather_uneven(
    operations: OperationStarter, data: torch.Tensor, shapes: Sequence[Shape]
) -> Steps[Tensors]:
    """Gather tensors of known shapes on all ranks.

    Args:
        operations: The backend's operations.
        data: The tensor of this rank.
        shapes: The shape of each rank's tensor.
    """
    if len(set(shapes)) == 1:
        return (yield from gather_even(operations, data))
    plan = operations.plan("all_gather", data.dtype, is_even=False)
    counts = [prod(shape) for shape in shapes]
    if plan.recipe == "native":
        moved = _moved(data.reshape(-1), plan)
        width = _width(data, plan)
        outputs = [moved.new_empty(count * width) for count in counts]
        yield operations.start("all_gather", outputs, moved)
    else:
        outputs = yield from gather_even(operations, padded(data, max(counts)))
    return _trimmed(outputs, data.dtype, shapes)


def gather_to(
    operations: OperationStarter, data: torch.Tensor, shapes: Sequence[Shape], root: int
) -> Steps[Tensors]:
    """Gather tensors of known shapes on one rank; the others get none."""
    is_root = operations.members.group_rank == root
    plan = operations.plan("gather", data.dtype, is_even=len(set(shapes)) == 1)
    counts = [prod(shape) for shape in shapes]
    moved = _moved(padded(data, max(counts)), plan)
    outputs = [_empty_like(moved) for _ in counts] if is_root else None
    yield operations.start("gather", moved, outputs, operations.members.ranks[root])
    return _trimmed(outputs or [], data.dtype, shapes)


def scatter_from(
    operations: OperationStarter,
    parts: Tensors | None,
    shapes: Sequence[Shape],
    empty: torch.Tensor,
    root: int,
) -> Steps[torch.Tensor]:
    """Send each rank one of the tensors of the root.

    Args:
        operations: The backend's operations.
        parts: The tensors, on the root.
        shapes: Their shapes.
        empty: An empty tensor of their type, on the device that sends.
        root: Group rank of the root.
    """
    group_rank = operations.members.group_rank
    counts, own = [prod(shape) for shape in shapes], shapes[group_rank]
    longest, dtype = max(counts), empty.dtype
    empty = empty.new_empty(longest)
    plan = operations.plan("scatter", dtype, is_even=len(set(counts)) == 1)
    even = None if parts is None else [padded(part, longest) for part in parts]
    moved = None if even is None else [_moved(each, plan) for each in even]
    output = _moved(empty, plan)
    yield operations.start("scatter", output, moved, operations.members.ranks[root])
    return _trimmed([output], dtype, [own])[0]


def exchange(
    operations: OperationStarter,
    parts: Tensors,
    shapes: Sequence[Shape],
    *,
    is_even: bool,
    longest: int | None = None,
) -> Steps[Tensors]:
    """Send a part to each rank, and receive a part from each.

    Args:
        operations: The backend's operations.
        parts: The part for each rank, all of one type.
        shapes: The shape of the part from each rank.
        is_even: Whether it is known that all parts of all ranks have the same size.
        longest: Most elements that one rank sends to another, if it is known.
    """
    dtype, size = parts[0].dtype, len(parts)
    plan = operations.plan("all_to_all", dtype, is_even=is_even)
    if plan.recipe == "native" and not is_even:
        return (yield from _exchange_splits(operations, plan, parts, shapes))
    if is_even:
        longest = parts[0].numel()
    if longest is None:
        most = max(part.numel() for part in parts)
        all_most = gather_numbers(operations.metadata, [most])
        longest = max(row[0] for row in all_most)
    whole = joined([padded(part, longest) for part in parts])
    if plan.recipe == "gather and cut":
        own = slice(operations.members.group_rank * longest, None)
        found = yield from gather_even(operations, whole)
        return _trimmed([each[own] for each in found], dtype, shapes)
    moved = _moved(whole, plan)
    output = _empty_like(moved)
    yield operations.start("all_to_all_single", output, moved)
    return _trimmed(_cut(output, [(longest,)] * size, dtype), dtype, shapes)


def _exchange_splits(
    operations: OperationStarter,
    plan: CollectivePlan,
    parts: Tensors,
    shapes: Sequence[Shape],
) -> Steps[Tensors]:
    width = _width(parts[0], plan)
    moved = _moved(joined(parts), plan)
    received = [prod(shape) * width for shape in shapes]
    output = moved.new_empty(sum(received))
    sent = [part.numel() * width for part in parts]
    yield operations.start("all_to_all_single", output, moved, received, sent)
    return _cut(output, shapes, parts[0].dtype)


def shift_by(
    operations: OperationStarter, data: torch.Tensor, by: int, shapes: Sequence[Shape]
) -> Steps[torch.Tensor]:
    """Send a tensor ``by`` places around the ring, and return the received one."""
    if by == 0:
        return copy(data)
    members = operations.members
    source, target = ((members.group_rank + each) % members.size for each in (-by, by))
    plan = operations.plan("shift", data.dtype)
    if plan.recipe == "gather and cut":
        found = yield from gather_uneven(operations, data, shapes)
        return found[source]
    moved, arriving = _moved(data, plan), data.new_empty(shapes[source])
    output = _moved(arriving, plan)
    tag = _SHIFT_TAG if members.supports_timed_wait else 0
    sent = Transfer(operations, "isend", moved, target, tag)
    yield from start_transfers(
        [sent, Transfer(operations, "irecv", output, source, tag)]
    )
    return restored(output, data.dtype, shapes[source])


def _cut(moved: torch.Tensor, shapes: Sequence[Shape], dtype: torch.dtype) -> Tensors:
    """Return consecutive tensors, given their joined memory."""
    flat = restored(moved, dtype, [-1])
    pieces = torch.split(flat, [prod(shape) for shape in shapes])
    return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def _empty_like(data: torch.Tensor) -> torch.Tensor:
    """Return a tensor to receive into, with plain strides even for one element."""
    return torch.empty_like(data, memory_format=torch.contiguous_format)


def _moved(data: torch.Tensor, plan: CollectivePlan) -> torch.Tensor:
    return as_bytes(data) if plan.as_bytes else data


def _width(data: torch.Tensor, plan: CollectivePlan) -> int:
    return data.element_size() if plan.as_bytes else 1


def restored(
    moved: torch.Tensor, dtype: torch.dtype, shape: Sequence[int]
) -> torch.Tensor:
    """Return a tensor of a type and shape, given what the backend has sent."""
    return (moved if moved.dtype is dtype else moved.view(dtype)).view(shape)


def _trimmed(moved: Tensors, dtype: torch.dtype, shapes: Sequence[Shape]) -> Tensors:
    """Return tensors of their own shapes, without padding at the end."""
    return [
        restored(each.reshape(-1), dtype, [-1])[: prod(shape)].view(shape)
        for each, shape in zip(moved, shapes, strict=False)
    ]


def gather_shapes(
    operations: OperationStarter, data: torch.Tensor, *, is_uneven: bool
) -> Steps[list[Shape]]:
    """Return the shapes of the tensors of all ranks, in the order of the ranks.

    Raises:
        MismatchError: The tensors are of different types.
    """
    if not is_uneven:
        return [tuple(data.shape)] * operations.members.size
    own = torch.tensor(_row(operations, data), device=operations.members.device)
    rows = [torch.empty_like(own) for _ in range(operations.members.size)]
    pending = operations.metadata.start("all_gather", rows, own)
    return (yield from _shapes(operations, pending, rows))


def exchange_shapes(
    operations: OperationStarter, parts: Sequence[torch.Tensor], *, is_uneven: bool
) -> Steps[list[Shape]]:
    """Return the shapes of the parts from all ranks, when each rank gets a part.

    Raises:
        MismatchError: The tensors are of different types.
    """
    if not is_uneven:
        return [tuple(parts[0].shape)] * len(parts)
    numbers = [_row(operations, part) for part in parts]
    sent = torch.tensor(numbers, device=operations.members.device)
    received = torch.empty_like(sent)
    pending = operations.metadata.start(
        "all_to_all_single", received.view(-1), sent.view(-1)
    )
    return (yield from _shapes(operations, pending, received))


def scatter_shapes(
    operations: OperationStarter, parts: Sequence[torch.Tensor] | None, root: int
) -> Steps[tuple[list[Shape], torch.Tensor]]:
    """Return the shapes of the tensors that the root has, one for each rank.

    Args:
        operations: The backend's operations.
        parts: The tensors, on the root.
        root: Group rank of the root.

    Returns:
        The shapes, and an empty tensor of their type on the device that receives.
    """
    members = operations.members
    kinds, kind = list(members.backends), 0
    sent = torch.zeros(members.size, _WIDTH, dtype=torch.int64, device=members.device)
    if parts is not None:
        kind = kinds.index(members.device_for(parts[0]).type)
        sent = torch.tensor([_row(operations, part) for part in parts])
        sent = sent.to(members.device)
    if kinds == ["cpu"]:
        # All ranks tell whether they wait; only the root has more than zeros to add.
        sent[:, _IS_ASYNC] = operations.is_async
        pending = operations.metadata.start("all_reduce", sent)
        shapes = yield from _shapes(operations, pending, sent)
    else:  # only the root knows the device, and all wait
        sent[:, _IS_ASYNC] = kind
        operations.metadata.start("broadcast", sent, members.ranks[root]).wait()
        kind = int(sent[0, _IS_ASYNC])
        shapes = [_shape(row) for row in sent.tolist()]
    device = members.device_of(kinds[kind])
    empty = torch.empty(0, dtype=DTYPES[int(sent[0, 0])], device=device)
    return shapes, empty


def gather_numbers(
    operations: OperationStarter, numbers: Sequence[int]
) -> list[list[int]]:
    """Return the integers of all ranks, a list for each rank."""
    device = operations.members.device
    own = torch.tensor(numbers, dtype=torch.int64, device=device)
    rows = [torch.empty_like(own) for _ in range(operations.members.size)]
    operations.start("all_gather", rows, own).wait()
    return [row.tolist() for row in rows]


_IS_ASYNC: Final = MOST_DIMENSIONS + 2
_WIDTH: Final = _IS_ASYNC + 1


def _row(operations: OperationStarter, data: torch.Tensor) -> list[int]:
    """Return the numbers that the ranks exchange about a tensor.

    They are its type, the number of dimensions, its shape, and whether this rank does
    not wait for the collective.
    """
    filler = [0] * (MOST_DIMENSIONS - data.dim())
    shape = [data.dim(), *data.shape, *filler]
    return [DTYPES.index(data.dtype), *shape, int(operations.is_async)]


def _shape(row: Sequence[int]) -> Shape:
    return tuple(row[2 : 2 + row[1]])


def _shapes(
    operations: OperationStarter, pending: Pending, rows: Iterable[torch.Tensor]
) -> Steps[list[Shape]]:
    """Wait for rows, and return the shapes; let tensors travel where they may."""
    members, is_gloo = operations.members, operations.backend.name == "gloo"
    if is_gloo:
        pending.is_of_shapes = True
        yield pending
    else:
        pending.wait()
    found = [row.tolist() for row in rows]
    if len({row[0] for row in found}) > 1:
        seq = operations.call.seq if operations.call is not None else 0
        names = (dtype_name(DTYPES[row[0]]) for row in found)
        said = dict(zip(members.ranks, names, strict=True))
        raise MismatchError(table_of(members, seq, said))
    call = operations.call
    is_apart = is_gloo and any(row[_IS_ASYNC] for row in found)
    if is_apart and call is not None and call.own_group is None:
        members.background.join(call)
    return [_shape(row) for row in found]
