"""``torch.tpu.amp``: torch's own, for this device."""

from __future__ import annotations

from functools import partial

import torch

GradScaler = partial(torch.amp.GradScaler, "tpu")
custom_fwd = partial(torch.amp.custom_fwd, device_type="tpu")
custom_bwd = partial(torch.amp.custom_bwd, device_type="tpu")


class autocast(torch.autocast):  # noqa: N801 - the vendor's name
    """``torch.autocast("tpu")``, with the vendor's order of parameters."""

    def __init__(
        self,
        enabled: bool = True,  # noqa: FBT001, FBT002 - the vendor's interface
        dtype: torch.dtype = torch.float16,
        cache_enabled: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        """Cast to a type, if it is enabled."""
        super().__init__(
            "tpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled
        )
