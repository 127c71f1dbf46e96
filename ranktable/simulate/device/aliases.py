"""Share memory between the CPU and the device, and manage that of device tensors.

A DLPack capsule says on which device its memory is. Torch imports a capsule of an
"extension device" as a tensor of PrivateUse1. So changing this one field between export
and import gives an alias on the other device, with the same memory.

A tensor that DLPack has imported cannot grow, because its storage has no allocator. So
a tensor that has to grow gets another storage; views of it keep the old one. Torch
refuses to write to memory that the same call also reads. For this it compares storages,
so tensors that share a storage get aliases that share one too.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import torch
from torch import _C, _neg_view
from torch._C import _from_dlpack, _to_dlpack

from ranktable.simulate.device.inventory import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


CPU_KEYS = _C.DispatchKeySet(_C.DispatchKey.CPU)

# dlpack.h: a DLManagedTensor begins with {void* data; DLDevice {int32 type, id}}.
_DEVICE_OFFSET = 8
_CPU, _EXTENSION, _ID_SHIFT = 1, 12, 32

# A prototype of its own: attributes of ctypes.pythonapi are shared by all libraries.
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_size_t, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def on_device(tensor: torch.Tensor, index: int) -> torch.Tensor:
    """Return an alias of a CPU tensor on a chip, without autograd history.

    Raises:
        RuntimeError: The chip does not exist.
    """
    return _retagged(tensor, _EXTENSION | checked(index) << _ID_SHIFT)


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Return an alias of a device tensor on the CPU, without autograd history."""
    return _retagged(tensor, _CPU)


def _retagged(tensor: torch.Tensor, device: int) -> torch.Tensor:
    capsule = _to_dlpack(tensor)
    address = _pointer_of(capsule, b"dltensor") + _DEVICE_OFFSET
    ctypes.c_uint64.from_address(address).value = device
    return with_bits_of(tensor, _from_dlpack(capsule))


def with_bits_of(tensor: torch.Tensor, alias: torch.Tensor) -> torch.Tensor:
    """Return an alias that is conjugated or negated like its tensor."""
    # Lazy conjugation and negation are bits of the tensor, which DLPack does not have.
    if tensor.is_conj():
        alias = alias.conj()
    return _neg_view(alias) if tensor.is_neg() else alias


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
    """Make a device tensor use a device storage; the CPU's kernel does only this."""
    _aten.set_.source_Storage_storage_offset.redispatch(
        CPU_KEYS, tensor, source, offset, size, stride
    )
    return tensor


def set_like(tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Make a device tensor use the memory of another one."""
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
    """Make a device tensor use a whole device storage."""
    return set_storage(tensor, source, 0, [source.nbytes() // tensor.element_size()])


def set_nothing(tensor: torch.Tensor) -> torch.Tensor:
    """Make a device tensor have no memory."""
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
    """Return new bytes on the device that begin with the tensor's storage."""
    old = on_cpu(bytes_of(tensor))
    new = _aten.empty.memory_format([size_bytes], dtype=torch.uint8, device=_HOST)
    new[: old.numel()].copy_(old)
    return on_device(new, tensor.get_device())


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the whole storage of a device tensor as bytes."""
    nothing = _aten.empty.memory_format([0], dtype=torch.uint8, device=_HOST)
    whole = on_device(nothing, tensor.get_device())
    return set_whole_storage(whole, tensor.untyped_storage())


def zeros_in_place_of_nothing(size: Sequence[int], **options: object) -> torch.Tensor:
    """Return zeros where torch would only record that all elements are zero."""
    result: torch.Tensor = _aten.zeros.default(size, **options)
    return result


_HOST = torch.device("cpu")
MEMORY_KERNELS: dict[str, Callable[..., torch.Tensor]] = {
    "_efficientzerotensor": zeros_in_place_of_nothing,
    "resize_": resize,
    "set_": set_nothing,
    "set_.source_Storage": set_whole_storage,
    "set_.source_Storage_storage_offset": set_storage,
    "set_.source_Tensor": set_like,
}


def aliases_of_shared(
    values: Iterable[Any],
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return CPU aliases of the device tensors that share a storage.

    Args:
        values: The arguments of a call; tensors in lists count.

    Returns:
        Each such tensor with its alias; mostly none.
    """
    tensors = {id(tensor): tensor for tensor in _device_tensors(values)}
    if len(tensors) == 1:
        return []
    by_storage: dict[int, list[torch.Tensor]] = {}
    for tensor in tensors.values():
        by_storage.setdefault(tensor.untyped_storage().data_ptr(), []).append(tensor)
    if len(by_storage) == len(tensors):
        return []
    return [
        pair
        for address, sharing in by_storage.items()
        if address and len(sharing) > 1
        for pair in _aliases_with_one_storage(sharing)
    ]


def _device_tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            if not value.is_cpu:
                yield value
        elif isinstance(value, (list, tuple)):
            yield from _device_tensors(value)


def _aliases_with_one_storage(
    tensors: list[torch.Tensor],
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    storage = on_cpu(bytes_of(tensors[0])).untyped_storage()
    for tensor in tensors:
        alias = torch.ops.aten.empty.memory_format(
            [0], dtype=tensor.dtype, device=torch.device("cpu")
        ).set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
        yield tensor, with_bits_of(tensor, alias)
