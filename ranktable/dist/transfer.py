"""How tensors without gaps are moved, by any backend, and their shapes before them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

import torch

from ranktable.dist.calls import table_of
from ranktable.dist.errors import MismatchError
from ranktable.dist.tensors import (
    DTYPES,
    MOST_DIMENSIONS,
    as_bytes,
    dtype_name,
    joined,
    padded,
)
from ranktable.dist.work import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.dist.operations import Operations
    from ranktable.dist.plan import Plan

    Tensors = list[torch.Tensor]

_WIDTH: Final = MOST_DIMENSIONS + 2  # the type and the number of dimensions come first

Shape = tuple[int, ...]


def start_broadcast(
    operations: Operations, data: torch.Tensor, group_rank: int
) -> Work[torch.Tensor]:
    """Begin to send a tensor of one rank to all, in its own memory."""
    plan = operations.plan("broadcast", data.dtype)
    pending = operations.broadcast(_moved(data, plan), group_rank)
    return Work(lambda: data, (pending,))


def gather_even(operations: Operations, data: torch.Tensor) -> Work[Tensors]:
    """Begin to collect tensors of one shape, on all ranks."""
    plan = operations.plan("all_gather", data.dtype)
    moved = _moved(data, plan)
    outputs = [_empty_like(moved) for _ in range(operations.communicator.size)]
    pending = operations.all_gather(outputs, moved)
    shape, dtype = data.shape, data.dtype
    return Work(lambda: [restored(each, dtype, shape) for each in outputs], (pending,))


def gather_uneven(
    operations: Operations, data: torch.Tensor, shapes: Sequence[Shape]
) -> Work[Tensors]:
    """Begin to collect tensors of known shapes, on all ranks.

    Args:
        operations: The backend's operations.
        data: The tensor of this rank.
        shapes: The shape of that of each rank.
    """
    if len(set(shapes)) == 1:
        return gather_even(operations, data)
    plan = operations.plan("all_gather", data.dtype, is_even=False)
    counts = [prod(shape) for shape in shapes]
    if plan.recipe == "native":
        moved = _moved(data.reshape(-1), plan)
        width = _width(data, plan)
        outputs = [moved.new_empty(count * width) for count in counts]
        pending = operations.all_gather(outputs, moved)
        return Work(lambda: _trimmed(outputs, data.dtype, shapes), (pending,))
    even = gather_even(operations, padded(data, max(counts)))
    return even.then(lambda found: _trimmed(found, data.dtype, shapes))


def start_gather(
    operations: Operations, data: torch.Tensor, shapes: Sequence[Shape], group_rank: int
) -> Work[Tensors]:
    """Begin to collect tensors of known shapes on one rank; the others get none."""
    is_even, is_root = (
        len(set(shapes)) == 1,
        operations.communicator.group_rank == group_rank,
    )
    plan = operations.plan("gather", data.dtype, is_even=is_even)
    if plan.recipe == "gather and drop":
        everything = gather_uneven(operations, data, shapes)
        return everything.then(lambda found: found if is_root else [])
    counts = [prod(shape) for shape in shapes]
    moved = _moved(padded(data, max(counts)), plan)
    outputs = [_empty_like(moved) for _ in counts] if is_root else None
    pending = operations.gather(outputs, moved, group_rank)
    return Work(lambda: _trimmed(outputs or [], data.dtype, shapes), (pending,))


def start_scatter(
    operations: Operations,
    parts: Tensors | None,
    shapes: Sequence[Shape],
    empty: torch.Tensor,
    group_rank: int,
) -> Work[torch.Tensor]:
    """Begin to send each rank one of the tensors of one rank.

    Args:
        operations: The backend's operations.
        parts: The tensors, on that rank.
        shapes: Their shapes.
        empty: An empty tensor of their type, on the device where they travel.
        group_rank: Who has them.
    """
    communicator = operations.communicator
    counts, own = [prod(shape) for shape in shapes], shapes[communicator.group_rank]
    longest, dtype = max(counts), empty.dtype
    empty = empty.new_empty(longest)
    plan = operations.plan("scatter", dtype, is_even=len(set(counts)) == 1)
    even = None if parts is None else [padded(part, longest) for part in parts]
    if plan.recipe == "broadcast and cut":
        whole = empty.new_empty(len(counts) * longest)
        whole = whole if even is None else torch.cat(even)
        arrived = start_broadcast(operations, whole, group_rank)
        begin = communicator.group_rank * longest
        part = slice(begin, begin + prod(own))
        return arrived.then(lambda found: found[part].clone().view(own))
    moved = None if even is None else [_moved(each, plan) for each in even]
    output = _moved(empty, plan)
    pending = operations.scatter(output, moved, group_rank)
    return Work(lambda: _trimmed([output], dtype, [own])[0], (pending,))


def exchange(
    operations: Operations,
    parts: Tensors,
    shapes: Sequence[Shape],
    *,
    is_even: bool,
    longest: int | None = None,
) -> Work[Tensors]:
    """Begin to send each rank a part, and to collect one of each rank.

    Args:
        operations: The backend's operations.
        parts: What goes to each rank, all of one type.
        shapes: The shape of what comes from each.
        is_even: Whether all parts of all ranks are known to be of one size.
        longest: The most elements that a rank sends to another, if it is known.
    """
    plan = operations.plan("all_to_all", parts[0].dtype, is_even=is_even)
    if is_even:
        longest = parts[0].numel()
    if plan.recipe == "native" and not is_even:
        return _exchange_splits(operations, plan, parts, shapes)
    if longest is None:
        longest = tell_most(operations, max(part.numel() for part in parts))
    whole = joined([padded(part, longest) for part in parts])
    dtype, same = parts[0].dtype, [(longest,)] * len(parts)
    if plan.recipe == "gather and cut":
        everything = gather_even(operations, whole)
        own = slice(operations.communicator.group_rank * longest, None)
        return everything.then(
            lambda found: _trimmed([each[own] for each in found], dtype, shapes)
        )
    moved = _moved(whole, plan)
    output = _empty_like(moved)
    pending = operations.all_to_all(output, moved)
    return Work(lambda: _trimmed(_cut(output, same, dtype), dtype, shapes), (pending,))


def _exchange_splits(
    operations: Operations, plan: Plan, parts: Tensors, shapes: Sequence[Shape]
) -> Work[Tensors]:
    dtype, width = parts[0].dtype, _width(parts[0], plan)
    moved = _moved(joined(parts), plan)
    received = [prod(shape) * width for shape in shapes]
    output = moved.new_empty(sum(received))
    sent = [part.numel() * width for part in parts]
    pending = operations.all_to_all(output, moved, received, sent)
    return Work(lambda: _cut(output, shapes, dtype), (pending,))


def _cut(moved: torch.Tensor, shapes: Sequence[Shape], dtype: torch.dtype) -> Tensors:
    """Return consecutive tensors of one memory."""
    flat = restored(moved, dtype, [-1])
    pieces = torch.split(flat, [prod(shape) for shape in shapes])
    return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def _empty_like(data: torch.Tensor) -> torch.Tensor:
    """Return a tensor for what comes, with plain strides even for a single element."""
    return torch.empty_like(data, memory_format=torch.contiguous_format)


def _moved(data: torch.Tensor, plan: Plan) -> torch.Tensor:
    return as_bytes(data) if plan.as_bytes else data


def _width(data: torch.Tensor, plan: Plan) -> int:
    return data.element_size() if plan.as_bytes else 1


def restored(
    moved: torch.Tensor, dtype: torch.dtype, shape: Sequence[int]
) -> torch.Tensor:
    """Return a tensor of a type and shape, of what the backend has moved."""
    return (moved if moved.dtype is dtype else moved.view(dtype)).view(shape)


def _trimmed(moved: Tensors, dtype: torch.dtype, shapes: Sequence[Shape]) -> Tensors:
    """Return tensors of their own shapes, of elements that padding may follow."""
    return [
        restored(each.reshape(-1), dtype, [-1])[: prod(shape)].view(shape)
        for each, shape in zip(moved, shapes, strict=False)
    ]


def tell_all(operations: Operations, data: torch.Tensor) -> list[Shape]:
    """Return the shapes of the tensors of all ranks, in the order of the ranks.

    Raises:
        MismatchError: The tensors are of different types.
    """
    rows = gather_numbers(operations.metadata, _row(data))
    _refuse_types(operations, [row[0] for row in rows])
    return [_shape(row) for row in rows]


def tell_each(operations: Operations, parts: Sequence[torch.Tensor]) -> list[Shape]:
    """Return the shapes of what comes from all ranks, when each gets a part.

    Raises:
        MismatchError: The tensors are of different types.
    """
    rows = [_row(part) for part in parts]
    device = operations.communicator.device
    told = torch.tensor(rows, device=device).reshape(-1)
    heard = torch.empty_like(told)
    operations.metadata.all_to_all(heard, told).wait()
    rows = heard.view(-1, _WIDTH).tolist()
    _refuse_types(operations, [row[0] for row in rows])
    return [_shape(row) for row in rows]


def tell_from(
    operations: Operations, parts: Sequence[torch.Tensor] | None, group_rank: int
) -> tuple[list[Shape], torch.Tensor]:
    """Return the shapes of tensors that one rank has, one for each rank.

    Args:
        operations: The backend's operations.
        parts: The tensors, on the rank that has them.
        group_rank: Which that is.

    Returns:
        The shapes, and an empty tensor of their type where they are to arrive.
    """
    communicator = operations.communicator
    kinds = list(communicator.backends)
    count = 1 + communicator.size * _WIDTH
    numbers = [0] * count
    if parts is not None:
        kind = kinds.index(communicator.device_for(parts[0]).type)
        numbers = [kind, *(number for part in parts for number in _row(part))]
    told = torch.tensor(numbers, device=communicator.device)
    operations.metadata.broadcast(told, group_rank).wait()
    kind, *numbers = told.tolist()
    rows = [numbers[begin : begin + _WIDTH] for begin in range(0, count - 1, _WIDTH)]
    device = communicator.device_of(kinds[kind])
    empty = torch.empty(0, dtype=DTYPES[rows[0][0]], device=device)
    return [_shape(row) for row in rows], empty


def tell_most(operations: Operations, count: int) -> int:
    """Return the largest number that any rank has."""
    return max(row[0] for row in gather_numbers(operations.metadata, [count]))


def gather_numbers(operations: Operations, numbers: Sequence[int]) -> list[list[int]]:
    """Return some integers of each rank, in the order of the ranks."""
    own = torch.tensor(
        numbers, dtype=torch.int64, device=operations.communicator.device
    )
    rows = [torch.empty_like(own) for _ in range(operations.communicator.size)]
    operations.all_gather(rows, own).wait()
    return [row.tolist() for row in rows]


def _row(data: torch.Tensor) -> list[int]:
    filler = [0] * (MOST_DIMENSIONS - data.dim())
    return [DTYPES.index(data.dtype), data.dim(), *data.shape, *filler]


def _shape(row: list[int]) -> Shape:
    return tuple(row[2 : 2 + row[1]])


def _refuse_types(operations: Operations, codes: Sequence[int]) -> None:
    if len(set(codes)) == 1:
        return
    members = operations.communicator
    seq = operations.call.seq if operations.call is not None else 0
    names = (dtype_name(DTYPES[code]) for code in codes)
    said = dict(zip(members.ranks, names, strict=True))
    raise MismatchError(table_of(members, seq, said))
