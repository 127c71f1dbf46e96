"""``torch.tpu.amp``: torch's own, for this device."""

from __future__ import annotations

import sys
from functools import partial

import torch
from torch.amp.grad_scaler import OptState

__all__ = ["GradScaler", "OptState", "autocast", "custom_bwd", "custom_fwd"]

custom_fwd = partial(torch.amp.custom_fwd, device_type="tpu")
custom_bwd = partial(torch.amp.custom_bwd, device_type="tpu")


class autocast(torch.autocast):  # noqa: N801 - the vendor's name
    """``torch.autocast("tpu")``, with the vendor's order of parameters."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: torch.dtype = torch.float16,
        cache_enabled: bool = True,
    ) -> None:
        """Cast to a type, if it is enabled."""
        super().__init__(
            "tpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled
        )


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler("tpu")``, with the vendor's order of parameters."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        """Scale losses, if it is enabled."""
        super().__init__(
            "tpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


# The vendor has these names in several files, from which scripts import them too.
for _part in ("autocast_mode", "grad_scaler"):
    globals()[_part] = sys.modules[f"{__name__}.{_part}"] = sys.modules[__name__]
