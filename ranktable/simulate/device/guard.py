"""The device guard: which chip is current, when torch's C++ side asks.

Torch lets Python provide a guard (from 2.10), but fixes its answer at 0 and ignores
"make this one current for now". ``tensor.to("tpu")`` and ``tensor.new_tensor`` ask just
that, so these functions are replaced.
"""

from __future__ import annotations

import ctypes
from typing import Any

from torch._C import _acc
from torch._C._autograd import DeviceType

from ranktable.simulate.device import inventory, virtual_functions
from ranktable.simulate.device.libraries import library

# c10/core/impl/DeviceGuardImplInterface.h, the order unchanged since torch 1.0.
# setDevice, at 3, stays what it is: the engine's threads call it with 0 at their start.
_TYPE, _EXCHANGE_DEVICE, _GET_DEVICE, _UNCHECKED_SET_DEVICE = 0, 1, 2, 4
_PRIVATEUSE1 = 20  # c10::DeviceType
_INDEX_SHIFT = 8  # c10::Device is {int8 type, int8 index}
_INDEX_MASK = 0xFF
_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"

_type_function = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_void_p)
_get_function = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p)
_exchange_function = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p, ctypes.c_uint16)
_set_function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint16)
_kept: list[object] = []  # what C++ holds the address of


class _Guard(_acc.DeviceGuard):
    def type_(self) -> Any:  # noqa: ANN401 - the stub says torch.device
        return DeviceType.PrivateUse1


def register() -> None:
    """Register the guard, once in a process.

    Raises:
        RuntimeError: It is not where it is looked for, or not as it is known.
    """
    guard = _Guard()
    _kept.append(guard)
    _acc.register_python_privateuseone_device_guard(guard)
    address = virtual_functions.address_in(guard)
    if not address or address != _registered():
        raise RuntimeError("it is not where registered guards are")
    if not _is_known(address):
        raise RuntimeError("its functions are not in the order that is known")
    virtual_functions.replace(address, _REPLACED)


def _registered() -> int:
    guards = (ctypes.c_void_p * (_PRIVATEUSE1 + 1)).in_dll(library("c10"), _GUARDS)
    return guards[_PRIVATEUSE1] or 0


def _is_known(guard: int) -> bool:
    """Tell whether the two functions that can be told by their answers are in place."""
    functions = virtual_functions.functions_of(guard, _GET_DEVICE + 1)
    return bool(
        _type_function(functions[_TYPE])(guard) == _PRIVATEUSE1
        and _get_function(functions[_GET_DEVICE])(guard) == _packed(0)
    )


def _packed(index: int) -> int:
    return _PRIVATEUSE1 | index << _INDEX_SHIFT


def _get_device(_: int) -> int:
    return _packed(inventory.current_device())


def _exchange_device(_: int, device: int) -> int:
    previous = inventory.current_device()
    inventory.guard_thread(device >> _INDEX_SHIFT & _INDEX_MASK)
    return _packed(previous)


def _set_device(_: int, device: int) -> None:
    inventory.guard_thread(device >> _INDEX_SHIFT & _INDEX_MASK)


_REPLACED: dict[int, object] = {
    _EXCHANGE_DEVICE: _exchange_function(_exchange_device),
    _GET_DEVICE: _get_function(_get_device),
    _UNCHECKED_SET_DEVICE: _set_function(_set_device),
}
