"""How an operation reduces, as gloo takes it and as people say it."""

from __future__ import annotations

import torch
from torch._C._distributed_c10d import ReduceOp


def name_of(reduction: ReduceOp) -> str:
    """Return the name of a reduction: ``SUM``."""
    name: str = reduction.op.name  # type: ignore[attr-defined]
    return name


def of_memory(reduction: ReduceOp, tensor: torch.Tensor) -> ReduceOp:
    """Return the reduction of a tensor's bytes; booleans add up to 1."""
    is_sum = tensor.dtype is torch.bool and name_of(reduction) == "SUM"
    return ReduceOp(ReduceOp.MAX) if is_sum else reduction
