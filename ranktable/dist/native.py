"""Torch's operations, on tensors that the backend takes as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch.distributed as dist

from ranktable.dist.errors import DistError
from ranktable.dist.work import Pending

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from ranktable.dist.action import Turn
    from ranktable.dist.communicator import Communicator

OPS: Final = {
    "sum": dist.ReduceOp.SUM,
    "product": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
    "band": dist.ReduceOp.BAND,
    "bor": dist.ReduceOp.BOR,
    "bxor": dist.ReduceOp.BXOR,
}

REDUCE_SCATTER: Final = (
    getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
)
"""By its name since torch 2.13, which warns of the other one."""

COALESCING: Final = frozenset({"nccl", "xccl", "hccl", "cncl", "mccl"})
"""Backends that do one transfer after the other on a stream: two ranks that both begin
with a send would wait for each other, unless torch hands over all of them at once."""


class Native:
    """The operations of a group's backend, for one collective.

    Roots and peers are given as members and handed to torch as global ranks, since
    SOPHGO's wrappers know no others.
    """

    def __init__(
        self, communicator: Communicator, turn: Turn | None, backend: str
    ) -> None:
        """Keep what the operations are part of.

        Args:
            communicator: The group.
            turn: The collective; None for what two ranks do alone.
            backend: Name of the backend's table.
        """
        self.communicator = communicator
        self.turn = turn
        self.backend = backend

    @property
    def aside(self) -> Native:
        """The operations for what is said beside tensors."""
        communicator = self.communicator
        backend = communicator.tables[communicator.device.type]
        return Native(communicator, self.turn, backend)

    def all_reduce(self, data: torch.Tensor, reduction: str) -> Pending:
        """Reduce a tensor in place, to all ranks."""
        op, group = OPS[reduction], self.communicator.group
        return self._start(lambda: dist.all_reduce(data, op, group, async_op=True))

    def reduce(self, data: torch.Tensor, reduction: str, member: int) -> Pending:
        """Reduce a tensor in place, to one rank; elsewhere it may change."""
        op, group, dst = OPS[reduction], self.communicator.group, self._rank(member)
        return self._start(lambda: dist.reduce(data, dst, op, group, async_op=True))

    def broadcast(self, data: torch.Tensor, member: int) -> Pending:
        """Send a tensor of one rank to all."""
        group, src = self.communicator.group, self._rank(member)
        return self._start(lambda: dist.broadcast(data, src, group, async_op=True))

    def all_gather(self, outputs: list[torch.Tensor], data: torch.Tensor) -> Pending:
        """Collect tensors of one shape, on all ranks."""
        group = self.communicator.group
        return self._start(lambda: dist.all_gather(outputs, data, group, async_op=True))

    def gather(
        self, outputs: list[torch.Tensor] | None, data: torch.Tensor, member: int
    ) -> Pending:
        """Collect tensors of one shape, on one rank."""
        group, dst = self.communicator.group, self._rank(member)
        return self._start(
            lambda: dist.gather(data, outputs, dst, group, async_op=True)
        )

    def scatter(
        self, output: torch.Tensor, parts: list[torch.Tensor] | None, member: int
    ) -> Pending:
        """Send each rank one of the tensors of one rank."""
        group, src = self.communicator.group, self._rank(member)
        return self._start(
            lambda: dist.scatter(output, parts, src, group, async_op=True)
        )

    def reduce_scatter(
        self, output: torch.Tensor, data: torch.Tensor, reduction: str
    ) -> Pending:
        """Reduce a tensor that has a part for each rank, to these ranks."""
        op, group = OPS[reduction], self.communicator.group
        return self._start(
            lambda: REDUCE_SCATTER(output, data, op, group, async_op=True)
        )

    def all_to_all(
        self,
        output: torch.Tensor,
        data: torch.Tensor,
        received: list[int] | None = None,
        sent: list[int] | None = None,
    ) -> Pending:
        """Send each rank a part of a tensor of one dimension.

        Args:
            output: What comes from all ranks, in their order.
            data: What goes to all ranks, in their order.
            received: Number of elements from each rank; None for the same from all.
            sent: Number of elements to each rank; likewise.
        """
        group = self.communicator.group
        return self._start(
            lambda: dist.all_to_all_single(
                output, data, received, sent, group, async_op=True
            )
        )

    def send(self, data: torch.Tensor, member: int, tag: int) -> Pending:
        """Send a tensor to one rank."""
        group, dst = self.communicator.group, self._rank(member)
        return self._transfer(lambda: dist.isend(data, dst, group, tag))

    def recv(self, data: torch.Tensor, member: int, tag: int) -> Pending:
        """Receive a tensor from one rank."""
        group, src = self.communicator.group, self._rank(member)
        return self._transfer(lambda: dist.irecv(data, src, group, tag))

    def pass_on(
        self, data: torch.Tensor, target: int, output: torch.Tensor, source: int
    ) -> list[Pending]:
        """Send a tensor to one rank while another one comes.

        On a stream both have to be handed over at once, or every rank would wait for
        the next one to receive.
        """
        if self.backend in COALESCING:
            return start_together(
                [(self, "send", data, target, 0), (self, "recv", output, source, 0)]
            )
        return [self.send(data, target, 0), self.recv(output, source, 0)]

    def barrier(self) -> Pending:
        """Wait for all ranks."""
        group, device = self.communicator.group, self.communicator.device
        # Without its number torch guesses the device (pytorch/pytorch#60752).
        listed = None if device.type == "cpu" else [device.index]
        return self._start(
            lambda: dist.barrier(group, async_op=True, device_ids=listed)
        )

    def _rank(self, member: int) -> int:
        return self.communicator.ranks[member]

    def _start(self, start: Callable[[], dist.Work | None]) -> Pending:
        return Pending(self.begun(start), self.communicator, self.turn, self.backend)

    def _transfer(self, start: Callable[[], dist.Work | None]) -> Pending:
        # Gloo closes all connections when a transfer has not ended in the time that it
        # is waited for, so nobody looks up from it.
        pending = Pending(self.begun(start), self.communicator, None, self.backend)
        self.communicator.transfers.add(pending)
        return pending

    def begun(self, start: Callable[[], dist.Work | None]) -> dist.Work | None:
        """Return what torch has begun.

        Args:
            start: Begins it.

        Raises:
            DistError: Torch refuses.
        """
        try:
            return start()
        except RuntimeError as error:
            raise self._refused(error) from error

    def _refused(self, error: RuntimeError) -> DistError:
        """Return the error for an operation that torch did not start."""
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        what = "a transfer" if self.turn is None else str(self.turn.action)
        return DistError(
            f"{what} failed on rank {self.communicator.rank} ({self.backend}): {reason}"
        )


def start_together(
    transfers: Sequence[tuple[Native, str, torch.Tensor, int, int]],
) -> list[Pending]:
    """Begin several transfers at once.

    Args:
        transfers: For each the operations of its backend, ``send`` or ``recv``, a
            tensor, the member at the other side and a tag.
    """
    starts = {"send": dist.isend, "recv": dist.irecv}
    described = [
        dist.P2POp(
            starts[operation],
            data,
            native.communicator.ranks[member],
            native.communicator.group,
            tag,
        )
        for native, operation, data, member, tag in transfers
    ]
    native = transfers[0][0]
    works = dist.batch_isend_irecv(described)
    return [Pending(work, native.communicator, None, native.backend) for work in works]
