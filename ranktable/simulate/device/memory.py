"""Operators that change which memory a device tensor has.

A tensor imported by DLPack cannot grow: its storage has no allocator. So a tensor that
has to grow gets another storage; views of it keep the old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ranktable.simulate.device.plan import CPU_KEYS
from ranktable.simulate.device.retag import on_cpu, on_device

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_aten = torch.ops.aten


def adopt(tensor: torch.Tensor, filled: torch.Tensor) -> torch.Tensor:
    """Give a device tensor the memory, sizes and strides of a CPU tensor."""
    source = on_device(filled, tensor.get_device())
    return set_storage(
        tensor, source.untyped_storage(), 0, source.size(), source.stride()
    )


def set_storage(
    tensor: torch.Tensor,
    source: torch.UntypedStorage,
    offset: int,
    size: Sequence[int],
    stride: Sequence[int] = (),
) -> torch.Tensor:
    """Let a device tensor see a device storage; the CPU's kernel only notes it."""
    _aten.set_.source_Storage_storage_offset.redispatch(
        CPU_KEYS, tensor, source, offset, size, stride
    )
    return tensor


def set_like(tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Let a device tensor see what another one sees."""
    return set_storage(
        tensor,
        source.untyped_storage(),
        int(source.storage_offset()),
        source.size(),
        source.stride(),
    )


def set_whole_storage(
    tensor: torch.Tensor, source: torch.UntypedStorage
) -> torch.Tensor:
    """Let a device tensor see a device storage from end to end."""
    return set_storage(tensor, source, 0, [source.nbytes() // tensor.element_size()])


def set_nothing(tensor: torch.Tensor) -> torch.Tensor:
    """Leave a device tensor without memory."""
    return adopt(tensor, _aten.empty.memory_format([0], dtype=tensor.dtype))


def resize(
    tensor: torch.Tensor,
    size: Sequence[int],
    *,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    """Resize a device tensor in place; its first elements stay, in memory order."""
    if tensor.size() == torch.Size(size) and memory_format is None:
        return tensor
    wanted = _aten.empty.memory_format(
        size,
        dtype=tensor.dtype,
        device=torch.device("meta"),
        memory_format=memory_format,
    )
    bytes_needed = (tensor.storage_offset() + wanted.numel()) * wanted.element_size()
    storage = tensor.untyped_storage()
    if bytes_needed > storage.nbytes():
        storage = _grown(tensor, bytes_needed).untyped_storage()
    return set_storage(
        tensor, storage, int(tensor.storage_offset()), size, wanted.stride()
    )


def _grown(tensor: torch.Tensor, size_bytes: int) -> torch.Tensor:
    """Return bytes on the device that begin with those of the tensor's storage."""
    old = on_cpu(bytes_of(tensor))
    new = _aten.empty.memory_format([size_bytes], dtype=torch.uint8, device=_CPU)
    new[: old.numel()].copy_(old)
    return on_device(new, tensor.get_device())


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the whole storage of a device tensor as bytes."""
    nothing = _aten.empty.memory_format([0], dtype=torch.uint8, device=_CPU)
    whole = on_device(nothing, tensor.get_device())
    return set_whole_storage(whole, tensor.untyped_storage())


def zeros_in_place_of_nothing(size: Sequence[int], **options: object) -> torch.Tensor:
    """Return zeros where torch would note only that all elements are zero."""
    result: torch.Tensor = _aten.zeros.default(size, **options)
    return result


_CPU = torch.device("cpu")
KERNELS: dict[str, Callable[..., torch.Tensor]] = {
    "_efficientzerotensor": zeros_in_place_of_nothing,
    "resize_": resize,
    "set_": set_nothing,
    "set_.source_Storage": set_whole_storage,
    "set_.source_Storage_storage_offset": set_storage,
    "set_.source_Tensor": set_like,
}
