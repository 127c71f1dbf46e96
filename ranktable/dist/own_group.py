"""A gloo group that torch has not registered, with what torch's functions do in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._C._distributed_c10d import BroadcastOptions, GatherOptions, ScatterOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch.distributed as dist

    Tensors = list[torch.Tensor]


class OwnGroup:
    """A gloo group that torch's functions do not take, because it is not registered."""

    def __init__(self, group: Any, ranks: Sequence[int]) -> None:
        """Describe a group.

        Args:
            group: The group.
            ranks: Global rank of each member.
        """
        self._group = group
        self._ranks = ranks
        self._functions = {
            "all_gather": self._all_gather,
            "all_to_all_single": self._all_to_all_single,
            "broadcast": self._broadcast,
            "gather": self._gather,
            "irecv": self._irecv,
            "isend": self._isend,
            "scatter": self._scatter,
        }

    def start(self, name: str, *given: Any) -> dist.Work:
        """Start one of torch's functions.

        Args:
            name: Its name.
            given: Its arguments without ``group``; roots and peers are global ranks.
        """
        function: Any = self._functions[name]
        work: dist.Work = function(*map(_as_real, given))
        return work

    def _all_gather(self, outputs: Tensors, data: torch.Tensor) -> object:
        return self._group.allgather([outputs], [data])

    def _all_to_all_single(
        self,
        output: torch.Tensor,
        data: torch.Tensor,
        received: Sequence[int] = (),
        sent: Sequence[int] = (),
    ) -> object:
        return self._group.alltoall_base(output, data, list(received), list(sent))

    def _broadcast(self, data: torch.Tensor, root: int) -> object:
        options = BroadcastOptions()
        options.rootRank = self._ranks.index(root)
        return self._group.broadcast([data], options)

    def _gather(self, data: torch.Tensor, outputs: Tensors | None, root: int) -> object:
        options = GatherOptions()
        options.rootRank = self._ranks.index(root)
        return self._group.gather([outputs] if outputs else [], [data], options)

    def _irecv(self, data: torch.Tensor, peer: int, tag: int) -> object:
        return self._group.recv([data], self._ranks.index(peer), tag)

    def _isend(self, data: torch.Tensor, peer: int, tag: int) -> object:
        return self._group.send([data], self._ranks.index(peer), tag)

    def _scatter(
        self, output: torch.Tensor, parts: Tensors | None, root: int
    ) -> object:
        options = ScatterOptions()
        options.rootRank = self._ranks.index(root)
        return self._group.scatter([output], [parts] if parts else [], options)


def _as_real(given: Any) -> Any:
    """Return complex numbers as pairs of real ones, as torch's functions send them."""
    if isinstance(given, list):
        return [_as_real(each) for each in given]
    is_complex = isinstance(given, torch.Tensor) and given.is_complex()
    return torch.view_as_real(given) if is_complex else given
