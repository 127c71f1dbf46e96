"""Gloo: processes on CPUs, wherever torch runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.backends.importing import why_no_torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from ranktable.runtime.backends.backend import Placement


class Gloo:
    """The backend for CPU tensors, and the default without an accelerator."""

    name = "gloo"
    needs_chip_map = False
    binds_device = False

    def why_not(self) -> str | None:
        """Return why it cannot be used here, None if it can."""
        reason = why_no_torch()
        if reason is not None:
            return reason
        import torch.distributed as dist  # noqa: PLC0415 - torch is an extra

        if dist.is_available() and dist.is_gloo_available():
            return None
        return "this build of torch has no gloo"

    def select_device(self, _placement: Placement) -> torch.device:
        """Return the CPU."""
        import torch  # noqa: PLC0415 - torch is an extra

        return torch.device("cpu")

    def group_options(self, _chip_map: Sequence[int] | None) -> object | None:
        """Return None: a group on CPUs needs no chips."""
        return None
