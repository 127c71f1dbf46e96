"""``torch.tpu.amp``: torch's own, for this device."""

from __future__ import annotations

from functools import partial

import torch

autocast = partial(torch.autocast, "tpu")
GradScaler = partial(torch.amp.GradScaler, "tpu")
