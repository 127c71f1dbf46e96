"""How tensors without gaps are moved, by any backend."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import torch

from ranktable.dist.planning import make_plan
from ranktable.dist.shapes import tell_most
from ranktable.dist.tensors import as_bytes, dtype_name, joined, padded
from ranktable.dist.work import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.dist.native import Native
    from ranktable.dist.plan import Plan
    from ranktable.dist.shapes import Shape

    Tensors = list[torch.Tensor]


def plan_for(
    native: Native, operation: str, data: torch.Tensor, *, is_even: bool = True
) -> Plan:
    """Return how a tensor moves."""
    return make_plan(native.backend, operation, dtype_name(data.dtype), is_even=is_even)


def start_broadcast(
    native: Native, data: torch.Tensor, member: int
) -> Work[torch.Tensor]:
    """Begin to send a tensor of one member to all, in its own memory."""
    plan = plan_for(native, "broadcast", data)
    pending = native.broadcast(_moved(data, plan), member)
    return Work(lambda: data, (pending,))


def gather_even(native: Native, data: torch.Tensor) -> Work[Tensors]:
    """Begin to collect tensors of one shape, on all ranks."""
    plan = plan_for(native, "all_gather", data)
    moved = _moved(data, plan)
    outputs = [_empty_like(moved) for _ in range(native.communicator.size)]
    pending = native.all_gather(outputs, moved)
    shape, dtype = data.shape, data.dtype
    return Work(lambda: [restored(each, dtype, shape) for each in outputs], (pending,))


def gather_uneven(
    native: Native, data: torch.Tensor, shapes: Sequence[Shape]
) -> Work[Tensors]:
    """Begin to collect tensors of known shapes, on all ranks.

    Args:
        native: The backend's operations.
        data: The tensor of this rank.
        shapes: The shape of that of each rank.
    """
    if len(set(shapes)) == 1:
        return gather_even(native, data)
    plan = plan_for(native, "all_gather", data, is_even=False)
    counts = [prod(shape) for shape in shapes]
    if plan.recipe == "native":
        moved = _moved(data.reshape(-1), plan)
        width = _width(data, plan)
        outputs = [moved.new_empty(count * width) for count in counts]
        pending = native.all_gather(outputs, moved)
        return Work(lambda: _trimmed(outputs, data.dtype, shapes), (pending,))
    even = gather_even(native, padded(data, max(counts)))
    return even.then(lambda found: _trimmed(found, data.dtype, shapes))


def start_gather(
    native: Native, data: torch.Tensor, shapes: Sequence[Shape], member: int
) -> Work[Tensors]:
    """Begin to collect tensors of known shapes on one member; the others get none."""
    is_even, is_root = len(set(shapes)) == 1, native.communicator.member == member
    plan = plan_for(native, "gather", data, is_even=is_even)
    if plan.recipe == "gather and drop":
        everything = gather_uneven(native, data, shapes)
        return everything.then(lambda found: found if is_root else [])
    counts = [prod(shape) for shape in shapes]
    moved = _moved(padded(data, max(counts)), plan)
    outputs = [_empty_like(moved) for _ in counts] if is_root else None
    pending = native.gather(outputs, moved, member)
    return Work(lambda: _trimmed(outputs or [], data.dtype, shapes), (pending,))


def start_scatter(
    native: Native,
    parts: Tensors | None,
    shapes: Sequence[Shape],
    empty: torch.Tensor,
    member: int,
) -> Work[torch.Tensor]:
    """Begin to send each rank one of the tensors of one member.

    Args:
        native: The backend's operations.
        parts: The tensors, on that member.
        shapes: Their shapes.
        empty: An empty tensor of their type, on the device where they travel.
        member: Who has them.
    """
    communicator = native.communicator
    counts, own = [prod(shape) for shape in shapes], shapes[communicator.member]
    longest, dtype = max(counts), empty.dtype
    empty = empty.new_empty(longest)
    plan = plan_for(native, "scatter", empty, is_even=len(set(counts)) == 1)
    even = None if parts is None else [padded(part, longest) for part in parts]
    if plan.recipe == "broadcast and cut":
        whole = empty.new_empty(len(counts) * longest)
        whole = whole if even is None else torch.cat(even)
        arrived = start_broadcast(native, whole, member)
        begin = communicator.member * longest
        part = slice(begin, begin + prod(own))
        return arrived.then(lambda found: found[part].clone().view(own))
    moved = None if even is None else [_moved(each, plan) for each in even]
    output = _moved(empty, plan)
    pending = native.scatter(output, moved, member)
    return Work(lambda: _trimmed([output], dtype, [own])[0], (pending,))


def exchange(
    native: Native,
    parts: Tensors,
    shapes: Sequence[Shape],
    *,
    is_even: bool,
    longest: int | None = None,
) -> Work[Tensors]:
    """Begin to send each rank a part, and to collect one of each rank.

    Args:
        native: The backend's operations.
        parts: What goes to each rank, all of one type.
        shapes: The shape of what comes from each.
        is_even: Whether all parts of all ranks are known to be of one size.
        longest: The most elements that a rank sends to another, if it is known.
    """
    plan = plan_for(native, "all_to_all", parts[0], is_even=is_even)
    if is_even:
        longest = parts[0].numel()
    if plan.recipe == "native" and not is_even:
        return _exchange_splits(native, plan, parts, shapes)
    if longest is None:
        longest = tell_most(native, max(part.numel() for part in parts))
    whole = joined([padded(part, longest) for part in parts])
    dtype, same = parts[0].dtype, [(longest,)] * len(parts)
    if plan.recipe == "gather and cut":
        everything = gather_even(native, whole)
        own = slice(native.communicator.member * longest, None)
        return everything.then(
            lambda found: _trimmed([each[own] for each in found], dtype, shapes)
        )
    moved = _moved(whole, plan)
    output = _empty_like(moved)
    pending = native.all_to_all(output, moved)
    return Work(lambda: _trimmed(_cut(output, same, dtype), dtype, shapes), (pending,))


def _exchange_splits(
    native: Native, plan: Plan, parts: Tensors, shapes: Sequence[Shape]
) -> Work[Tensors]:
    dtype, width = parts[0].dtype, _width(parts[0], plan)
    moved = _moved(joined(parts), plan)
    received = [prod(shape) * width for shape in shapes]
    output = moved.new_empty(sum(received))
    sent = [part.numel() * width for part in parts]
    pending = native.all_to_all(output, moved, received, sent)
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
