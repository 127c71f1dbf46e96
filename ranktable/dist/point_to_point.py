"""``send``, ``recv`` and their kind: from one rank to one other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch.distributed as dist

from ranktable.dist.errors import DistError
from ranktable.dist.group_state import group_state
from ranktable.dist.operations import OperationStarter, Transfer, start_transfers
from ranktable.dist.tensors import as_bytes, packed, problem_of, write
from ranktable.dist.work import SteppedWork

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch.distributed import ProcessGroup

    from ranktable.dist.work import Pending, Steps, Work


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
        tag: Number that the receiver gives too.
        group_dst: The rank within the group that receives it, instead of ``dst``.

    Raises:
        DistError: There is no process group, or it failed.
        UnsupportedError: The backend cannot send.
        NotMemberError: One of both is not in the group.
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
        data: A tensor of any strides, of the shape and type that is sent.
        src: Global rank that sends it.
        group: A group; None for all ranks.
        tag: Number that the sender gives too.
        group_src: The rank within the group that sends it, instead of ``src``.

    Raises:
        DistError: There is no process group, or it failed.
        UnsupportedError: The backend cannot receive, or nothing can be written there.
        NotMemberError: One of both is not in the group.
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
    """Begin to send a tensor to one rank, see ``send``.

    Returns:
        Work whose result is ``data``, which must not change before.
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
    """Begin to receive a tensor of one rank, see ``recv``.

    Returns:
        Work whose result is ``data``, with what came.
    """
    return _begun([_prepare("irecv", data, (src, group_src), group, tag)])[0]


@dataclass(frozen=True, slots=True)
class P2POp:
    """One of several transfers that begin together.

    Attributes:
        op: ``isend`` or ``irecv``, by name or the function, torch's too.
        tensor: What is sent, or where it is received.
        peer: Global rank of the other.
        group: A group; None for all ranks.
        tag: Number that the other gives too.
    """

    op: Literal["isend", "irecv"] | Callable[..., object]
    tensor: torch.Tensor
    peer: int
    group: ProcessGroup | None = None
    tag: int = 0


def batch_isend_irecv(ops: Sequence[P2POp]) -> list[Work[torch.Tensor]]:
    """Begin several transfers, in any order that the ranks may have them in.

    Args:
        ops: The transfers.

    Returns:
        Work of each, in their order; none for none.

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
    """Begin transfers, of the caller's tensors by way of others, and return work."""
    begun = start_transfers([transfer for transfer, _, _ in prepared])
    return [
        SteppedWork(transfer.operations.members, _steps(pending, data, source))
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
    """Return a transfer that can begin, its tensor, and what to write to that.

    Raises:
        Exception: It cannot.
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
    source = packed(data, members.device_for(data))
    moved = as_bytes(source) if plan.as_bytes else source
    transfer = Transfer(operations, name, moved, group_rank, tag)
    return transfer, data, source if is_received else None
