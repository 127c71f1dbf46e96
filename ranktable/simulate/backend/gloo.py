"""What gloo can do, which torch's type stubs leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import timedelta

    import torch
    from torch._C import _distributed_c10d as c10d

    Tensors = list[torch.Tensor]


class Gloo(Protocol):
    """``ProcessGroupGloo``, as far as it is used here."""

    def allreduce(self, tensors: Tensors, opts: c10d.AllreduceOptions) -> c10d.Work:
        """Reduce a tensor, to all ranks."""

    def reduce(self, tensors: Tensors, opts: c10d.ReduceOptions) -> c10d.Work:
        """Reduce a tensor, to one rank."""

    def broadcast(self, tensors: Tensors, opts: c10d.BroadcastOptions) -> c10d.Work:
        """Send a tensor of one rank to all."""

    def allgather(
        self, outputs: list[Tensors], inputs: Tensors, opts: c10d.AllgatherOptions
    ) -> c10d.Work:
        """Collect the tensors of all ranks, on all ranks."""

    def _allgather_base(self, output: torch.Tensor, tensor: torch.Tensor) -> c10d.Work:
        """Collect the tensors of all ranks in one, on all ranks."""

    def gather(
        self, outputs: list[Tensors], inputs: Tensors, opts: c10d.GatherOptions
    ) -> c10d.Work:
        """Collect the tensors of all ranks, on one rank."""

    def scatter(
        self, outputs: Tensors, inputs: list[Tensors], opts: c10d.ScatterOptions
    ) -> c10d.Work:
        """Send each rank one of the tensors of one rank."""

    def _reduce_scatter_base(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        opts: c10d.ReduceScatterOptions,
    ) -> c10d.Work:
        """Reduce a tensor that has a part for each rank, to these ranks."""

    def alltoall_base(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        output_sizes: list[int],
        input_sizes: list[int],
        opts: c10d.AllToAllOptions,
    ) -> c10d.Work:
        """Send each rank a part of the tensor of every rank."""

    def barrier(self) -> c10d.Work:
        """Wait until all ranks have come."""

    def send(self, tensors: Tensors, peer: int, tag: int) -> c10d.Work:
        """Send a tensor to a member."""

    def recv(self, tensors: Tensors, peer: int, tag: int) -> c10d.Work:
        """Receive a tensor from a member."""

    def recv_anysource(self, tensors: Tensors, tag: int) -> c10d.Work:
        """Receive a tensor from any member."""


def connect(store: c10d.Store, rank: int, size: int, timeout: timedelta) -> Gloo:
    """Return the gloo of a group, connected to all its ranks.

    Args:
        store: Where the ranks find each other.
        rank: Rank of this process in the group.
        size: Number of its ranks.
        timeout: Time-out of its operations.
    """
    from torch._C._distributed_c10d import ProcessGroupGloo  # noqa: PLC0415

    return ProcessGroupGloo(store, rank, size, timeout)  # type: ignore[return-value]
