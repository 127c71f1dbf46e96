"""Group normalisation of tensors that are not in rows, as the CPU does it.

Torch's derivative keeps ``channels_last`` on the CPU, and puts the tensors of any other
device in rows before it comes to a kernel; sums then round differently. So there the
whole operator runs on the CPU, and elsewhere torch's own derivative does, which can be
differentiated again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import _C

from ranktable.simulate.device.cpu_graph import on_cpu_graph

NAME = "native_group_norm"
# Autograd's kernels are the same at each of its keys; that of the device is taken here.
_AUTOGRAD = _C.DispatchKeySet(_C.DispatchKey.AutogradOther)
_whole = on_cpu_graph(NAME)


def group_norm(
    keys: _C.DispatchKeySet,
    source: torch.Tensor,
    *rest: Any,  # noqa: ANN401 - passed on
) -> Any:  # noqa: ANN401 - three tensors
    """Return the normalised input, the means, and the reciprocals of the deviations.

    Args:
        keys: What torch has still to do, from autograd on.
        source: The input.
        rest: Weight, bias, sizes and the least deviation.
    """
    if source.is_contiguous():
        op = torch.ops.aten.native_group_norm.default
        below = keys & _C._after_autograd_keyset  # noqa: SLF001 - no public way
        return op.redispatch(below | _AUTOGRAD, source, *rest)
    return _whole(source, *rest)
