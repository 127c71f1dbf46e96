"""Pinned memory: memory of another of the CPU's allocators.

Memory of the CPU cannot be nearer to a chip whose memory is the CPU's. Torch's mobile
allocator gives ordinary memory too; a storage notes its allocator, and so tells.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, cast

from ranktable.simulate.device.libraries import library

if TYPE_CHECKING:
    import torch

_ALLOCATOR = "_ZN3c1028GetDefaultMobileCPUAllocatorEv"
# c10/core/StorageImpl.h: at least these words, the allocator among them.
_STORAGE_WORDS = 11


@cache
def allocator() -> int:
    """Return the address of the allocator that stands for one of pinned memory."""
    find = library("c10")[_ALLOCATOR]
    find.restype = ctypes.c_void_p
    return cast("int", find())


def is_pinned(tensor: torch.Tensor, device: object = None) -> bool:  # noqa: ARG001 - torch's signature
    """Tell whether a tensor's memory is from that allocator."""
    if not tensor.is_cpu:
        return False
    address = tensor.untyped_storage()._cdata  # noqa: SLF001 - no public name
    return allocator() in (ctypes.c_size_t * _STORAGE_WORDS).from_address(address)
