"""Copies between the CPU and the device, and between chips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ranktable.simulate.device.fallback import run
from ranktable.simulate.device.overlap import aliases_of_shared
from ranktable.simulate.device.retag import on_cpu

if TYPE_CHECKING:
    from collections.abc import Callable


def copy_from(
    source: torch.Tensor,
    target: torch.Tensor,
    non_blocking: bool = False,  # noqa: ARG001, FBT001, FBT002 - torch's signature
) -> torch.Tensor:
    """Copy where at least one of the two is on the device."""
    if source.is_cpu or target.is_cpu:
        _host(target).copy_(_host(source))
    else:
        _copy_between_chips(source, target)
    return target


def copy_from_and_resize(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Copy after giving the target the source's size."""
    return copy_from(source, target.resize_(source.size()))


def to_copy(
    source: torch.Tensor,
    *,
    non_blocking: bool = False,  # noqa: ARG001 - torch's signature
    **options: Any,  # noqa: ANN401 - dtype, device, layout, memory_format: passed on
) -> torch.Tensor:
    """Return a copy with another type, layout or device."""
    result: torch.Tensor = run(torch.ops.aten._to_copy.default, source, **options)  # noqa: SLF001 - an operator
    return result


def ignore_stream(tensor: torch.Tensor, stream: object) -> None:
    """Note nothing: memory is not reused before it is free."""


def item(tensor: torch.Tensor) -> bool | complex:
    """Return the only element as a number."""
    return on_cpu(tensor).item()


def _copy_between_chips(source: torch.Tensor, target: torch.Tensor) -> None:
    shared = [alias for _, alias in aliases_of_shared((target, source))]
    host_target, host_source = shared or (on_cpu(target), on_cpu(source))
    host_target.copy_(host_source)


def _host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_cpu else on_cpu(tensor)


KERNELS: dict[str, Callable[..., object]] = {
    "_copy_from": copy_from,
    "_copy_from_and_resize": copy_from_and_resize,
    "_local_scalar_dense": item,
    "_to_copy": to_copy,
    "record_stream": ignore_stream,
}
