"""The process group of a simulated backend.

Its methods have the names that torch's own classes give them, old and new ones: torch
2.13 has renamed some, calls the new name where there is one, and else the old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch._C import _distributed_c10d as c10d
from torch.distributed.distributed_c10d import _world

from ranktable.simulate.backend.moving import Moving
from ranktable.simulate.backend.reducing import Reducing
from ranktable.simulate.backend.work import Done
from ranktable.simulate.device import chips

if TYPE_CHECKING:
    from ranktable.simulate.backend.exchange import Exchange
    from ranktable.simulate.backend.limits import Limits

_CUSTOM = c10d.ProcessGroup.BackendType.CUSTOM
_GLOO = c10d.ProcessGroup.BackendType.GLOO


class SimulatedGroup(Reducing, Moving, c10d.ProcessGroup):  # type: ignore[misc]  # torch's stubs have overloads that are never called
    """A group whose tensors are on simulated chips.

    Torch takes a subclass of ``ProcessGroup`` as it is. A subclass of ``Backend``,
    which is what backends are since torch 2.0, cannot be made in Python by torch 2.13.
    """

    def __init__(self, exchange: Exchange, limits: Limits, rank: int) -> None:
        """Make a group of what it consists of, see ``Parts``."""
        size = len(exchange.meeting.ranks)
        c10d.ProcessGroup.__init__(self, rank, size)  # type: ignore[call-arg]
        super().__init__(exchange, limits, rank)
        self._has_cpu = False
        self._register(limits.profile.device, _CUSTOM)

    def _register(
        self, device: str, backend_type: c10d.ProcessGroup.BackendType
    ) -> None:
        """Tell torch that the group is for a type of devices."""
        backend = self._gloo
        self._register_backend(torch.device(device), backend_type, backend)  # type: ignore[arg-type]

    def _serves_cpu(self) -> bool:
        """Whether the group was made with ``cpu:gloo`` too.

        Torch drops the other backends of a group as soon as one of them is a subclass
        of ``ProcessGroup``. So is SOPHGO's, which is among the vendor's defects.
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
        """Wait until all ranks have come."""
        self._limits.refuse("barrier")
        for chip in opts.device_ids if opts is not None else ():
            if chip not in chips():
                raise RuntimeError(
                    f"barrier on chip {chip}, which does not exist; there are "
                    f"{', '.join(map(str, chips()))}"
                )
        return self._do("barrier", [], self._gloo.barrier)

    def _start_coalescing(self, device: torch.device) -> None:
        """Begin to collect operations; they are done at once all the same."""
        del device
        self._limits.refuse("coalescing")

    def _end_coalescing(self, device: torch.device) -> c10d.Work:
        """Return the work of what was collected: it is done."""
        del device
        return Done([])

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """Return what the backend calls itself."""
        return self._limits.profile.own_name

    def shutdown(self) -> None:
        """Leave the group."""
        self._exchange.leave()
