"""``all_reduce_dict``, ``all_reduce_params``: reduce many tensors, all or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import torch
from torch._utils import _unflatten_dense_tensors

from ranktable.dist.group_state import group_state
from ranktable.dist.operations import begin
from ranktable.dist.reducing import reduced
from ranktable.dist.steps import finish
from ranktable.dist.tensors import dtype_name, joined, packed, problem_of, write
from ranktable.dist.wire import is_reduction, problem_of_values
from ranktable.dist.work import Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch.distributed import ProcessGroup

    from ranktable.dist.group_state import GroupState
    from ranktable.dist.operations import OperationStarter
    from ranktable.dist.wire import Reduction


def all_reduce_dict(
    data: Mapping[str, torch.Tensor],
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    exact: bool | None = None,
) -> None:
    """Reduce the tensors of a dictionary over all ranks of a group, in place.

    Args:
        data: Tensors by name; on every rank the same names, shapes and types, in any
            order. Each keeps its type and its memory, so other variables with the same
            memory have the result too.
        op: ``sum mean product min max band bor bxor``.
        group: A group; None for all ranks.
        exact: See ``all_reduce``.

    A single process keeps its values; an empty dictionary stays empty.

    Raises:
        TypeError: A name is not a string, or a value not a tensor.
        UnsupportedError: The result of a value would not be exact; the message names
            it.
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """
    problem = _problem_of_dict(data, op)
    names: list[str] = [] if problem is not None else sorted(data)
    tensors = [data[name] for name in names]
    pairs = zip(names, tensors, strict=True)
    details = tuple((repr(name), each.dtype, each.shape) for name, each in pairs)
    steps = begin(
        group_state(group),
        "all_reduce_dict",
        None,
        problem,
        reduction=op,
        details=details,
        exact=exact,
    )
    _reduce_together(finish(steps), tensors, op)


def _problem_of_dict(data: object, op: str) -> Exception | None:
    if not isinstance(data, Mapping):
        return TypeError(f"data is {type(data).__name__}, not a dictionary")
    for name, value in data.items():
        if not isinstance(name, str):
            return TypeError(f"the key {name!r} is not a string")
        if not isinstance(value, torch.Tensor):
            return TypeError(f"{name!r} is {type(value).__name__}, not a tensor")
    return _problem_of_tensors([(repr(name), each) for name, each in data.items()], op)


_MEGABYTE: Final = 1 << 20


def all_reduce_params(
    params: Iterable[torch.Tensor],
    coalesce: bool = True,
    bucket_size_mb: int = -1,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    exact: bool | None = None,
) -> None:
    """Reduce parameters or buffers over all ranks of a group, in place.

    Args:
        params: Tensors with the same shapes and types on every rank, in the same order.
            If one is given twice, as tied parameters are, it is reduced once.
        coalesce: Whether tensors of one type are sent together.
        bucket_size_mb: Most mebibytes that are sent together; negative for no limit.
        op: ``sum mean product min max band bor bxor``.
        group: A group; None for all ranks.
        exact: See ``all_reduce``.

    A single process keeps its values. Each tensor keeps its type.

    Raises:
        TypeError: A parameter is not a tensor.
        ValueError: There is no such reduction, or the bucket has no size.
        UnsupportedError: The result would not be exact, as for the mean of the integer
            ``num_batches_tracked`` of a BatchNorm; nothing is reduced then.
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """
    tensors, problem = _listed(params, op, bucket_size_mb)
    limit = None
    if not coalesce:
        limit = 0
    elif problem is None and bucket_size_mb > 0:
        limit = bucket_size_mb * _MEGABYTE
    buckets = f"in buckets of {limit} bytes" if limit is not None else "together"
    each_of = enumerate(tensors)
    details = (buckets, *((str(i), each.dtype, each.shape) for i, each in each_of))
    steps = begin(
        group_state(group),
        "all_reduce_params",
        None,
        problem,
        reduction=op,
        details=details,
        exact=exact,
    )
    _reduce_together(finish(steps), tensors, op, limit)


def _distinct(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return tensors; of those with the same memory only the first."""
    if len({each.data_ptr() or id(each) for each in tensors}) == len(tensors):
        return tensors
    return list({_memory(each): each for each in tensors}.values())


def _memory(tensor: torch.Tensor) -> object:
    """Return a value that is equal for tied parameters, which share their memory."""
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
    problem = _problem_of_tensors(named, op)
    # Only a tensor with plain memory can be looked up by its memory.
    return ([] if problem is not None else _distinct(listed)), problem


def _problem_of_tensors(
    tensors: Sequence[tuple[object, torch.Tensor]], op: str
) -> Exception | None:
    """Return why tensors cannot be reduced in place, None if they can.

    Args:
        tensors: Tensors, each with a name for messages.
        op: The reduction.
    """
    if not is_reduction(op):
        return problem_of_values(op, "float32")
    for name, tensor in tensors:
        problem = problem_of(tensor, is_written=True)
        if problem is None:
            problem = problem_of_values(op, dtype_name(tensor.dtype))
        if problem is not None:
            return type(problem)(f"{name}: {problem}")
    return None


def _reduce_together(
    operations: OperationStarter | None,
    tensors: Sequence[torch.Tensor],
    op: str,
    bucket_bytes: int | None = None,
) -> None:
    """Reduce tensors over all ranks of a group, in place.

    Args:
        operations: The operations, after the ranks have compared the call.
        tensors: Tensors of any strides.
        op: The reduction.
        bucket_bytes: Most bytes of one collective, None for no limit. A tensor is never
            divided.
    """
    if operations is None:
        return
    members = operations.members
    buckets = [
        (replace(operations, backend=members.backend_for(bucket[0].device)), bucket)
        for bucket in _buckets(members, tensors, bucket_bytes)
    ]
    # All or none: if one is refused, none is reduced.
    for on_backend, bucket in buckets:
        on_backend.plan("all_reduce", bucket[0].dtype, op)
    works = []
    for on_backend, bucket in buckets:
        device = members.device_for(bucket[0])
        flat = joined([packed(each, device) for each in bucket])
        works.append(Work(members, reduced(on_backend, flat, op)))
    for (_, bucket), work in zip(buckets, works, strict=True):
        _write_all(bucket, work.wait())


def _buckets(
    members: GroupState, tensors: Sequence[torch.Tensor], limit: int | None
) -> Iterator[list[torch.Tensor]]:
    """Yield tensors of one type and device, in the same order on all ranks."""
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
    # Torch returns an empty tensor with one dimension, for any number of them.
    targets = [tensor.detach() for tensor in tensors if tensor.numel()]
    if targets:
        pieces = _unflatten_dense_tensors(  # type: ignore[no-untyped-call]
            values.reshape(-1), targets
        )
        torch._foreach_copy_(targets, list(pieces))
