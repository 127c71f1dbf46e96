"""What the operations of a group are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.simulate.backend.memory import alias
from ranktable.simulate.backend.work import Done
from ranktable.simulate.errors import rank_list

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch._C import _distributed_c10d as c10d

    from ranktable.simulate.backend.exchange import Exchange
    from ranktable.simulate.backend.limits import Limits


class Parts:
    """A group that has no operations yet."""

    def __init__(self, exchange: Exchange, limits: Limits, rank: int) -> None:
        """Make a group of what it consists of.

        Args:
            exchange: How its ranks communicate.
            limits: What it refuses.
            rank: Rank of this process in it.
        """
        self._exchange = exchange
        self._gloo = exchange.gloo
        self._limits = limits
        self._member = rank
        self._ranks = exchange.meeting.ranks

    def _memory(
        self,
        name: str,
        tensor: torch.Tensor,
        reduction: c10d.ReduceOp | None = None,
        *,
        num_elements: int | None = None,
        may_have_gaps: bool = False,
    ) -> torch.Tensor:
        """Return the memory of a tensor that an operation takes.

        Args:
            name: What ``torch.distributed`` calls the operation.
            tensor: The tensor.
            reduction: How the operation reduces, if it does.
            num_elements: Elements that it is to have.
            may_have_gaps: Whether its elements need not lie one after the other.

        Raises:
            RuntimeError: The backend does not take it.
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
        outputs: Sequence[torch.Tensor],
        start: Callable[[], c10d.Work],
        *,
        agreed: torch.Tensor | None = None,
        detail: str = "",
    ) -> c10d.Work:
        """Do something that every rank of the group does, and return what it gives.

        Args:
            name: What ``torch.distributed`` calls it.
            outputs: What it writes to.
            start: Tells gloo.
            agreed: A tensor whose size is the same on every rank.
            detail: What else is the same: the reduction, the root.
        """
        given = [agreed] if agreed is not None else outputs
        part_bytes = sum(tensor.nbytes for tensor in given)
        self._exchange.collective(name, agreed, detail, start, part_bytes)
        return Done(outputs)

    def _serves_cpu(self) -> bool:
        """Whether the group is for tensors on the CPU too."""
        return False

    def _rank_name(self, member: int) -> str:
        return rank_list([self._ranks[member]])
