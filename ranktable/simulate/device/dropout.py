"""Dropout as on the CPU.

On other devices torch's recipe takes ``native_dropout``, which rounds differently.
"""

from __future__ import annotations

import torch


def dropout(source: torch.Tensor, p: float, train: bool) -> torch.Tensor:  # noqa: FBT001 - torch's signature
    """Return the input with a share ``p`` of its elements zeroed, the rest scaled."""
    if not 0 <= p <= 1:
        raise RuntimeError(
            f"dropout probability has to be between 0 and 1, but got {p:g}"
        )
    if p == 0 or not train or not source.numel():
        return source
    if p == 1:
        return source * torch.zeros((), dtype=source.dtype, device=source.device)
    noise = torch.empty_like(source).bernoulli_(1 - p).div_(1 - p)
    return source * noise
