"""``send``, ``recv`` and similar functions: from one rank to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch.distributed as dist

from ranktable.dist.collective_errors import DistError
from ranktable.dist.group_state import group_state
from ranktable.dist.operations import OperationStarter, Transfer, start_transfers
from ranktable.dist.steps import mark_written
from ranktable.dist.tensors import as_bytes, packed, problem_of, write
from ranktable.dist.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch.distributed import ProcessGroup

    from ranktable.dist.steps import Steps
    from ranktable.dist.work import Pending


def send(
    data: torch.Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    *,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to one rank, and wait until its memory may be used again.

    Args:
        data: A tensor of any strides.
        dst: Global rank that receives it.
        group: A group; None for all ranks.
        tag: A number; the receiver must give the same.
        group_dst: The rank within the group that receives it, instead of ``dst``.

    Raises:
        DistError: There is no process group, or it failed.
        UnsupportedError: The backend cannot send.
        NotMemberError: One of the two ranks is not in the group.
    """
    isend(data, dst, group, tag, group_dst=group_dst).wait()


def recv(
    data: torch.Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    *,
    group_src: int | None = None,
) -> None:
    """Receive a tensor of one rank, in place.

    Args:
        data: A tensor of any strides, with the shape and type of the sent one.
        src: Global rank that sends it.
        group: A group; None for all ranks.
        tag: A number; the sender must give the same.
        group_src: The rank within the group that sends it, instead of ``src``.

    Raises:
        DistError: There is no process group, or it failed.
        UnsupportedError: The backend cannot receive, or the tensor cannot be written.
        NotMemberError: One of the two ranks is not in the group.
    """
    irecv(data, src, group, tag, group_src=group_src).wait()


def isend(
    data: torch.Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    *,
    group_dst: int | None = None,
) -> Work[torch.Tensor]:
    """Start sending a tensor to one rank; see ``send``.

    Returns:
        Work whose result is ``data``, which must not be changed before it has ended.
    """
    return _begun([_prepare("isend", data, (dst, group_dst), group, tag)])[0]


def irecv(
    data: torch.Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    *,
    group_src: int | None = None,
) -> Work[torch.Tensor]:
    """Start receiving a tensor from one rank; see ``recv``.

    Returns:
        Work whose result is ``data``, with the received values.
    """
    return _begun([_prepare("irecv", data, (src, group_src), group, tag)])[0]


@dataclass(frozen=True, slots=True)
class P2POp:
    """One of several transfers that start together.

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


def batch_isend_irecv(ops: Sequence[P2POp]) -> list[Work[torch.Tensor]]:
    """Start several transfers; each rank may list its own in any order.

    Args:
        ops: The transfers.

    Returns:
        The work of each transfer, in the same order.

    Raises:
        TypeError: One is not a ``P2POp``, this package's or torch's.
        ValueError: One is neither ``isend`` nor ``irecv``.
        DistError: See ``send`` and ``recv``.
    """
    for each in ops:
        if not isinstance(each, (P2POp, dist.P2POp)):
            raise TypeError(f"{each!r} is not a transfer; give a P2POp for each")
    names = [str(getattr(each.op, "__name__", each.op)) for each in ops]
    for name in names:
        if name not in ("isend", "irecv"):
            raise ValueError(f"op is {name!r}, not isend or irecv")
    return _begun(
        [
            _prepare(name, each.tensor, (each.peer, None), each.group, each.tag)
            for name, each in zip(names, ops, strict=True)
        ]
    )


def _begun(
    prepared: Sequence[tuple[Transfer, torch.Tensor, torch.Tensor | None]],
) -> list[Work[torch.Tensor]]:
    """Start transfers and return work; ``data`` is sent by way of another tensor."""
    begun = start_transfers([transfer for transfer, _, _ in prepared])
    return [
        Work(transfer.operations.members, _steps(pending, data, source))
        for (transfer, data, source), pending in zip(prepared, begun, strict=True)
    ]


def _steps(
    pending: Pending, data: torch.Tensor, source: torch.Tensor | None
) -> Steps[torch.Tensor]:
    yield pending
    return data if source is None else write(data, source)


def _prepare(
    name: str,
    data: torch.Tensor,
    peer: tuple[int | None, int | None],
    group: ProcessGroup | None,
    tag: int,
) -> tuple[Transfer, torch.Tensor, torch.Tensor | None]:
    """Return a transfer that can start, its tensor, and the tensor of the caller.

    Raises:
        Exception: It cannot start.
    """
    members, operation = group_state(group), name[1:]
    if members.is_single:
        raise DistError(
            f"{operation} needs another rank, but there is no process group; call "
            "init_dist first"
        )
    is_received = operation == "recv"
    problem = problem_of(data, is_written=is_received)
    if problem is not None:
        raise problem
    group_rank = members.group_rank_of(*peer, "src" if is_received else "dst")
    if group_rank == members.group_rank:
        raise ValueError(f"rank {members.rank} cannot {operation} with itself")
    operations = OperationStarter(members, None, members.backend_for(data.device))
    plan = operations.plan(operation, data.dtype)
    if is_received:
        mark_written(data)
    source = packed(data, members.device_for(data))
    moved = as_bytes(source) if plan.as_bytes else source
    transfer = Transfer(operations, name, moved, group_rank, tag)
    return transfer, data, source if is_received else None
