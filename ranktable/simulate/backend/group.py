"""The process group of a simulated backend.

Its methods have both the old and the new names of torch's classes, because torch 2.13
has renamed some. It calls the new name if there is one, otherwise the old one.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import torch
from torch._C import _distributed_c10d as c10d

from ranktable.runtime.backends.backend import SCCL
from ranktable.simulate.backend.exchange import done
from ranktable.simulate.backend.limits import lacks, method_of, name_of
from ranktable.simulate.device import on_cpu
from ranktable.simulate.device.inventory import checked
from ranktable.simulate.simulation_error import rank_list

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.simulate.backend.exchange import Exchange, SharedTensors
    from ranktable.simulate.backend.limits import Limits

    Tensors = list[torch.Tensor]


_REDUCED_BY: dict[str, Callable[..., torch.Tensor]] = {
    "SUM": torch.add,
    "PRODUCT": torch.mul,
    "MIN": torch.minimum,
    "MAX": torch.maximum,
}


_SMALL_BYTES = 1 << 16
"""Size below which another barrier takes longer than to reduce everything."""


class Collectives:
    """The operations of a group."""

    def __init__(self, exchange: Exchange, limits: Limits) -> None:
        """Store the exchange and the limits."""
        self._ranks = exchange.rendezvous.ranks
        self._group_rank = exchange.rendezvous.group_rank
        self._exchange = exchange
        self._limits = limits

    def allreduce(self, tensors: Tensors, opts: c10d.AllreduceOptions) -> c10d.Work:
        """Reduce a tensor on all ranks."""
        [tensor], reduction = tensors, opts.reduceOp
        memory = self._memory("all_reduce", tensor, reduction).view(-1)
        dtype, is_small = memory.dtype, memory.nbytes <= _SMALL_BYTES
        shared = self._exchange.collective(
            "all_reduce", memory, agreed=tensor, detail=f" ({name_of(reduction)})"
        )
        if is_small:
            self._reduce(shared, reduction, memory)
        else:  # each rank reduces one part for all
            part = self._part(memory.numel())
            self._reduce(shared, reduction, memory[part], part)
            parts = self._exchange.again(memory[part])
            torch.cat([parts.of(each, dtype) for each in self._all], out=memory)
        return done(tensors)

    def reduce(self, tensors: Tensors, opts: c10d.ReduceOptions) -> c10d.Work:
        """Reduce a tensor on one rank."""
        [tensor], reduction, root = tensors, opts.reduceOp, opts.rootRank
        memory = self._memory("reduce", tensor, reduction).view(-1)
        shared = self._exchange.collective(
            "reduce",
            memory,
            agreed=tensor,
            detail=f" ({name_of(reduction)}) to {self._rank_name(root)}",
        )
        if self._group_rank == root:
            self._reduce(shared, reduction, memory)
        return done(tensors)

    def broadcast(self, tensors: Tensors, opts: c10d.BroadcastOptions) -> c10d.Work:
        """Send a tensor of one rank to all."""
        [tensor], root = tensors, opts.rootRank
        memory = self._memory("broadcast", tensor).view(-1)
        shared = self._exchange.collective(
            "broadcast",
            memory if self._group_rank == root else None,
            agreed=tensor,
            detail=f" from {self._rank_name(root)}",
        )
        memory.copy_(shared.of(root, memory.dtype))
        return done(tensors)

    def allgather(
        self, output_lists: list[Tensors], inputs: Tensors, _opts: object = None
    ) -> c10d.Work:
        """Gather the tensors of all ranks on all ranks."""
        [tensor], name = inputs, "all_gather"
        memory = self._memory(name, tensor).view(-1)
        results = self._list(name, "output", output_lists[0], memory)
        shared = self._exchange.collective(name, memory, agreed=tensor)
        for each, result in enumerate(results):
            result.copy_(shared.of(each, memory.dtype).view(result.shape))
        return done(output_lists[0])

    def _allgather_base(
        self, output: torch.Tensor, tensor: torch.Tensor, _opts: object = None
    ) -> c10d.Work:
        """Gather the tensors of all ranks in one tensor of any shape, on all ranks."""
        name = "all_gather_into_tensor"
        memory = self._memory(name, tensor).view(-1)
        size = memory.numel() * len(self._ranks)
        result = self._memory(name, output).view(-1)
        self._limits.check_output(name, output, size, memory.dtype)
        shared = self._exchange.collective(name, memory, agreed=tensor)
        torch.cat([shared.of(each, memory.dtype) for each in self._all], out=result)
        return done([output])

    all_gather_single = _allgather_base

    def gather(
        self, output_lists: list[Tensors], inputs: Tensors, opts: c10d.GatherOptions
    ) -> c10d.Work:
        """Gather the tensors of all ranks on one rank."""
        [tensor], name, root = inputs, "gather", opts.rootRank
        memory = self._memory(name, tensor).view(-1)
        outputs = output_lists[0] if self._group_rank == root else []
        results = self._list(name, "output", outputs, memory) if outputs else []
        shared = self._exchange.collective(
            name, memory, agreed=tensor, detail=f" to {self._rank_name(root)}"
        )
        for each, result in enumerate(results):
            result.copy_(shared.of(each, memory.dtype).view(result.shape))
        return done(outputs)

    def scatter(
        self, outputs: Tensors, input_lists: list[Tensors], opts: c10d.ScatterOptions
    ) -> c10d.Work:
        """Send each rank one of the tensors of one rank."""
        [output], name, root = outputs, "scatter", opts.rootRank
        result = self._memory(name, output).view(-1)
        given, size = None, result.numel()
        if self._group_rank == root:
            parts = self._list(name, "input", input_lists[0], result)
            given = torch.cat([part.reshape(-1) for part in parts])
        shared = self._exchange.collective(
            name, given, agreed=output, detail=f" from {self._rank_name(root)}"
        )
        everything = shared.of(root, result.dtype)
        result.copy_(everything[self._group_rank * size :][:size])
        return done(outputs)

    def alltoall_base(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        output_sizes: list[int],
        input_sizes: list[int],
        _opts: object = None,
    ) -> c10d.Work:
        """Send each rank a part of the tensor of every rank; SCCL's are all equal."""
        name, count = "all_to_all_single", len(self._ranks)
        memory, result = self._memory(name, tensor), self._memory(name, output)
        self._limits.check_splits(name, output_sizes)
        self._limits.check_splits(name, input_sizes)
        self._limits.check_output(name, output, memory.numel(), memory.dtype)
        if memory.dim() == 0 or memory.size(0) % count:
            raise RuntimeError(
                f"{name}: the {memory.size(0) if memory.dim() else 0} rows of a tensor "
                f"are not divided into {count} equal parts for {count} ranks"
            )
        part = self._part(memory.numel())
        shared = self._exchange.collective(name, memory.view(-1), agreed=tensor)
        parts = [shared.of(each, memory.dtype)[part] for each in self._all]
        torch.cat(parts, out=result.view(-1))
        return done([output])

    all_to_all_single = alltoall_base

    def reduce_scatter(self, *_: object) -> c10d.Work:
        """Raise, as SCCL does."""
        raise lacks("reduce_scatter")

    def _reduce_scatter_base(self, *_: object) -> c10d.Work:
        """Raise, as SCCL does."""
        raise lacks("reduce_scatter_tensor")

    def reduce_scatter_tensor_coalesced(self, *_: object) -> c10d.Work:
        """Raise, as SCCL does."""
        raise lacks("reduce_scatter_tensor_coalesced")

    def alltoall(self, *_: object) -> c10d.Work:
        """Raise, as SCCL does."""
        raise lacks("all_to_all")

    def recv_anysource(self, *_: object) -> c10d.Work:
        """Raise, as SCCL does."""
        raise lacks("recv_any_source")

    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def allreduce_coalesced(
        self, tensors: Tensors, opts: c10d.AllreduceCoalescedOptions
    ) -> c10d.Work:
        """Reduce several tensors on all ranks."""
        self._limits.refuse_coalesced("all_reduce", len(tensors))
        for tensor in tensors:
            self.allreduce([tensor], opts)
        return done(tensors)

    def allgather_into_tensor_coalesced(
        self, outputs: Tensors, tensors: Tensors, _opts: object = None
    ) -> c10d.Work:
        """Gather several tensors of all ranks, each in one tensor, on all ranks."""
        self._limits.refuse_coalesced("all_gather_into_tensor", len(tensors))
        for output, tensor in zip(outputs, tensors, strict=True):
            self._allgather_base(output, tensor)
        return done(outputs)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def allgather_coalesced(self, *_: object) -> c10d.Work:
        """Raise, as SCCL does."""
        raise lacks("all_gather_coalesced")

    def send(self, tensors: Tensors, peer: int, tag: int) -> c10d.Work:
        """Send a tensor to a member."""
        memory = self._memory("send", tensors[0])
        return self._exchange.send(tensors[0], memory, peer, tag)

    def recv(self, tensors: Tensors, peer: int, tag: int) -> c10d.Work:
        """Receive a tensor from a member."""
        memory = self._memory("recv", tensors[0])
        return self._exchange.receive(tensors[0], memory, peer, tag)

    def barrier(self, opts: c10d.BarrierOptions | None = None) -> c10d.Work:
        """Wait until all ranks have called this."""
        for chip in opts.device_ids if opts is not None else ():
            self._limits.check_chip("barrier", checked(chip))
        self._exchange.collective("barrier", None)
        return done([])

    @property
    def _all(self) -> range:
        return range(len(self._ranks))

    def _rank_name(self, group_rank: int) -> str:
        return rank_list([self._ranks[group_rank]])

    def _part(self, num_elements: int) -> slice:
        """Return the part of this rank."""
        size, own = len(self._ranks), self._group_rank
        return slice(own * num_elements // size, (own + 1) * num_elements // size)

    def _reduce(
        self,
        shared: SharedTensors,
        reduction: c10d.ReduceOp,
        result: torch.Tensor,
        part: slice = slice(None),
    ) -> None:
        """Reduce a part of the tensors of all members.

        Into memory that is there, because new memory takes longer than the sum.
        """
        reduce = _REDUCED_BY[name_of(reduction)]
        tensors = [shared.of(each, result.dtype)[part] for each in self._all]
        result.copy_(tensors[0])
        for other in tensors[1:]:
            reduce(result, other, out=result)

    def _memory(
        self,
        name: str,
        tensor: torch.Tensor,
        reduction: c10d.ReduceOp | None = None,
        *,
        may_have_gaps: bool = False,
    ) -> torch.Tensor:
        """Return the memory of a tensor for an operation, as a CPU tensor.

        Args:
            name: Name of the operation in ``torch.distributed``.
            tensor: The tensor.
            reduction: The reduction, if it reduces.
            may_have_gaps: Whether its elements need not be contiguous.

        Raises:
            RuntimeError: The backend refuses the tensor.
        """
        self._limits.check(name, tensor, reduction)
        if not may_have_gaps:
            self._limits.check_contiguous(name, tensor)
        return on_cpu(tensor)

    def _list(
        self, name: str, what: str, tensors: Tensors, like: torch.Tensor
    ) -> Tensors:
        """Return the memory of one tensor for each rank; they may be anywhere."""
        if len(tensors) != len(self._ranks):
            raise RuntimeError(
                f"{method_of(name)}: invalid "
                f"{what} tensor list at index 0 (expected length {len(self._ranks)}, "
                f"got {len(tensors)})"
            )
        for each in tensors:
            self._limits.check_output(name, each, like.numel(), like.dtype)
        return [self._memory(name, each, may_have_gaps=True) for each in tensors]


class SimulatedGroup(Collectives, c10d.ProcessGroup):  # type: ignore[misc]  # torch's stubs have overloads that are never called
    """A group whose tensors are on simulated chips.

    Torch uses a subclass of ``ProcessGroup`` as it is. Since torch 2.0 backends are
    subclasses of ``Backend``, but torch 2.13 cannot make these in Python.
    """

    def __init__(self, exchange: Exchange, limits: Limits) -> None:
        """Store the exchange and the limits."""
        rendezvous = exchange.rendezvous
        rank, size = rendezvous.group_rank, len(rendezvous.ranks)
        c10d.ProcessGroup.__init__(self, rank, size)  # type: ignore[call-arg]
        super().__init__(exchange, limits)
        # Torch keeps the name and the time-out of the group in a backend, and calls
        # none of its methods.
        device = torch.device(SCCL.device_type)
        fake = c10d.FakeProcessGroup._create_internal(rank, size)
        fake.options._timeout = timedelta(seconds=rendezvous.timeout_s)
        self._register_backend(device, c10d.ProcessGroup.BackendType.CUSTOM, fake)

    def _start_coalescing(self, device: torch.device) -> None:
        """Raise, as for SCCL."""
        raise lacks("coalescing")

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """Return the name of the backend."""
        return "SCCL"

    def shutdown(self) -> None:
        """Leave the group."""
        self._exchange.leave()

    @property
    def _device_types(self) -> list[torch.device]:
        """The devices that the group is for."""
        return [torch.device(SCCL.device_type)]
