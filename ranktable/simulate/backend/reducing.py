"""Operations that reduce."""

from __future__ import annotations

import torch
from torch._C import _distributed_c10d as c10d

from ranktable.simulate.backend.parts import Parts
from ranktable.simulate.backend.reductions import name_of, of_memory
from ranktable.simulate.backend.work import Done


class Reducing(Parts):
    """A group that can reduce."""

    def allreduce(
        self, tensors: list[torch.Tensor], opts: c10d.AllreduceOptions
    ) -> c10d.Work:
        """Reduce a tensor, to all ranks."""
        tensor, options = tensors[0], c10d.AllreduceOptions()
        memory = self._memory("all_reduce", tensor, opts.reduceOp)
        options.reduceOp = of_memory(opts.reduceOp, tensor)
        return self._do(
            "all_reduce",
            tensors,
            lambda: self._gloo.allreduce([memory], options),
            agreed=tensor,
            detail=f" ({name_of(opts.reduceOp)})",
        )

    def reduce(
        self, tensors: list[torch.Tensor], opts: c10d.ReduceOptions
    ) -> c10d.Work:
        """Reduce a tensor, to one rank."""
        tensor, root, options = tensors[0], opts.rootRank, c10d.ReduceOptions()
        memory = self._memory("reduce", tensor, opts.reduceOp)
        options.reduceOp = of_memory(opts.reduceOp, tensor)
        options.rootRank = root
        if self._member != root:
            memory = memory.clone()  # gloo may write to it; the vendors do not
        return self._do(
            "reduce",
            tensors,
            lambda: self._gloo.reduce([memory], options),
            agreed=tensor,
            detail=f" ({name_of(opts.reduceOp)}) to {self._rank_name(root)}",
        )

    def reduce_scatter(
        self,
        outputs: list[torch.Tensor],
        input_lists: list[list[torch.Tensor]],
        opts: c10d.ReduceScatterOptions,
    ) -> c10d.Work:
        """Reduce a tensor for each rank, to that rank."""
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
        """Reduce a tensor that has a part for each rank, to these ranks."""
        name = "reduce_scatter_tensor"
        # Gloo writes to what it is given; the vendors do not.
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
        options = c10d.ReduceScatterOptions()
        options.reduceOp = of_memory(reduction, output)
        return self._do(
            name,
            [output],
            lambda: self._gloo._reduce_scatter_base(result, memory, options),  # noqa: SLF001 - torch has no other name for it
            agreed=output,
            detail=f" ({name_of(reduction)})",
        )

    def allreduce_coalesced(
        self, tensors: list[torch.Tensor], opts: c10d.AllreduceCoalescedOptions
    ) -> c10d.Work:
        """Reduce several tensors, to all ranks."""
        self._limits.refuse_coalesced("all_reduce", len(tensors))
        for tensor in tensors:
            self.allreduce([tensor], opts)
        return Done(tensors)

    def reduce_scatter_tensor_coalesced(
        self,
        outputs: list[torch.Tensor],
        tensors: list[torch.Tensor],
        opts: c10d.ReduceScatterOptions,
    ) -> c10d.Work:
        """Reduce several tensors that have a part for each rank, to these ranks."""
        self._limits.refuse_coalesced("reduce_scatter_tensor", len(tensors))
        for output, tensor in zip(outputs, tensors, strict=True):
            self._reduce_scatter_base(output, tensor, opts)
        return Done(outputs)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
