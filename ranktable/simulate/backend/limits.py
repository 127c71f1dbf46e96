"""What a vendor's backend refuses, before anything is communicated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ranktable.simulate.backend.profile import AT_NAMES
from ranktable.simulate.backend.reductions import name_of
from ranktable.simulate.errors import repaired, reported

if TYPE_CHECKING:
    from torch._C._distributed_c10d import ReduceOp

    from ranktable.simulate.backend.world import World


class Limits:
    """The limits of one group.

    Attributes:
        profile: The backend.
        is_strict: Whether the vendor's defects are limits too.
    """

    def __init__(self, world: World, chip: int | None) -> None:
        """Take what tensors are held against.

        Args:
            world: This process, and the backend.
            chip: The chip that the group has for it, None if any will do.
        """
        self.profile = world.profile
        self.is_strict = world.run.is_strict
        self._world = world
        self._chip = chip

    def refuse(self, operation: str) -> None:
        """Raise if the backend does not have an operation at all.

        Raises:
            RuntimeError: It has not, in the vendor's words.
        """
        refusal = self.profile.operations[operation].refusal
        if refusal is not None:
            raise RuntimeError(refusal)

    def refuse_coalesced(self, operation: str, count: int) -> None:
        """Raise if the backend does not have an operation for several tensors at once.

        Torch's functional collectives, and so DTensor, come this way with one tensor.
        The vendor refuses that too; there is no reason but that nobody wrote it.

        Args:
            operation: The operation for one tensor.
            count: Number of tensors.

        Raises:
            RuntimeError: It has not, in the vendor's words.
        """
        coalesced = f"{operation}_coalesced"
        if count > 1 or self.is_strict:
            self.refuse(coalesced)
        refusal = self.profile.operations[coalesced].refusal
        self.refuse(operation)
        if refusal is not None:
            what = f"{operation} by way of {coalesced}, as of DTensor"
            repaired(self._world.folder, what, f"RuntimeError: {refusal}")

    def check(
        self, operation: str, tensor: torch.Tensor, reduction: ReduceOp | None = None
    ) -> None:
        """Raise if the backend does not have an operation for a tensor.

        Args:
            operation: What ``torch.distributed`` calls it.
            tensor: One of its tensors.
            reduction: How it reduces, if it does.

        Raises:
            RuntimeError: It has not, in the vendor's words.
            SimulationError: The tensor is on another chip than the group has for this
                rank, or lies in memory in a way that the vendor would ignore.
        """
        self.refuse(operation)
        profile, device = self.profile, tensor.device
        if device.type != profile.device:
            raise RuntimeError(profile.unsupported_device(operation, device.type))
        if tensor.layout is not torch.strided:
            raise RuntimeError(f"ProcessGroup{profile.title}: unsupported layout")
        if reduction is not None and name_of(reduction) not in profile.reductions:
            name = name_of(reduction)
            raise RuntimeError(profile.bad_reduction.format(reduction=name))
        dtype = str(tensor.dtype).removeprefix("torch.")
        known = profile.operations[operation]
        if dtype not in known.dtypes:
            raise RuntimeError(known.bad_dtype.format(at_name=AT_NAMES.get(dtype)))
        if device.index != self._chip and self._chip is not None:
            selected = self._world.selected_chip()
            why = " because it has never called set_device" if selected is None else ""
            raise self._error(
                f"gives {operation} a tensor on chip {device.index}{why}, but the chip "
                f"map of the group gives it chip {self._chip}"
            )

    def repair_cpu(self) -> None:
        """Warn of tensors on the CPU in a group for both."""
        repaired(
            self._world.folder,
            f"a tensor on the CPU in a group with cpu:gloo and {self.profile.backend}",
            "RuntimeError: No backend type associated with device type cpu",
        )

    def check_contiguous(self, operation: str, tensor: torch.Tensor) -> None:
        """Raise if a tensor has gaps, or another order in memory than its elements.

        Raises:
            SimulationError: It has.
        """
        if not tensor.is_contiguous():
            raise self._error(
                f"gives {operation} a tensor that is not contiguous; "
                f"{self.profile.title} takes its memory as if it were, so the values "
                "would be others; pass tensor.contiguous()"
            )

    def check_size(self, operation: str, tensor: torch.Tensor, size: int) -> None:
        """Raise if an output has another number of elements than is written to it.

        Raises:
            SimulationError: It has.
        """
        if tensor.numel() != size:
            raise self._error(
                f"gives {operation} an output of {tensor.numel()} elements, but "
                f"{self.profile.title} writes {size}, wherever they end"
            )

    def check_splits(self, operation: str, sizes: list[int]) -> None:
        """Raise if parts are of different sizes where the vendor makes them equal.

        Raises:
            SimulationError: They are.
        """
        if not self.profile.has_splits and len(set(sizes)) > 1:
            raise self._error(
                f"gives {operation} parts of {sizes} elements; "
                f"{self.profile.title} ignores this and makes all parts equal"
            )

    def _error(self, does: str) -> RuntimeError:
        rank = self._world.rank
        return reported(self._world.folder, f"rank {rank} {does}", (rank,))
