"""NCCL: CUDA devices, whose number in the table is their CUDA ordinal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.backends.importing import why_no_torch
from ranktable.runtime.errors import BootstrapError
from ranktable.schema.messages import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from ranktable.runtime.backends.backend import Placement


class Nccl:
    """The backend for CUDA tensors."""

    name = "nccl"
    needs_chip_map = False
    binds_device = True

    def why_not(self) -> str | None:
        """Return why it cannot be used here, None if it can."""
        reason = why_no_torch()
        if reason is not None:
            return reason
        import torch  # noqa: PLC0415 - torch is an extra
        import torch.distributed as dist  # noqa: PLC0415

        if not (dist.is_available() and dist.is_nccl_available()):
            return "this build of torch has no nccl"
        if not torch.cuda.is_available():
            return "there is no CUDA device here"
        return None

    def select_device(self, placement: Placement) -> torch.device:
        """Make the process's CUDA device current and return it.

        Raises:
            BootstrapError: There is no device of that number.
        """
        import torch  # noqa: PLC0415 - torch is an extra

        assert placement.device_id is not None  # noqa: S101 - place has refused it
        count = torch.cuda.device_count()
        if placement.device_id >= count:
            raise BootstrapError(
                "RT403",
                f"rank {placement.rank} has device {placement.device_id}, but this "
                f"process sees {counted(count, 'CUDA device')}; correct "
                "device_id in the rank table, or CUDA_VISIBLE_DEVICES",
                (placement.rank,),
            )
        device = torch.device("cuda", placement.device_id)
        torch.cuda.set_device(device)
        return device

    def group_options(self, _chip_map: Sequence[int] | None) -> object | None:
        """Return None: NCCL finds the devices of its members itself."""
        return None
