"""``send``, ``recv`` and similar functions: from one rank to another."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Literal

import torch.distributed as dist

from ranktable.dist.errors import DistError
from ranktable.dist.members import begin, members_of
from ranktable.dist.tensors import as_moved, copy, packed, problem_of, write
from ranktable.dist.work import Work, collective, finished, public

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch.distributed import ProcessGroup

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send", "shift"]


@public
def send(
    tensor: torch.Tensor,
    dst: int,
    group: ProcessGroup | None = None,
    tag: int = 0,
) -> None:
    """Send a tensor to one rank, and wait until its memory may be used again.

    Args:
        tensor: A tensor of any strides.
        dst: Global rank that receives it.
        group: A group; None for all ranks.
        tag: A number; the receiver must give the same.

    Raises:
        DistError: There is no process group, or it failed.
        UnsupportedError: The backend cannot send.
        NotMemberError: One of the two ranks is not in the group.
    """
    _start(P2POp("isend", tensor, dst, group, tag)).wait()


@public
def recv(
    tensor: torch.Tensor,
    src: int,
    group: ProcessGroup | None = None,
    tag: int = 0,
) -> None:
    """Receive a tensor of one rank, in place.

    Args:
        tensor: A tensor of any strides, of the shape and type of the sent one.
        src: Global rank that sends it.
        group: A group; None for all ranks.
        tag: A number; the sender must give the same.

    Raises:
        DistError: There is no process group, or it failed.
        UnsupportedError: The backend cannot receive.
        NotMemberError: One of the two ranks is not in the group.
    """
    _start(P2POp("irecv", tensor, src, group, tag)).wait()


@public
def isend(
    tensor: torch.Tensor,
    dst: int,
    group: ProcessGroup | None = None,
    tag: int = 0,
) -> Work[torch.Tensor]:
    """Start sending a tensor to one rank; see ``send``.

    Returns:
        Work whose result is ``tensor``; keep it until it was waited for.
    """
    return _start(P2POp("isend", tensor, dst, group, tag))


@public
def irecv(
    tensor: torch.Tensor,
    src: int,
    group: ProcessGroup | None = None,
    tag: int = 0,
) -> Work[torch.Tensor]:
    """Start receiving a tensor from one rank; see ``recv``.

    Returns:
        Work whose result is ``tensor``, with the received values.
    """
    return _start(P2POp("irecv", tensor, src, group, tag))


@dataclass(frozen=True, slots=True)
class P2POp:
    """One of several transfers that start together; torch's own is taken too.

    Attributes:
        op: ``isend`` or ``irecv``: the name, or the function of this package or torch.
        tensor: The tensor to send, or to receive into.
        peer: Global rank of the other rank.
        group: A group; None for all ranks.
        tag: A number, the same on the other rank.
    """

    op: Literal["isend", "irecv"] | Callable[..., object]
    tensor: torch.Tensor
    peer: int
    group: ProcessGroup | None = None
    tag: int = 0


@public
def batch_isend_irecv(ops: Sequence[P2POp | dist.P2POp]) -> list[Work[torch.Tensor]]:
    """Start several transfers in one group; each rank may list its own in any order.

    Args:
        ops: The transfers.

    Returns:
        The work of each transfer, in the same order.

    Raises:
        TypeError: One is not a ``P2POp``, this package's or torch's.
        ValueError: One is neither ``isend`` nor ``irecv``.
        DistError: See ``send`` and ``recv``.
    """
    prepared = [_prepared(each) for each in ops]
    works = dist.batch_isend_irecv([each for each, _ in prepared]) if prepared else []
    if len(works) < len(prepared):  # torch has joined them
        works = works * len(prepared)
    pairs = zip(works, prepared, strict=True)
    return [Work(work, finish, "batch_isend_irecv") for work, (_, finish) in pairs]


def _start(given: P2POp) -> Work[torch.Tensor]:
    op, finish = _prepared(given)
    return Work(op.op(op.tensor, op.peer, op.group, op.tag), finish, str(given.op)[1:])


def _prepared(
    given: P2POp | dist.P2POp,
) -> tuple[dist.P2POp, Callable[[], torch.Tensor]]:
    """Return a transfer for torch, and what returns its result.

    Raises:
        TypeError: It is not a transfer.
        DistError: It cannot start.
    """
    if not isinstance(given, (P2POp, dist.P2POp)):
        raise TypeError(f"{given!r} is not a transfer; give a P2POp for each")
    name = str(getattr(given.op, "__name__", given.op))
    if name not in ("isend", "irecv"):
        raise ValueError(f"op is {name!r}, not isend or irecv")
    is_received, verb, tensor = name == "irecv", name[1:], given.tensor
    members = members_of(given.group)
    if members.is_single:
        raise DistError(
            f"{verb} needs another rank, but there is no process group; call init_dist "
            "first"
        )
    other, problem = members.root_of(given.peer, "src" if is_received else "dst")
    if problem is None and other == members.rank:
        problem = ValueError(f"rank {other} cannot {verb} with itself")
    problem = problem_of(tensor, is_written=is_received) or problem
    if problem is not None:
        raise problem
    values = packed(members, tensor)
    moved = as_moved(members, verb, values)
    op = dist.P2POp(getattr(dist, name), moved, other, members.group, given.tag)
    return op, lambda: write(tensor, values) if is_received else tensor


@collective
def shift(
    data: torch.Tensor,
    by: int = 1,
    group: ProcessGroup | None = None,
    *,
    async_op: bool = False,
) -> Work[torch.Tensor] | torch.Tensor:
    """Send a tensor to the rank some places further, and return what this rank gets.

    Args:
        data: A tensor of any strides, of the same shape and type on every rank.
        by: Number of places in the order of the group; the last rank sends to the
            first ones.
        group: A group; None for all ranks.
        async_op: See ``all_gather``.

    Returns:
        A new tensor. A single process gets a copy of its own.
    """
    members, by = members_of(group), index(by)
    problem = problem_of(data)
    begin(members, "shift", problem, data, f"by {by}", async_op=async_op)
    if by % members.size == 0:
        return finished(None, lambda: copy(data), "shift", async_op=async_op)
    place, size, output = members.group_rank, members.size, copy(data)
    to, source = members.ranks[(place + by) % size], members.ranks[(place - by) % size]
    both = (P2POp("isend", data, to, group), P2POp("irecv", output, source, group))
    sent, received = batch_isend_irecv(both)

    def end() -> torch.Tensor:
        sent.wait()
        return received.wait()

    # No work is given: gloo's irecv is not completed before someone waits for it.
    return finished(None, end, "shift", async_op=async_op)
