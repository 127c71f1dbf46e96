"""Operations that move tensors between all ranks as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ranktable.simulate.backend.parts import Parts
from ranktable.simulate.backend.work import Done

if TYPE_CHECKING:
    from torch._C import _distributed_c10d as c10d

    Tensors = list[torch.Tensor]


class Moving(Parts):
    """A group that can move tensors."""

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
        """Collect the tensors of all ranks, on all ranks."""
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
        """Collect the tensors of all ranks in one of any shape, on all ranks."""
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
        """Collect the tensors of all ranks, on one rank."""
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
        """Collect several tensors of all ranks, each in one, on all ranks."""
        self._limits.refuse_coalesced("all_gather_into_tensor", len(tensors))
        for output, tensor in zip(outputs, tensors, strict=True):
            self._allgather_base(output, tensor, opts)
        return Done(outputs)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def allgather_coalesced(
        self, output_lists: list[Tensors], tensors: Tensors, opts: c10d.AllgatherOptions
    ) -> c10d.Work:
        """Collect several tensors of all ranks, on all ranks."""
        self._limits.refuse_coalesced("all_gather", len(tensors))
        for outputs, tensor in zip(output_lists, tensors, strict=True):
            self.allgather([outputs], [tensor], opts)
        return Done([tensor for outputs in output_lists for tensor in outputs])

    def _outputs(self, name: str, lists: list[Tensors]) -> list[Tensors]:
        # These are copied one by one, so they may lie anywhere.
        return [
            [self._memory(name, each, may_have_gaps=True) for each in tensors]
            for tensors in lists
        ]
