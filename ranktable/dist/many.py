"""``all_reduce_dict`` and ``all_reduce_params``: reduce many tensors together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import torch

from ranktable.dist.collectives import Reduction, op_of, start_reduce
from ranktable.dist.members import Members, begin, members_of
from ranktable.dist.tensors import packed, problem_of, write
from ranktable.dist.work import public

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.distributed import ProcessGroup

__all__ = ["all_reduce_dict", "all_reduce_params"]

_MEBIBYTE = 1 << 20


@public
def all_reduce_dict(
    data: Mapping[str, torch.Tensor],
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
) -> None:
    """Reduce the tensors of a dictionary over all ranks of a group, in place.

    Args:
        data: Tensors by name, with the same names, shapes and types on every rank.
            Those of one type are sent together.
        op: See ``all_reduce``.
        group: A group; None for all ranks.

    Raises:
        TypeError: It is not a dictionary of tensors by strings.
        UnsupportedError: There is no such reduction of the type of one.
    """
    problem = _problem_of_dictionary(data)
    named = {} if problem else {name: data[name] for name in sorted(data)}
    _reduce_together("all_reduce_dict", named, op, group, problem)


@public
def all_reduce_params(
    params: Iterable[torch.Tensor],
    coalesce: bool = True,
    bucket_size_mb: int = -1,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
) -> None:
    """Reduce parameters or buffers over all ranks of a group, in place.

    Args:
        params: Tensors with the same shapes and types on every rank, in the same order.
            One that is given twice is reduced once.
        coalesce: Whether tensors of one type are sent together.
        bucket_size_mb: Most mebibytes that are sent together; negative for no limit.
        op: See ``all_reduce``.
        group: A group; None for all ranks.

    Raises:
        TypeError: They are not tensors.
        ValueError: The bucket size is not a positive or negative integer.
        UnsupportedError: There is no such reduction of the type of one.
    """
    problem = _problem_of_params(params, bucket_size_mb)
    distinct = [] if problem else list({id(each): each for each in params}.values())
    named = {f"parameter {i}": each for i, each in enumerate(distinct)}
    limit = None
    if problem is None and bucket_size_mb > 0:
        limit = bucket_size_mb * _MEBIBYTE
    limit = limit if coalesce else 0  # then none has room for two
    _reduce_together("all_reduce_params", named, op, group, problem, limit)


def _problem_of_dictionary(data: object) -> Exception | None:
    if not isinstance(data, Mapping):
        return TypeError(f"data is {type(data).__name__}, not a dictionary")
    if not all(isinstance(name, str) for name in data):
        return TypeError("a key of the dictionary is not a string")
    return None


def _problem_of_params(params: object, bucket_size_mb: object) -> Exception | None:
    if isinstance(params, torch.Tensor) or not isinstance(params, Iterable):
        return TypeError(f"params is {type(params).__name__}, not several tensors")
    if not isinstance(bucket_size_mb, int) or not bucket_size_mb:
        given = f"bucket_size_mb is {bucket_size_mb!r}"
        return ValueError(f"{given}, not a number of mebibytes, or -1 for no limit")
    return None


def _reduce_together(
    name: str,
    tensors: Mapping[str, torch.Tensor],
    op: str,
    group: ProcessGroup | None,
    problem: Exception | None,
    limit: int | None = None,
) -> None:
    op, wrong = op_of(op, None)
    problem = problem or wrong
    for key, each in tensors.items():
        found = problem_of(each, is_written=True) or op_of(op, each)[1]
        if problem is None and found is not None:
            problem = type(found)(f"{key}: {found}")
    members = members_of(group)
    words: list[str] = []
    if members.is_checking and problem is None:
        words = [f"{k}: {tuple(t.shape)} {t.dtype}" for k, t in tensors.items()]
        if limit is not None:
            words.insert(
                0, f"at most {limit} bytes together" if limit else "each alone"
            )
    begin(members, name, problem, None, f"({op})", *words)
    if members.is_single:
        return
    for bucket in _buckets(tensors.values(), limit):
        _reduce_bucket(members, bucket, op)


def _reduce_bucket(members: Members, bucket: list[torch.Tensor], op: str) -> None:
    sources = [packed(members, each).view(-1) for each in bucket]
    _, finish = start_reduce(members, torch.cat(sources), op, async_op=False)
    parts = torch.split(finish(), [each.numel() for each in sources])
    torch._foreach_copy_(sources, parts)
    for each, values in zip(bucket, sources, strict=True):
        write(each, values)  # if it is not in the same memory


def _buckets(
    tensors: Iterable[torch.Tensor], limit: int | None
) -> Iterator[list[torch.Tensor]]:
    """Yield tensors of one type and device, in the same order on all ranks."""
    kinds: dict[tuple[torch.dtype, str], list[torch.Tensor]] = {}
    for each in tensors:
        kinds.setdefault((each.dtype, each.device.type), []).append(each)
    for same in kinds.values():
        bucket, filled = [same[0]], same[0].nbytes
        for each in same[1:]:
            if limit is not None and filled + each.nbytes > limit:
                yield bucket
                bucket, filled = [], 0
            bucket.append(each)
            filled += each.nbytes
        yield bucket
