"""Collectives of tensors: torch's own, composed where a backend lacks one.

Each function checks its arguments without communication, calls torch, and finishes:
it divides a mean, converts types, and copies values back to where they belong.
"""

from __future__ import annotations

from functools import reduce as fold
from typing import TYPE_CHECKING, Any, Final, Literal

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from ranktable.dist.errors import UnsupportedError
from ranktable.dist.members import (
    LARGER_TYPES,
    Members,
    begin,
    current_device,
    members_of,
)
from ranktable.dist.objects import broadcast_of, exchanged
from ranktable.dist.tensors import (
    Tensors,
    as_moved,
    copy,
    is_same_memory,
    packed,
    padded,
    parts_of,
    problem_of,
    problem_of_all,
    shapes_of,
    trimmed,
    write,
)
from ranktable.dist.work import Work, collective, finished, written
from ranktable.runtime.torch_versions import reduce_scatter_single

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.distributed import ProcessGroup

__all__ = ["Reduction", "all_gather", "all_reduce", "all_to_all", "broadcast"]
__all__ += ["gather", "reduce", "reduce_scatter", "scatter"]

Reduction = Literal["sum", "mean", "product", "min", "max", "band", "bor", "bxor"]
"""The name of a reduction; torch's ``ReduceOp`` is taken too."""

_OPS: Final[dict[str, tuple[Any, Callable[..., torch.Tensor]]]] = {
    "sum": (ReduceOp.SUM, torch.add),
    "mean": (ReduceOp.AVG, torch.add),
    "product": (ReduceOp.PRODUCT, torch.mul),
    "min": (ReduceOp.MIN, torch.minimum),
    "max": (ReduceOp.MAX, torch.maximum),
    "band": (ReduceOp.BAND, torch.bitwise_and),
    "bor": (ReduceOp.BOR, torch.bitwise_or),
    "bxor": (ReduceOp.BXOR, torch.bitwise_xor),
}
_NAMES: Final = {name: name for name in _OPS} | {
    op: name for name, (op, _) in _OPS.items()
}
_SHOWN: Final = {name: f"({name})" for name in ("", *_OPS)}
_reduce_scatter: Final = reduce_scatter_single()
_OF_PARTS: Final = ("sum", "mean")
"""The reductions of complex numbers that torch does on their parts."""
_BITS: Final = ("band", "bor", "bxor")
_ORDERED: Final = ("min", "max")


def op_of(op: object, data: object) -> tuple[str, Exception | None]:
    """Return the name of a reduction, and why it cannot reduce a tensor."""
    if not isinstance(op, (str, ReduceOp)):
        return "", TypeError(f"op is {type(op).__name__}, not a reduction")
    name = _NAMES.get(getattr(op, "op", op))  # ReduceOp(ReduceOp.SUM) has an op
    if name is None:
        also = ' ("mean" is torch\'s AVG)' if op == "avg" else ""
        known = ", ".join(_OPS)
        return "", ValueError(f"there is no reduction {op!r}{also}; there are {known}")
    if name == "sum" or not isinstance(data, torch.Tensor):
        return name, None
    dtype = data.dtype
    is_number = dtype.is_floating_point or dtype.is_complex
    if name == "mean" and not is_number:
        return name, UnsupportedError(
            f"the mean of {_name(dtype)} values is not {_name(dtype)}; reduce "
            "data.to(torch.float64) instead, or take the sum and divide it as you want "
            "it rounded"
        )
    if (name in _BITS and is_number) or (
        name in _ORDERED and (dtype.is_complex or _name(dtype) == "uint64")
    ):
        return name, UnsupportedError(f"there is no {name} of {_name(dtype)} values")
    return name, None


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@collective
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
        op: ``sum mean product min max band bor bxor``. The mean of integers is refused.
        group: A group; None for all ranks.
        async_op: Whether to return work at once, whose ``wait`` returns ``data``.

    A single process keeps its values.

    Raises:
        UnsupportedError: There is no such reduction of this type.
        DistError: It failed.
        NotMemberError: This rank is not in the group.
    """
    members, name = members_of(group), "all_reduce"
    direct = members.direct_of(name, data, op)
    if direct is not None and not async_op:  # nearly all calls
        dist.all_reduce(data, direct, group)
        return None
    reduction, problem = op_of(op, data)
    problem = problem_of(data, is_written=True) or problem
    begin(members, name, problem, data, _SHOWN[reduction], async_op=async_op)
    if members.is_single:
        return written(None, lambda: data, name, async_op=async_op)
    work, finish = start_reduce(
        members, packed(members, data), reduction, async_op=async_op
    )
    return written(work, lambda: write(data, finish()), name, async_op=async_op)


@collective
def reduce(
    data: torch.Tensor,
    dst: int = 0,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    async_op: bool = False,
) -> Work[torch.Tensor] | None:
    """Reduce a tensor over all ranks of a group, in place on one of them.

    Args:
        data: A tensor of any strides, of the same shape and type on every rank. It
            changes on the receiving rank only.
        dst: Global rank that gets the result.
        op: See ``all_reduce``.
        group: A group; None for all ranks.
        async_op: See ``all_reduce``.

    Raises:
        NotMemberError: This rank, or the receiving one, is not in the group.
    """
    members, name = members_of(group), "reduce"
    reduction, problem = op_of(op, data)
    problem = problem_of(data, is_written=True) or problem
    root, problem = members.root_of(dst, "dst", problem)
    words = (_SHOWN[reduction], "to rank", root)
    begin(members, name, problem, data, *words, async_op=async_op)
    if members.is_single:
        return written(None, lambda: data, name, async_op=async_op)
    values, is_root = packed(members, data), root == members.rank
    if not is_root and is_same_memory(data, values):
        values = values.clone()  # gloo leaves partial sums in it
    work, finish = start_reduce(members, values, reduction, root, async_op=async_op)

    def end() -> torch.Tensor:
        found = finish()
        return write(data, found) if is_root else data

    return written(work, end, name, async_op=async_op)


def start_reduce(
    members: Members,
    values: torch.Tensor,
    op: str,
    root: int | None = None,
    *,
    async_op: bool,
) -> tuple[dist.Work | None, Callable[[], torch.Tensor]]:
    """Start to reduce a tensor without gaps, which may be written to.

    Args:
        members: The group.
        values: The tensor.
        op: The reduction.
        root: Global rank that gets the result; None for all.
        async_op: Whether not to wait.

    Returns:
        Torch's work, and what returns the result after it.
    """
    how = _reducing(members, "all_reduce" if root is None else "reduce", values, op)
    if how.dtype is None and values.is_complex() and op in _OF_PARTS:
        parts = torch.view_as_real(values)
        work, reduced = start_reduce(members, parts, op, root, async_op=async_op)
        return work, lambda: torch.view_as_complex(reduced())
    if how.dtype is None:
        work, gathered = _start_gather(members, values, async_op=async_op)
        return work, lambda: _folded(members, gathered(), op)
    sent = values if how.dtype is values.dtype else values.to(how.dtype)
    reduce_op = _OPS[how.op][0]
    if root is None:
        work = dist.all_reduce(sent, reduce_op, members.group, async_op)
    else:
        work = dist.reduce(sent, root, reduce_op, members.group, async_op)

    def finish() -> torch.Tensor:
        if how.is_divided:
            sent.div_(members.size)
        return sent if sent is values else sent.to(values.dtype)

    return work, finish


def _reducing(members: Members, operation: str, data: torch.Tensor, op: str) -> Any:
    """Return how a tensor is reduced, and keep what makes the next call torch's."""
    how = members.reducing(operation, data, op)
    is_direct = how.dtype is data.dtype and how.op == op and not how.is_divided
    if is_direct and not (members.is_checking or data.is_complex()):
        members.direct[operation, op, data.dtype, data.device] = _OPS[op][0]
    return how


def _moved(members: Members, operation: str, data: torch.Tensor) -> torch.Tensor:
    """Return a tensor as it can be moved, and keep that the next one can as it is."""
    moved = as_moved(members, operation, data)
    if moved is data and not (members.is_checking or data.is_complex()):
        members.direct[operation, "", data.dtype, data.device] = True
    return moved


def _folded(members: Members, parts: Tensors, op: str) -> torch.Tensor:
    """Return the reduction of tensors, in the order of the ranks."""
    own = parts[0].dtype
    wide = LARGER_TYPES.get(own, (own,))[-1]
    if op == "mean" and own is torch.float16:
        wide = torch.float32  # their sum overflows where their mean does not
    found = fold(_OPS[op][1], (part.to(wide) for part in parts))
    if op == "mean":
        found.div_(members.size)
    return found.to(own)


@collective
def broadcast(
    data: torch.Tensor,
    src: int = 0,
    group: ProcessGroup | None = None,
    *,
    async_op: bool = False,
) -> Work[torch.Tensor] | None:
    """Send a tensor of one rank to all ranks of a group, in place.

    Args:
        data: A tensor of any strides, of the same shape and type on every rank.
        src: Global rank that sends its values.
        group: A group; None for all ranks.
        async_op: See ``all_reduce``.
    """
    members, name = members_of(group), "broadcast"
    if not async_op and members.direct_of(name, data):
        root, problem = members.root_of(src, "src")
        if problem is None:  # nearly all calls
            dist.broadcast(data, root, group)
            return None
    problem = problem_of(data, is_written=True)
    root, problem = members.root_of(src, "src", problem)
    begin(members, name, problem, data, "from rank", root, async_op=async_op)
    if members.is_single:
        return written(None, lambda: data, name, async_op=async_op)
    values = packed(members, data)
    moved = _moved(members, name, values)
    work = dist.broadcast(moved, root, members.group, async_op)
    is_root = root == members.rank

    def end() -> torch.Tensor:
        return data if is_root else write(data, values)

    return written(work, end, name, async_op=async_op)


@collective
def all_gather(
    data: torch.Tensor,
    group: ProcessGroup | None = None,
    *,
    uneven: bool = False,
    async_op: bool = False,
) -> Work[Tensors] | Tensors:
    """Return the tensors of all ranks of a group, on every rank.

    Args:
        data: A tensor of any strides, of the same type on every rank.
        group: A group; None for all ranks.
        uneven: Whether the shapes may differ. The ranks then exchange them first, and
            wait for each other, also with ``async_op``.
        async_op: Whether to return work at once, whose ``wait`` returns the result.

    Returns:
        A new tensor for each rank, in the order of the group. A single process gets a
        copy of its own.
    """
    members, name = members_of(group), "all_gather"
    if not (uneven or async_op) and members.direct_of(name, data):
        found = [torch.empty_like(data) for _ in members.ranks]
        dist.all_gather(found, data, group)
        return found
    problem, how = problem_of(data), {"uneven": uneven, "async_op": async_op}
    return _gather(members, name, problem, data, None, **how)


def _gather(
    members: Members,
    name: str,
    problem: Exception | None,
    data: torch.Tensor,
    root: int | None,
    *,
    uneven: bool,
    async_op: bool,
) -> Work[Tensors] | Tensors:
    """Gather tensors on one rank; on all of them if the root is None."""
    words = [] if root is None else ["to rank", root]
    if uneven and problem is None:
        words += ["of any shapes", data.dtype]
    like = None if uneven else data
    begin(members, name, problem, like, *words, async_op=async_op)
    if members.is_single:
        return finished(None, lambda: [copy(data)], name, async_op=async_op)
    source = packed(members, data)
    shapes = exchanged(members, source.shape) if uneven else None
    work, finish = _start_gather(members, source, root, shapes, async_op=async_op)
    return finished(work, lambda: _returned(finish(), data), name, async_op=async_op)


def _start_gather(
    members: Members,
    source: torch.Tensor,
    root: int | None = None,
    shapes: Sequence[torch.Size] | None = None,
    *,
    async_op: bool,
) -> tuple[dist.Work | None, Callable[[], Tensors]]:
    """Start to gather tensors without gaps; return the work, and what returns them."""
    sent = source
    if shapes is None:
        shapes = [source.shape] * members.size
    else:
        sent = padded(source, max(shape.numel() for shape in shapes))
    operation = "all_gather" if root is None else "gather"
    moved = _moved(members, operation, sent)
    is_wanted = root in (None, members.rank)
    found = [torch.empty_like(moved) for _ in members.ranks] if is_wanted else []
    if root is None:
        work = dist.all_gather(found, moved, members.group, async_op)
    else:
        work = dist.gather(moved, found or None, root, members.group, async_op)
    return work, lambda: [
        trimmed(each, source.dtype, shape)
        for each, shape in zip(found, shapes[: len(found)], strict=True)
    ]


def _returned(found: Tensors, data: torch.Tensor) -> Tensors:
    """Return what was received, on the device of what was given."""
    device = data.device
    return (
        found
        if found and found[0].device == device
        else [each.to(device) for each in found]
    )


@collective
def gather(
    data: torch.Tensor,
    dst: int = 0,
    group: ProcessGroup | None = None,
    *,
    uneven: bool = False,
    async_op: bool = False,
) -> Work[Tensors] | Tensors:
    """Return the tensors of all ranks of a group on one of them, elsewhere none.

    Args:
        data: A tensor of any strides, of the same type on every rank.
        dst: Global rank that gets them.
        group: A group; None for all ranks.
        uneven: See ``all_gather``.
        async_op: See ``all_gather``.

    Returns:
        A new tensor for each rank, in the order of the group; ``[]`` on the other
        ranks. A single process gets a copy of its own.
    """
    members, how = members_of(group), {"uneven": uneven, "async_op": async_op}
    root, problem = members.root_of(dst, "dst", problem_of(data))
    return _gather(members, "gather", problem, data, root, **how)


@collective
def scatter(
    tensors: Sequence[torch.Tensor] | None,
    src: int = 0,
    group: ProcessGroup | None = None,
    *,
    async_op: bool = False,
) -> Work[torch.Tensor] | torch.Tensor:
    """Return the tensor that one rank of a group sends to this rank.

    The sending rank first tells the others the shapes, and the call waits for that.

    Args:
        tensors: On the sending rank one tensor for each rank, in the order of the
            group, of any shapes and of one type; ignored on the others.
        src: Global rank that sends them.
        group: A group; None for all ranks.
        async_op: See ``all_gather``.

    Returns:
        A new tensor. A single process gets a copy of its only one.
    """
    members, name = members_of(group), "scatter"
    root, problem = members.root_of(src, "src")
    is_root = root == members.rank
    if is_root and problem is None:
        problem = problem_of_all(tensors, members.size)
    given = list(tensors or ()) if is_root and problem is None else []
    begin(members, name, problem, None, "from rank", root, async_op=async_op)
    if members.is_single:
        return finished(None, lambda: copy(given[0]), name, async_op=async_op)
    sources = [packed(members, each) for each in given]
    kind = (sources[0].dtype, sources[0].device.type) if sources else None
    said = (kind, [each.shape for each in sources])
    (dtype, device), shapes = broadcast_of(members, said, root)
    most, shape = max(map(torch.Size.numel, shapes)), shapes[members.group_rank]
    empty = torch.empty(most, dtype=dtype, device=current_device(device))
    output = as_moved(members, name, empty)
    sent = [as_moved(members, name, padded(each, most)) for each in sources]
    work = dist.scatter(output, sent or None, root, members.group, async_op)

    def end() -> torch.Tensor:
        found = trimmed(output, dtype, shape)
        return found.to(given[0].device) if given else found

    return finished(work, end, name, async_op=async_op)


@collective
def all_to_all(
    data: torch.Tensor | Sequence[torch.Tensor],
    group: ProcessGroup | None = None,
    *,
    async_op: bool = False,
) -> Work[Any] | Any:
    """Send a part to every rank of a group, and return the parts from all ranks.

    Args:
        data: A tensor whose dimension 0 is cut into equal parts, one for each rank; it
            has the same shape on every rank. Or a list with one tensor for each rank,
            of any shapes and of one type: the ranks then exchange the shapes first, and
            wait for each other.
        group: A group; None for all ranks.
        async_op: See ``all_gather``.

    Returns:
        For a tensor the received parts, joined along dimension 0; for a list a new
        tensor from each rank. A single process gets a copy of its own.
    """
    members, name = members_of(group), "all_to_all"
    parts, problem = parts_of(data, members.size)
    like = data if isinstance(data, torch.Tensor) else None
    words = () if like is not None else ("of a list",)
    begin(members, name, problem, like, *words, async_op=async_op)
    if members.is_single:
        copies = [copy(each) for each in parts]
        one = copies if like is None else torch.cat(copies)
        return finished(None, lambda: one, name, async_op=async_op)
    if like is not None:
        source = packed(members, like)
        work, found = _start_exchange(members, source, async_op=async_op)
        return finished(work, lambda: found().to(like.device), name, async_op=async_op)
    sources = [packed(members, part) for part in parts]
    of_all = exchanged(members, [each.shape for each in sources])
    shapes = [each[members.group_rank] for each in of_all]
    most = max(shape.numel() for each in of_all for shape in each)
    joined = torch.cat([padded(each, most) for each in sources])
    work, found = _start_exchange(members, joined, async_op=async_op)

    def end() -> Tensors:
        pairs = zip(found().view(members.size, most), shapes, strict=True)
        rows = [copy(trimmed(row, joined.dtype, shape)) for row, shape in pairs]
        return _returned(rows, parts[0])

    return finished(work, end, name, async_op=async_op)


def _start_exchange(
    members: Members, source: torch.Tensor, *, async_op: bool
) -> tuple[dist.Work | None, Callable[[], torch.Tensor]]:
    """Start to send an equal part of a tensor to each rank."""
    moved = as_moved(members, "all_to_all", source)
    output = torch.empty_like(moved)
    work = dist.all_to_all_single(output, moved, group=members.group, async_op=async_op)
    return work, lambda: trimmed(output, source.dtype, source.shape)


@collective
def reduce_scatter(
    tensors: Sequence[torch.Tensor] | torch.Tensor,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    async_op: bool = False,
) -> Work[torch.Tensor] | torch.Tensor:
    """Reduce tensors over all ranks of a group; each rank gets the result of its part.

    Args:
        tensors: One tensor for each rank, the same shapes on every rank and of one
            type; or one tensor, whose dimension 0 is cut into equal parts.
        op: See ``all_reduce``.
        group: A group; None for all ranks.
        async_op: See ``all_gather``.

    Returns:
        A new tensor, of the shape of this rank's part. A single process gets a copy of
        its only one.
    """
    members, name = members_of(group), "reduce_scatter"
    direct: Any = members.direct_of(name, tensors, op)
    if direct is not None and not async_op and isinstance(tensors, torch.Tensor):
        shape = tensors.shape
        if shape and shape[0] % members.size == 0:
            found = tensors.new_empty((shape[0] // members.size, *shape[1:]))
            _reduce_scatter(found, tensors, direct, group)
            return found
    shapes, problem = shapes_of(tensors, members.size)
    first: Any = tensors
    if problem is None and not isinstance(tensors, torch.Tensor):
        first = tensors[0]
    reduction, wrong = op_of(op, first)
    words: list[object] = []
    if members.is_checking:
        of_all = [tuple(shape) for shape in shapes]
        words = [f"of {of_all} {first.dtype}" if shapes else "", _SHOWN[reduction]]
    begin(members, name, wrong or problem, None, *words, async_op=async_op)
    if isinstance(tensors, torch.Tensor):
        if members.is_single:
            return finished(None, lambda: copy(tensors), name, async_op=async_op)
        joined = packed(members, tensors)
    else:
        if members.is_single:
            return finished(None, lambda: copy(tensors[0]), name, async_op=async_op)
        most = max(shape.numel() for shape in shapes)
        joined = torch.cat([padded(packed(members, part), most) for part in tensors])
    shape, device = shapes[members.group_rank], first.device
    work, finish = _start_reduce_scatter(
        members, joined, reduction, shape, async_op=async_op
    )

    def end() -> torch.Tensor:
        found = trimmed(finish(), joined.dtype, shape)
        return found if found.device == device else found.to(device)

    return finished(work, end, name, async_op=async_op)


def _start_reduce_scatter(
    members: Members,
    joined: torch.Tensor,
    op: str,
    shape: torch.Size,
    *,
    async_op: bool,
) -> tuple[dist.Work | None, Callable[[], torch.Tensor]]:
    """Start to reduce a tensor, of which each rank gets an equal part.

    Args:
        members: The group.
        joined: The parts for all ranks, one after the other.
        op: The reduction.
        shape: The shape of a part of this rank; the part may be longer by padding.
        async_op: Whether not to wait.
    """
    how = _reducing(members, "reduce_scatter", joined, op)
    if how.dtype is None and joined.is_complex() and op in _OF_PARTS:
        flat = torch.view_as_real(joined).reshape(-1)
        part = torch.Size([flat.numel() // members.size])
        work, reduced = _start_reduce_scatter(
            members, flat, op, part, async_op=async_op
        )
        return work, lambda: torch.view_as_complex(reduced().view(-1, 2))
    if how.dtype is None:
        flat = joined.reshape(-1)
        work, found = _start_exchange(members, flat, async_op=async_op)
        return work, lambda: _folded(members, list(found().chunk(members.size)), op)
    sent = joined if how.dtype is joined.dtype else joined.to(how.dtype)
    # Gloo refuses an output with other dimensions than a flat input.
    output = sent.new_empty(sent.numel() // members.size)
    work = _reduce_scatter(
        output, sent.reshape(-1), _OPS[how.op][0], members.group, async_op
    )

    def finish() -> torch.Tensor:
        if how.is_divided:
            output.div_(members.size)
        return output if sent is joined else output.to(joined.dtype)

    return work, finish
