"""Convolutions that come by way of ``aten::_convolution``, as traced scripts have it.

Torch asks a device of its kind for two operators then, which take what
``aten::convolution`` and its backward take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ranktable.simulate.device.fallback import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def convolution(*args: Any) -> torch.Tensor:  # noqa: ANN401 - passed on as they are
    """Return what the CPU's convolution returns."""
    result: torch.Tensor = run(torch.ops.aten.convolution.default, *args)
    return result


def convolution_backward(
    grad: torch.Tensor,
    source: torch.Tensor,
    weight: torch.Tensor,
    *geometry: Any,  # noqa: ANN401 - stride, padding, dilation, ...: passed on
) -> Sequence[torch.Tensor | None]:
    """Return the gradients of input, weight and bias that the mask asks for."""
    *sizes, output_mask = geometry
    result: Sequence[torch.Tensor | None] = run(
        torch.ops.aten.convolution_backward.default,
        grad,
        source,
        weight,
        [weight.size(0)],  # of the bias; only its presence in the mask matters
        *sizes,
        output_mask,
    )
    return result


KERNELS: dict[str, Callable[..., object]] = {
    "convolution_overrideable": convolution,
    "convolution_backward_overrideable": convolution_backward,
}
