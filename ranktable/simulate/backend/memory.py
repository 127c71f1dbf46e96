"""Tensors as gloo takes them: on the CPU, the same bytes."""

from __future__ import annotations

import torch

from ranktable.simulate.device import on_cpu


def alias(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's memory as a CPU tensor of a type that gloo has."""
    seen = tensor.detach() if tensor.is_cpu else on_cpu(tensor)
    return seen.view(torch.uint8) if seen.dtype is torch.bool else seen


def aliases(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the memory of several tensors."""
    return [alias(tensor) for tensor in tensors]
