"""Torch's operations, on tensors that the backend takes as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch.distributed as dist

from ranktable.dist.calls import begin_call
from ranktable.dist.errors import DistError
from ranktable.dist.plan import make_plan
from ranktable.dist.tensors import dtype_name
from ranktable.dist.work import Pending
from ranktable.runtime.torch_versions import reduce_scatter_single

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from ranktable.dist.calls import CollectiveCall, CollectiveFingerprint
    from ranktable.dist.communicator import Communicator
    from ranktable.dist.plan import Plan
    from ranktable.runtime.backends.backend import Backend

OPS: Final = {
    "sum": dist.ReduceOp.SUM,
    "product": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
    "band": dist.ReduceOp.BAND,
    "bor": dist.ReduceOp.BOR,
    "bxor": dist.ReduceOp.BXOR,
}

REDUCE_SCATTER: Final = reduce_scatter_single()


class Operations:
    """The operations of a group's backend, for one collective.

    Roots and peers are given as group ranks and handed to torch as global ranks, since
    SOPHGO's wrappers know no others.
    """

    def __init__(
        self,
        communicator: Communicator,
        call: CollectiveCall | None,
        backend: Backend,
        *,
        is_exact: bool = True,
    ) -> None:
        """Keep what the operations are part of.

        Args:
            communicator: The group.
            call: The collective; None for what two ranks do alone.
            backend: What does them.
            is_exact: Whether reductions are exact, see ``make_plan``.
        """
        self.communicator = communicator
        self.call = call
        self.backend = backend
        self.is_exact = is_exact

    @property
    def metadata(self) -> Operations:
        """The operations for what is said beside tensors."""
        members = self.communicator
        return self.on(members.metadata_backend)

    def on(self, backend: Backend) -> Operations:
        """Return the operations of another backend of the group."""
        return Operations(self.communicator, self.call, backend, is_exact=self.is_exact)

    def plan(
        self,
        operation: str,
        dtype: torch.dtype,
        reduction: str | None = None,
        *,
        is_even: bool = True,
    ) -> Plan:
        """Return how a collective is done here.

        Raises:
            UnsupportedError: There is no way.
        """
        return make_plan(
            self.backend.table_name,
            operation,
            dtype_name(dtype),
            reduction,
            is_even=is_even,
            is_exact=self.is_exact,
        )

    def all_reduce(self, data: torch.Tensor, reduction: str) -> Pending:
        """Reduce a tensor in place, to all ranks."""
        op, group = OPS[reduction], self.communicator.group
        return self._start(lambda: dist.all_reduce(data, op, group, async_op=True))

    def reduce(self, data: torch.Tensor, reduction: str, group_rank: int) -> Pending:
        """Reduce a tensor in place, to one rank; elsewhere it may change."""
        op, group, dst = OPS[reduction], self.communicator.group, self._rank(group_rank)
        return self._start(lambda: dist.reduce(data, dst, op, group, async_op=True))

    def broadcast(self, data: torch.Tensor, group_rank: int) -> Pending:
        """Send a tensor of one rank to all."""
        group, src = self.communicator.group, self._rank(group_rank)
        return self._start(lambda: dist.broadcast(data, src, group, async_op=True))

    def all_gather(self, outputs: list[torch.Tensor], data: torch.Tensor) -> Pending:
        """Collect tensors of one shape, on all ranks."""
        group = self.communicator.group
        return self._start(lambda: dist.all_gather(outputs, data, group, async_op=True))

    def gather(
        self, outputs: list[torch.Tensor] | None, data: torch.Tensor, group_rank: int
    ) -> Pending:
        """Collect tensors of one shape, on one rank."""
        group, dst = self.communicator.group, self._rank(group_rank)
        return self._start(
            lambda: dist.gather(data, outputs, dst, group, async_op=True)
        )

    def scatter(
        self, output: torch.Tensor, parts: list[torch.Tensor] | None, group_rank: int
    ) -> Pending:
        """Send each rank one of the tensors of one rank."""
        group, src = self.communicator.group, self._rank(group_rank)
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

    def send(self, data: torch.Tensor, group_rank: int, tag: int) -> Pending:
        """Send a tensor to one rank."""
        group, dst = self.communicator.group, self._rank(group_rank)
        return self._transfer(lambda: dist.isend(data, dst, group, tag))

    def recv(self, data: torch.Tensor, group_rank: int, tag: int) -> Pending:
        """Receive a tensor from one rank."""
        group, src = self.communicator.group, self._rank(group_rank)
        return self._transfer(lambda: dist.irecv(data, src, group, tag))

    def pass_on(
        self, data: torch.Tensor, target: int, output: torch.Tensor, source: int
    ) -> list[Pending]:
        """Send a tensor to one rank while another one comes.

        On a stream both have to be handed over at once, or every rank would wait for
        the next one to receive.
        """
        if self.backend.is_coalescing:
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

    def _rank(self, group_rank: int) -> int:
        return self.communicator.ranks[group_rank]

    def _start(self, start: Callable[[], dist.Work | None]) -> Pending:
        return Pending(self.begun(start), self.communicator, self.call)

    def _transfer(self, start: Callable[[], dist.Work | None]) -> Pending:
        # Gloo closes all connections when a transfer has not ended in the time that it
        # is waited for, so nobody looks up from it.
        return Pending(self.begun(start), self.communicator, None)

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
        what = "a transfer" if self.call is None else str(self.call.fingerprint)
        backend = self.backend.table_name
        return DistError(
            f"{what} failed on rank {self.communicator.rank} ({backend}): {reason}"
        )


def start_together(
    transfers: Sequence[tuple[Operations, str, torch.Tensor, int, int]],
) -> list[Pending]:
    """Begin several transfers at once.

    Args:
        transfers: For each the operations of its backend, ``send`` or ``recv``, a
            tensor, the group rank of the other side and a tag.
    """
    starts = {"send": dist.isend, "recv": dist.irecv}
    described = [
        dist.P2POp(
            starts[operation],
            data,
            operations.communicator.ranks[group_rank],
            operations.communicator.group,
            tag,
        )
        for operations, operation, data, group_rank, tag in transfers
    ]
    members = transfers[0][0].communicator
    works = dist.batch_isend_irecv(described)
    return [Pending(work, members, None) for work in works]


def begin(  # noqa: PLR0913 - what collectives differ in
    members: Communicator,
    fingerprint: CollectiveFingerprint,
    problem: Exception | None = None,
    data: torch.Tensor | None = None,
    *,
    is_planned: bool = False,
    exact: bool | None = None,
    async_op: bool = False,
) -> Operations:
    """Compare a collective with the other ranks, and return what it is made of.

    Args:
        members: The group.
        fingerprint: What this rank is about to do.
        problem: Why it cannot.
        data: One of its tensors, None for what is not known here.
        is_planned: Whether there may be no way to do it.
        exact: Whether reductions are exact; None for CPUs only.
        async_op: Whether this rank must not wait for the others here.

    Raises:
        Exception: The problem, or that there is no way.
        MismatchError: The ranks differ.
    """
    device = getattr(data, "device", None)
    backend = (
        members.metadata_backend if device is None else members.backend_for(device)
    )
    is_exact = backend.serves_cpu if exact is None else exact
    where = backend.table_name
    if is_exact != backend.serves_cpu:
        where += ", exactly" if is_exact else ", as it comes"
    fingerprint = fingerprint._replace(backend=where)
    if problem is None and is_planned:
        operation, reduction, dtype, *_ = fingerprint
        try:
            make_plan(
                backend.table_name, operation, dtype or "", reduction, is_exact=is_exact
            )
        except (ValueError, RuntimeError) as error:
            problem = error
    call = begin_call(members, fingerprint, problem, async_op=async_op)
    return Operations(members, call, backend, is_exact=is_exact)
