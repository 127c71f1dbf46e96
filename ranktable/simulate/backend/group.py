"""The process group of a simulated backend.

Its methods have both the old and the new names of torch's classes, because torch 2.13
has renamed some. It calls the new name if there is one, otherwise the old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch._C import _distributed_c10d as c10d
from torch.distributed.distributed_c10d import _world

from ranktable.simulate.backend.exchange import done
from ranktable.simulate.backend.limits import name_of, of_memory
from ranktable.simulate.device import on_cpu
from ranktable.simulate.device.inventory import checked
from ranktable.simulate.simulation_error import rank_list

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.simulate.backend.exchange import Exchange
    from ranktable.simulate.backend.limits import Limits

    Tensors = list[torch.Tensor]


# Gloo does not support these types; to send a tensor, only the element size matters.
_MOVED_AS = {torch.bool: torch.uint8, torch.int16: torch.float16}


def alias(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's memory as a CPU tensor of a type that gloo can send."""
    seen = tensor.detach() if tensor.is_cpu else on_cpu(tensor)
    return seen.view(_MOVED_AS.get(seen.dtype, seen.dtype))


def _addend(memory: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Return the memory of a tensor, or a copy of it that gloo can reduce."""
    if tensor.dtype is torch.int16:
        return memory.view(torch.int16).to(torch.int32)
    return memory


def _give_back(memory: torch.Tensor, addend: torch.Tensor) -> None:
    """Write the result of gloo back to the memory from which it was copied."""
    if addend is not memory:
        memory.view(torch.int16).copy_(addend)


class GroupParts:
    """The parts of a group, without operations."""

    def __init__(self, exchange: Exchange, limits: Limits, rank: int) -> None:
        """Store the exchange and the limits."""
        self._exchange = exchange
        self._gloo = exchange.gloo
        self._limits = limits
        self._group_rank = rank
        self._ranks = exchange.rendezvous.ranks

    def _memory(
        self,
        name: str,
        tensor: torch.Tensor,
        reduction: c10d.ReduceOp | None = None,
        *,
        num_elements: int | None = None,
        may_have_gaps: bool = False,
    ) -> torch.Tensor:
        """Return the memory of a tensor for an operation.

        Args:
            name: Name of the operation in ``torch.distributed``.
            tensor: The tensor.
            reduction: The reduction, if it reduces.
            num_elements: Number of elements that it must have.
            may_have_gaps: Whether its elements need not be contiguous.

        Raises:
            RuntimeError: The backend refuses the tensor.
        """
        if tensor.is_cpu and self._serves_cpu():
            self._limits.repair_cpu()
            return alias(tensor)
        self._limits.check(name, tensor, reduction)
        if not may_have_gaps:
            self._limits.check_contiguous(name, tensor)
        if num_elements is not None:
            self._limits.check_size(name, tensor, num_elements)
        return alias(tensor)

    def _do(
        self,
        name: str,
        outputs: Tensors,
        start: Callable[[], c10d.Work],
        *,
        agreed: torch.Tensor | None = None,
        detail: str = "",
    ) -> c10d.Work:
        """Do a collective of the group, and return its work.

        Args:
            name: Its name in ``torch.distributed``.
            outputs: The tensors that it writes to.
            start: Calls gloo.
            agreed: A tensor whose size must be the same on every rank.
            detail: What else must be the same: the reduction, the root.
        """
        given = [agreed] if agreed is not None else outputs
        part_bytes = sum(tensor.nbytes for tensor in given)
        self._exchange.collective(name, agreed, detail, start, part_bytes)
        return done(outputs)

    def _serves_cpu(self) -> bool:
        """Whether the group is for tensors on the CPU too."""
        return False

    def _rank_name(self, group_rank: int) -> str:
        return rank_list([self._ranks[group_rank]])


class Reducing(GroupParts):
    """A group that can reduce."""

    def allreduce(
        self, tensors: list[torch.Tensor], opts: c10d.AllreduceOptions
    ) -> c10d.Work:
        """Reduce a tensor on all ranks."""
        tensor, options = tensors[0], c10d.AllreduceOptions()
        memory = self._memory("all_reduce", tensor, opts.reduceOp)
        addend = _addend(memory, tensor)
        options.reduceOp = of_memory(opts.reduceOp, tensor)
        work = self._do(
            "all_reduce",
            tensors,
            lambda: self._gloo.allreduce([addend], options),
            agreed=tensor,
            detail=f" ({name_of(opts.reduceOp)})",
        )
        _give_back(memory, addend)
        return work

    def reduce(
        self, tensors: list[torch.Tensor], opts: c10d.ReduceOptions
    ) -> c10d.Work:
        """Reduce a tensor on one rank."""
        tensor, root, options = tensors[0], opts.rootRank, c10d.ReduceOptions()
        memory = self._memory("reduce", tensor, opts.reduceOp)
        options.reduceOp = of_memory(opts.reduceOp, tensor)
        options.rootRank = root
        if self._group_rank != root:
            memory = memory.clone()  # gloo may write to it; the vendors do not
        addend = _addend(memory, tensor)
        work = self._do(
            "reduce",
            tensors,
            lambda: self._gloo.reduce([addend], options),
            agreed=tensor,
            detail=f" ({name_of(opts.reduceOp)}) to {self._rank_name(root)}",
        )
        _give_back(memory, addend)
        return work

    def reduce_scatter(
        self,
        outputs: list[torch.Tensor],
        input_lists: list[list[torch.Tensor]],
        opts: c10d.ReduceScatterOptions,
    ) -> c10d.Work:
        """Reduce one tensor for each rank."""
        name, reduction = "reduce_scatter", opts.reduceOp
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
        # Gloo writes to its input; the vendors' libraries do not.
        memory = self._memory(name, tensor, opts.reduceOp).view(-1).clone()
        return self._reduce_scatter(name, output, memory, opts.reduceOp)

    reduce_scatter_single = _reduce_scatter_base

    def _reduce_scatter(
        self,
        name: str,
        output: torch.Tensor,
        memory: torch.Tensor,
        reduction: c10d.ReduceOp,
    ) -> c10d.Work:
        part = memory.numel() // len(self._ranks)
        result = self._memory(name, output, reduction, num_elements=part).view(-1)
        reduced, addend = _addend(result, output), _addend(memory, output)
        options = c10d.ReduceScatterOptions()
        options.reduceOp = of_memory(reduction, output)
        work = self._do(
            name,
            [output],
            lambda: self._gloo._reduce_scatter_base(reduced, addend, options),  # noqa: SLF001 - torch has no other name for it
            agreed=output,
            detail=f" ({name_of(reduction)})",
        )
        _give_back(result, reduced)
        return work

    def allreduce_coalesced(
        self, tensors: list[torch.Tensor], opts: c10d.AllreduceCoalescedOptions
    ) -> c10d.Work:
        """Reduce several tensors on all ranks."""
        self._limits.refuse_coalesced("all_reduce", len(tensors))
        for tensor in tensors:
            self.allreduce([tensor], opts)
        return done(tensors)

    def reduce_scatter_tensor_coalesced(
        self,
        outputs: list[torch.Tensor],
        tensors: list[torch.Tensor],
        opts: c10d.ReduceScatterOptions,
    ) -> c10d.Work:
        """Reduce several tensors with one part for each rank; each gets its parts."""
        self._limits.refuse_coalesced("reduce_scatter_tensor", len(tensors))
        for output, tensor in zip(outputs, tensors, strict=True):
            self._reduce_scatter_base(output, tensor, opts)
        return done(outputs)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced


class Moving(GroupParts):
    """A group that can send tensors."""

    def broadcast(self, tensors: Tensors, opts: c10d.BroadcastOptions) -> c10d.Work:
        """Send a tensor of one rank to all."""
        memory = self._memory("broadcast", tensors[0])
        return self._do(
            "broadcast",
            tensors,
            lambda: self._gloo.broadcast([memory], opts),
            agreed=tensors[0],
            detail=f" from {self._rank_name(opts.rootRank)}",
        )

    def allgather(
        self, output_lists: list[Tensors], inputs: Tensors, opts: c10d.AllgatherOptions
    ) -> c10d.Work:
        """Gather the tensors of all ranks on all ranks."""
        memory = self._memory("all_gather", inputs[0])
        results = self._outputs("all_gather", output_lists)
        return self._do(
            "all_gather",
            output_lists[0],
            lambda: self._gloo.allgather(results, [memory], opts),
            agreed=inputs[0],
        )

    def _allgather_base(
        self, output: torch.Tensor, tensor: torch.Tensor, _opts: object = None
    ) -> c10d.Work:
        """Gather the tensors of all ranks in one tensor of any shape, on all ranks."""
        name = "all_gather_into_tensor"
        memory = self._memory(name, tensor).view(-1)
        size = memory.numel() * len(self._ranks)
        result = self._memory(name, output, num_elements=size).view(-1)
        return self._do(
            name,
            [output],
            lambda: self._gloo._allgather_base(result, memory),  # noqa: SLF001 - torch has no other name for it
            agreed=tensor,
        )

    all_gather_single = _allgather_base

    def gather(
        self, output_lists: list[Tensors], inputs: Tensors, opts: c10d.GatherOptions
    ) -> c10d.Work:
        """Gather the tensors of all ranks on one rank."""
        memory = self._memory("gather", inputs[0])
        results = self._outputs("gather", output_lists)
        return self._do(
            "gather",
            output_lists[0] if output_lists else [],
            lambda: self._gloo.gather(results, [memory], opts),
            agreed=inputs[0],
            detail=f" to {self._rank_name(opts.rootRank)}",
        )

    def scatter(
        self, outputs: Tensors, input_lists: list[Tensors], opts: c10d.ScatterOptions
    ) -> c10d.Work:
        """Send each rank one of the tensors of one rank."""
        result = self._memory("scatter", outputs[0])
        memories = self._outputs("scatter", input_lists)
        return self._do(
            "scatter",
            outputs,
            lambda: self._gloo.scatter([result], memories, opts),
            agreed=outputs[0],
            detail=f" from {self._rank_name(opts.rootRank)}",
        )

    def alltoall(
        self, outputs: Tensors, inputs: Tensors, opts: c10d.AllToAllOptions
    ) -> c10d.Work:
        """Send each rank one of the tensors of every rank."""
        sent = [self._memory("all_to_all", each).view(-1) for each in inputs]
        results = [self._memory("all_to_all", each).view(-1) for each in outputs]
        sent_sizes = [memory.numel() for memory in sent]
        sizes = [memory.numel() for memory in results]
        received = sent[0].new_empty(sum(sizes))
        everything = torch.cat(sent)
        work = self._do(
            "all_to_all",
            outputs,
            lambda: self._gloo.alltoall_base(
                received, everything, sizes, sent_sizes, opts
            ),
        )
        for result, part in zip(results, torch.split(received, sizes), strict=True):
            result.copy_(part)
        return work

    def alltoall_base(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        output_sizes: list[int],
        input_sizes: list[int],
        opts: c10d.AllToAllOptions,
    ) -> c10d.Work:
        """Send each rank a part of the tensor of every rank."""
        name = "all_to_all_single"
        memory, result = self._memory(name, tensor), self._memory(name, output)
        self._limits.check_splits(name, output_sizes)
        self._limits.check_splits(name, input_sizes)
        has_parts = bool(output_sizes or input_sizes)
        return self._do(
            name,
            [output],
            lambda: self._gloo.alltoall_base(
                result, memory, output_sizes, input_sizes, opts
            ),
            agreed=None if has_parts else tensor,
        )

    all_to_all_single = alltoall_base

    def allgather_into_tensor_coalesced(
        self, outputs: Tensors, tensors: Tensors, opts: object = None
    ) -> c10d.Work:
        """Gather several tensors of all ranks, each in one tensor, on all ranks."""
        self._limits.refuse_coalesced("all_gather_into_tensor", len(tensors))
        for output, tensor in zip(outputs, tensors, strict=True):
            self._allgather_base(output, tensor, opts)
        return done(outputs)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def allgather_coalesced(
        self, output_lists: list[Tensors], tensors: Tensors, opts: c10d.AllgatherOptions
    ) -> c10d.Work:
        """Gather several tensors of all ranks on all ranks."""
        self._limits.refuse_coalesced("all_gather", len(tensors))
        for outputs, tensor in zip(output_lists, tensors, strict=True):
            self.allgather([outputs], [tensor], opts)
        return done([tensor for outputs in output_lists for tensor in outputs])

    def _outputs(self, name: str, lists: list[Tensors]) -> list[Tensors]:
        # These are copied one by one, so they may be anywhere in memory.
        return [
            [self._memory(name, each, may_have_gaps=True) for each in tensors]
            for tensors in lists
        ]


_CUSTOM = c10d.ProcessGroup.BackendType.CUSTOM
_GLOO = c10d.ProcessGroup.BackendType.GLOO


class SimulatedGroup(Reducing, Moving, c10d.ProcessGroup):  # type: ignore[misc]  # torch's stubs have overloads that are never called
    """A group whose tensors are on simulated chips.

    Torch uses a subclass of ``ProcessGroup`` as it is. Since torch 2.0 backends are
    subclasses of ``Backend``, but torch 2.13 cannot make these in Python.
    """

    def __init__(self, exchange: Exchange, limits: Limits, rank: int) -> None:
        """Store the exchange and the limits; see ``GroupParts``."""
        size = len(exchange.rendezvous.ranks)
        c10d.ProcessGroup.__init__(self, rank, size)  # type: ignore[call-arg]
        super().__init__(exchange, limits, rank)
        self._has_cpu = False
        self._register(limits.backend.device_type, _CUSTOM)

    def _register(
        self, device: str, backend_type: c10d.ProcessGroup.BackendType
    ) -> None:
        """Register the group with torch for a type of devices."""
        backend = self._gloo
        self._register_backend(torch.device(device), backend_type, backend)

    def _serves_cpu(self) -> bool:
        """Whether the group was made with ``cpu:gloo`` too.

        If one backend of a group is a subclass of ``ProcessGroup``, torch drops the
        others. SOPHGO's is such a subclass; this counts as one of the vendor's defects.
        """
        config = _world.pg_backend_config.get(self, "")
        if "cpu:" not in config or self._limits.is_strict:
            return False
        if not self._has_cpu:
            self._has_cpu = True
            self._register("cpu", _GLOO)
        return True

    @property
    def _device_types(self) -> list[torch.device]:
        """The devices that the group is for."""
        self._serves_cpu()
        return c10d.ProcessGroup._device_types.fget(self)  # type: ignore[attr-defined, no-any-return]  # noqa: SLF001 - torch's name

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int) -> c10d.Work:
        """Send a tensor to a member."""
        memory = self._memory("send", tensors[0])
        return self._exchange.send(tensors[0], memory, peer, tag)

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int) -> c10d.Work:
        """Receive a tensor from a member."""
        memory = self._memory("recv", tensors[0])
        return self._exchange.receive(tensors[0], memory, peer, tag)

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int) -> c10d.Work:
        """Receive a tensor from any member."""
        memory = self._memory("recv_any_source", tensors[0])
        return self._exchange.receive(tensors[0], memory, None, tag)

    def barrier(  # type: ignore[override]
        self, opts: c10d.BarrierOptions | None = None
    ) -> c10d.Work:
        """Wait until all ranks have called this."""
        self._limits.refuse("barrier")
        for chip in opts.device_ids if opts is not None else ():
            self._limits.check_chip("barrier", checked(chip))
        return self._do("barrier", [], self._gloo.barrier)

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
        return self._limits.code.own_name

    def shutdown(self) -> None:
        """Leave the group."""
        self._exchange.leave()
