"""``broadcast``: what one rank has, all get."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, overload

from ranktable.dist.action import Action
from ranktable.dist.collectives.calls import (
    begin,
    done,
    name_of,
    shape_of,
)
from ranktable.dist.collectives.roots import root_of
from ranktable.dist.communicator import communicator
from ranktable.dist.moving import start_broadcast
from ranktable.dist.tensors import packed, problem_of, write

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup

    from ranktable.dist.work import Work


@overload
def broadcast(
    data: torch.Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_src: int | None = None,
    async_op: Literal[False] = False,
) -> None: ...
@overload
def broadcast(
    data: torch.Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    *,
    group_src: int | None = None,
    async_op: Literal[True],
) -> Work[torch.Tensor]: ...
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
        src: Global rank of the one whose values all get; 0 if neither this nor
            ``group_src`` is given.
        group: A group; None for all ranks.
        group_src: Its rank within the group, instead of ``src``.
        async_op: Whether to return at once.

    Returns:
        None; with ``async_op`` work whose result is ``data``.

    A single process keeps its values.

    Raises:
        MismatchError: The ranks differ.
        NotMemberError: This rank, or the one with the values, is not in the group.
    """
    members = communicator(group)
    if members is None:
        problem = problem_of(data, is_written=True)
        if problem is not None:
            raise problem
        return done(data) if async_op else None
    root, wrong_root = root_of(members, src, group_src, "src")
    # Nothing is written where the values come from, so these may share memory.
    problem = problem_of(data, is_written=members.member != root)
    native = begin(
        members,
        lambda: Action(
            operation="broadcast",
            dtype=name_of(data),
            shape=shape_of(data),
            root=members.ranks[root],
        ),
        problem or wrong_root,
        data,
        ("broadcast", name_of(data) or "", None),
    )
    source = packed(data, members.device_for(data))
    is_root = members.member == root
    sent = start_broadcast(native, source, root)
    work = sent.then((lambda _: data) if is_root else partial(write, data))
    if async_op:
        return work
    work.wait()
    return None
