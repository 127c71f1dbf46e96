"""The same bytes on the CPU and on the device.

A DLPack capsule says on which device its memory is. Torch imports a capsule of an
"extension device" as a tensor of PrivateUse1, so that changing this one field between
export and import gives an alias on the other device, of the same memory.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from torch import _neg_view
from torch._C import _from_dlpack, _to_dlpack

from ranktable.simulate.device.inventory import checked

if TYPE_CHECKING:
    import torch

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
    """Return an alias that is conjugated and negated where its tensor is."""
    # Lazy conjugation and negation are bits of the tensor, which DLPack does not have.
    if tensor.is_conj():
        alias = alias.conj()
    return _neg_view(alias) if tensor.is_neg() else alias
