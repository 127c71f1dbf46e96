"""The limits of a simulated group: what SCCL refuses, or ignores.

Methods and messages are those of SOPHGO's ``ProcessGroupSCCL.cpp``, see the declaration
of the backend in ``ranktable.runtime.backends``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from ranktable.runtime.backends.backend import SCCL
from ranktable.simulate.simulation_error import repaired, reported

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch._C._distributed_c10d import ReduceOp

_METHODS: Final = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "all_gather_into_tensor": "_allgather_base",
    "all_to_all_single": "alltoall_base",
}
"""Names of operations in ``torch.distributed``, and in C++ if they differ."""

_NO: Final = "Backend SCCL does not support"
_LACKS: Final = {
    "all_gather_coalesced": f"{_NO} allgather_coalesced",
    "all_gather_into_tensor_coalesced": f"{_NO} allgather_into_tensor_coalesced",
    "all_reduce_coalesced": f"{_NO} allreduce_coalesced",
    "all_to_all": f"{_NO} alltoall",
    "coalescing": "Backend SCCL does not implement startCoalescing",
    "recv_any_source": f"{_NO} recvAnysource",
    "reduce_scatter": "ProcessGroupSCCL does not support reduce_scatter",
    "reduce_scatter_tensor": f"{_NO} _reduce_scatter_base",
    "reduce_scatter_tensor_coalesced": f"{_NO} reduce_scatter_tensor_coalesced",
}
"""What SCCL does not have, with the vendor's messages, or torch's."""

_BAD_DTYPE: Final = "Invalid scalar type"
_REDUCTIONS: Final = ("SUM", "PRODUCT", "MIN", "MAX")


def lacks(operation: str) -> RuntimeError:
    """Return the error for an operation that SCCL does not have."""
    return RuntimeError(_LACKS[operation])


def method_of(operation: str) -> str:
    """Return the name of an operation in ProcessGroupSCCL, for its messages."""
    return f"ProcessGroupSCCL::{_METHODS.get(operation, operation)}"


def name_of(reduction: ReduceOp) -> str:
    """Return the name of a reduction: ``SUM``."""
    name: str = reduction.op.name  # type: ignore[attr-defined]
    return name


class Limits:
    """The limits of one group."""

    def __init__(
        self,
        folder: Path,
        *,
        rank: int,
        chip: int,
        selected_chip: Callable[[], int | None],
    ) -> None:
        """Set the limits for tensors.

        Args:
            folder: The folder of the run.
            rank: Global rank of this process.
            chip: The chip of this process in the group.
            selected_chip: Returns the chip that the script has selected.
        """
        self._folder = folder
        self._rank = rank
        self._chip = chip
        self._selected_chip = selected_chip

    def refuse_coalesced(self, operation: str, count: int) -> None:
        """Raise if an operation is for several tensors at once.

        Torch's functional collectives, and so DTensor, use this with one tensor. The
        vendor refuses this too, although it could be supported.

        Args:
            operation: The operation for one tensor.
            count: Number of tensors.

        Raises:
            RuntimeError: There are several; the message is the vendor's.
        """
        error = lacks(f"{operation}_coalesced")
        if count > 1:
            raise error
        what = f"{operation} by way of {operation}_coalesced, as of DTensor"
        repaired(self._folder, what, f"RuntimeError: {error}")

    def check(
        self, operation: str, tensor: torch.Tensor, reduction: ReduceOp | None = None
    ) -> None:
        """Raise if the backend does not have an operation for a tensor.

        Args:
            operation: Its name in ``torch.distributed``.
            tensor: One of its tensors.
            reduction: The reduction, if it reduces.

        Raises:
            RuntimeError: The backend lacks it; the message is the vendor's.
            SimulationError: The tensor is on another chip than this rank has in the
                group, or has a memory layout that the vendor would ignore.
        """
        device = tensor.device
        if device.type != SCCL.device_type:
            what = f"{method_of(operation)}: unsupported device type {device.type}"
            raise RuntimeError(what)
        if tensor.layout is not torch.strided:
            raise RuntimeError("ProcessGroupSCCL: unsupported layout")
        if str(tensor.dtype).removeprefix("torch.") not in SCCL.moves:
            raise RuntimeError(_BAD_DTYPE)
        if reduction is not None and name_of(reduction) not in _REDUCTIONS:
            raise RuntimeError(f"Cannot use ReduceOp.{name_of(reduction)} with SCCL")
        selected = self._selected_chip()
        why = " because it has never called set_device" if selected is None else ""
        self.check_chip(operation, device.index, f"a tensor on chip {{}}{why}")

    def check_chip(self, operation: str, chip: int, given: str = "chip {}") -> None:
        """Raise if a rank gives an operation another chip than its own in the group.

        Raises:
            SimulationError: It is another chip.
        """
        if self._chip != chip:
            raise self._error(
                f"gives {operation} {given.format(chip)}, but the chip map of the "
                f"group gives it chip {self._chip}"
            )

    def check_contiguous(self, operation: str, tensor: torch.Tensor) -> None:
        """Raise if a tensor is not contiguous.

        Raises:
            SimulationError: It is not contiguous.
        """
        if not tensor.is_contiguous():
            raise self._error(
                f"gives {operation} a tensor that is not contiguous; "
                f"SCCL reads its memory as if it were contiguous, so it "
                "would take wrong values; pass tensor.contiguous()"
            )

    def check_output(
        self, operation: str, tensor: torch.Tensor, size: int, dtype: torch.dtype
    ) -> None:
        """Raise if an output has another size or type than what is written to it.

        Raises:
            SimulationError: It has another size or type.
        """
        if tensor.numel() != size:
            raise self._error(
                f"gives {operation} an output of {tensor.numel()} elements, but "
                f"SCCL writes {size}, past its end if it is too small"
            )
        if tensor.dtype != dtype:
            raise self._error(
                f"gives {operation} an output of {tensor.dtype}, but "
                f"SCCL writes {dtype}"
            )

    def check_splits(self, operation: str, sizes: list[int]) -> None:
        """Raise if parts have different sizes but the vendor makes them equal.

        Raises:
            SimulationError: They have different sizes.
        """
        if len(set(sizes)) > 1:
            raise self._error(
                f"gives {operation} parts of {sizes} elements; "
                f"SCCL ignores this and makes all parts equal"
            )

    def _error(self, does: str) -> RuntimeError:
        rank = self._rank
        return reported(self._folder, f"rank {rank} {does}", (rank,))
