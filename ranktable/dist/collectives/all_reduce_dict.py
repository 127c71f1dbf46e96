"""``all_reduce_dict``: named tensors, such as losses, over all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from ranktable.dist.action import Action
from ranktable.dist.agreement import agree
from ranktable.dist.buckets import problem_of_tensors, reduce_together
from ranktable.dist.communicator import communicator
from ranktable.dist.tensors import described

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from ranktable.dist.reductions import Reduction


def all_reduce_dict(
    data: Mapping[str, torch.Tensor],
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
) -> None:
    """Reduce the tensors of a dictionary over all ranks of a group, in place.

    Args:
        data: Tensors by name; on every rank the same names, shapes and types, in any
            order. Each keeps its type, and its memory, so other names of it see the
            result too.
        op: ``sum mean product min max band bor bxor``.
        group: A group; None for all ranks.

    A single process keeps its values; an empty dictionary stays empty.

    Raises:
        TypeError: A name is no string, or a value no tensor.
        UnsupportedError: The result of a value would not be exact; it is named.
        MismatchError: The ranks differ.
        NotMemberError: This rank is not in the group.
    """
    members = communicator(group)
    problem = _problem_of(data, op)
    names: list[str] = [] if problem is not None else sorted(data)
    if members is None:
        if problem is not None:
            raise problem
        return
    turn = agree(
        members,
        lambda: Action(
            operation="all_reduce_dict",
            reduction=op,
            details=[f"{name!r}: {described(data[name])}" for name in names],
        ),
        problem,
    )
    reduce_together(members, turn, [data[name] for name in names], op)


def _problem_of(data: object, op: str) -> Exception | None:
    if not isinstance(data, Mapping):
        return TypeError(f"data is {type(data).__name__}, not a dictionary")
    for name, value in data.items():
        if not isinstance(name, str):
            return TypeError(f"the key {name!r} is no string")
        if not isinstance(value, torch.Tensor):
            return TypeError(f"{name!r} is {type(value).__name__}, not a tensor")
    return problem_of_tensors([(repr(name), each) for name, each in data.items()], op)
