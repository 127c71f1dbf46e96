"""The process group of a simulated backend.

Its methods have both the old and the new names of torch's classes, because torch 2.13
has renamed some. It calls the new name if there is one, otherwise the old one.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _distributed_c10d as c10d
from torch.distributed.distributed_c10d import _world

from ranktable.runtime.backends.backend import SCCL
from ranktable.simulate.backend.exchange import done
from ranktable.simulate.backend.limits import METHODS, bad_reduction, name_of
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
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
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

    def reduce_scatter(
        self,
        outputs: Tensors,
        input_lists: list[Tensors],
        opts: c10d.ReduceScatterOptions,
    ) -> c10d.Work:
        """Reduce one tensor for each rank."""
        name, reduction = "reduce_scatter", opts.reduceOp
        self._check_length(name, "input", input_lists[0])
        memories = [self._memory(name, each, reduction) for each in input_lists[0]]
        together = torch.cat([memory.view(-1) for memory in memories])
        return self._reduce_scatter(name, outputs[0], together, reduction)

    def _reduce_scatter_base(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        opts: c10d.ReduceScatterOptions,
    ) -> c10d.Work:
        """Reduce a tensor with one part for each rank; each rank gets its part."""
        name = "reduce_scatter_tensor"
        memory = self._memory(name, tensor, opts.reduceOp).view(-1)
        return self._reduce_scatter(name, output, memory, opts.reduceOp)

    reduce_scatter_single = _reduce_scatter_base

    def _reduce_scatter(
        self,
        name: str,
        output: torch.Tensor,
        memory: torch.Tensor,
        reduction: c10d.ReduceOp,
    ) -> c10d.Work:
        size = memory.numel() // len(self._ranks)
        result = self._memory(name, output, reduction)
        self._limits.check_output(name, output, size, memory.dtype)
        begin = self._group_rank * size
        shared = self._exchange.collective(
            name, memory, agreed=output, detail=f" ({name_of(reduction)})"
        )
        part = slice(begin, begin + size)
        self._reduce(shared, reduction, result.view(-1), part)
        return done([output])

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

    def alltoall(
        self, outputs: Tensors, inputs: Tensors, _opts: object = None
    ) -> c10d.Work:
        """Send each rank one of the tensors of every rank."""
        name = "all_to_all"
        for what, tensors in (("input", inputs), ("output", outputs)):
            self._check_length(name, what, tensors)
        sent = [self._memory(name, each).view(-1) for each in inputs]
        results = [self._memory(name, each).view(-1) for each in outputs]
        self._all_to_all(name, sent, results)
        return done(outputs)

    def alltoall_base(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        output_sizes: list[int],
        input_sizes: list[int],
        _opts: object = None,
    ) -> c10d.Work:
        """Send each rank a part of the tensor of every rank."""
        name = "all_to_all_single"
        memory, result = self._memory(name, tensor), self._memory(name, output)
        self._limits.check_splits(name, output_sizes)
        self._limits.check_splits(name, input_sizes)
        has_parts = bool(output_sizes or input_sizes)
        self._all_to_all(
            name,
            self._split(name, memory, input_sizes),
            self._split(name, result, output_sizes),
            agreed=None if has_parts else tensor,
        )
        return done([output])

    all_to_all_single = alltoall_base

    def _split(self, name: str, memory: torch.Tensor, sizes: list[int]) -> Tensors:
        """Return the part for each rank; sizes count along the first dimension."""
        length, count = memory.size(0) if memory.dim() else 0, len(self._ranks)
        equal = [length // count] * count
        if sum(sizes or equal) != length or len(sizes or equal) != count:
            raise RuntimeError(
                f"{name}: the {length} rows of a tensor are not divided into "
                f"{sizes or f'{count} equal parts'} for {count} ranks"
            )
        return [part.reshape(-1) for part in torch.split(memory, sizes or equal)]

    def _all_to_all(
        self,
        name: str,
        sent: Tensors,
        results: Tensors,
        agreed: torch.Tensor | None = None,
    ) -> None:
        sizes = torch.tensor([part.numel() for part in sent], device="cpu")
        begins, own = [], self._group_rank
        shared = self._exchange.collective(name, sizes, agreed=agreed)
        for each, result in enumerate(results):
            of_member = shared.of(each, sizes.dtype)
            self._check_part(name, each, int(of_member[own]), result)
            begins.append(int(of_member[:own].sum()))
        tensors = self._exchange.again(torch.cat(sent))
        for each, result in enumerate(results):
            everything = tensors.of(each, result.dtype)
            result.copy_(everything[begins[each] :][: result.numel()])

    def _check_part(
        self, name: str, source: int, sent: int, result: torch.Tensor
    ) -> None:
        """Raise on all ranks if a member sends another size than this rank receives."""
        if sent != result.numel():
            raise self._exchange.rendezvous.close(
                f"in {name} {self._rank_name(source)} sends {sent} elements to "
                f"{self._rank_name(self._group_rank)}, which receives {result.numel()}",
                (),
            )

    def allreduce_coalesced(
        self, tensors: Tensors, opts: c10d.AllreduceCoalescedOptions
    ) -> c10d.Work:
        """Reduce several tensors on all ranks."""
        self._limits.refuse_coalesced("all_reduce", len(tensors))
        for tensor in tensors:
            self.allreduce([tensor], opts)
        return done(tensors)

    def reduce_scatter_tensor_coalesced(
        self, outputs: Tensors, tensors: Tensors, opts: c10d.ReduceScatterOptions
    ) -> c10d.Work:
        """Reduce several tensors with one part for each rank; each gets its parts."""
        self._limits.refuse_coalesced("reduce_scatter_tensor", len(tensors))
        for output, tensor in zip(outputs, tensors, strict=True):
            self._reduce_scatter_base(output, tensor, opts)
        return done(outputs)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def allgather_into_tensor_coalesced(
        self, outputs: Tensors, tensors: Tensors, _opts: object = None
    ) -> c10d.Work:
        """Gather several tensors of all ranks, each in one tensor, on all ranks."""
        self._limits.refuse_coalesced("all_gather_into_tensor", len(tensors))
        for output, tensor in zip(outputs, tensors, strict=True):
            self._allgather_base(output, tensor)
        return done(outputs)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def allgather_coalesced(
        self, output_lists: list[Tensors], tensors: Tensors, _opts: object = None
    ) -> c10d.Work:
        """Gather several tensors of all ranks on all ranks."""
        self._limits.refuse_coalesced("all_gather", len(tensors))
        for outputs, tensor in zip(output_lists, tensors, strict=True):
            self.allgather([outputs], [tensor])
        return done([tensor for outputs in output_lists for tensor in outputs])

    def send(self, tensors: Tensors, peer: int, tag: int) -> c10d.Work:
        """Send a tensor to a member."""
        memory = self._memory("send", tensors[0])
        return self._exchange.send(tensors[0], memory, peer, tag)

    def recv(self, tensors: Tensors, peer: int, tag: int) -> c10d.Work:
        """Receive a tensor from a member."""
        memory = self._memory("recv", tensors[0])
        return self._exchange.receive(tensors[0], memory, peer, tag)

    def recv_anysource(self, tensors: Tensors, tag: int) -> c10d.Work:
        """Receive a tensor from any member; the vendors' backends refuse this."""
        memory = self._memory("recv_any_source", tensors[0])
        return self._exchange.receive(tensors[0], memory, None, tag)

    def barrier(self, opts: c10d.BarrierOptions | None = None) -> c10d.Work:
        """Wait until all ranks have called this."""
        self._limits.refuse("barrier")
        for chip in opts.device_ids if opts is not None else ():
            self._limits.check_chip("barrier", checked(chip))
        self._exchange.collective("barrier", None)
        return done([])

    def _serves_cpu(self) -> bool:
        """Whether the group was made with ``cpu:gloo`` too.

        If one backend of a group is a subclass of ``ProcessGroup``, torch drops the
        others. SOPHGO's is such a subclass.
        """
        configs: Any = _world.pg_backend_config
        config = configs.get(self, "")
        return "cpu:" in config

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
        reduce = _REDUCED_BY.get(name_of(reduction))
        if reduce is None:  # of tensors on the CPU; the limits refuse the others
            raise bad_reduction(name_of(reduction))
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
        if tensor.is_cpu and self._serves_cpu():
            self._limits.repair_cpu()
            if not (may_have_gaps or tensor.is_contiguous()):
                raise RuntimeError(f"{name}: a tensor on the CPU must be contiguous")
            return tensor.detach()
        self._limits.check(name, tensor, reduction)
        if not may_have_gaps:
            self._limits.check_contiguous(name, tensor)
        return on_cpu(tensor)

    def _list(
        self, name: str, what: str, tensors: Tensors, like: torch.Tensor
    ) -> Tensors:
        """Return the memory of one tensor for each rank; they may be anywhere."""
        self._check_length(name, what, tensors)
        for each in tensors:
            self._limits.check_output(name, each, like.numel(), like.dtype)
        return [self._memory(name, each, may_have_gaps=True) for each in tensors]

    def _check_length(self, name: str, what: str, tensors: Tensors) -> None:
        if len(tensors) != len(self._ranks):
            raise RuntimeError(
                f"ProcessGroupSCCL::{METHODS[name]}: invalid "
                f"{what} tensor list at index 0 (expected length {len(self._ranks)}, "
                f"got {len(tensors)})"
            )


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
        """Start collecting operations; here they are done at once."""
        del device
        self._limits.refuse("coalescing")

    def _end_coalescing(self, device: torch.device) -> c10d.Work:
        """Return the work of the collected operations, which have ended."""
        del device
        return done([])

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """Return the name of the backend."""
        return "SCCL"

    def shutdown(self) -> None:
        """Leave the group."""
        self._exchange.leave()

    @property
    def _device_types(self) -> list[torch.device]:
        """The devices that the group is for."""
        names = [SCCL.device_type, *["cpu"] * self._serves_cpu()]
        return [torch.device(name) for name in names]
