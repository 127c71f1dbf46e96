"""The device guard: which chip is current, when torch's C++ side asks.

Torch lets Python provide a guard (from 2.10), but fixes its answer at 0 and ignores
"make this one current for now". ``tensor.to("tpu")`` and ``tensor.new_tensor`` ask just
that, and a backward pass makes the chip of each gradient current. So these functions
are replaced. C++ may call them while a Python error is on its way, when no Python
function can run; so each is a few instructions that read or write ``inventory.WORDS``.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
from typing import Any

from torch._C import _acc
from torch._C._autograd import DeviceType

from ranktable.simulate.device import inventory, virtual_functions
from ranktable.simulate.device.libraries import library

# c10/core/impl/DeviceGuardImplInterface.h, the order unchanged since torch 1.0.
# setDevice, at 3, stays what it is: the engine's threads call it with 0 at their start.
_TYPE, _EXCHANGE_DEVICE, _GET_DEVICE, _UNCHECKED_SET_DEVICE = 0, 1, 2, 4
_GET_STREAM, _GET_NEW_STREAM, _EXCHANGE_STREAM, _DEVICE_COUNT = 5, 8, 9, 15
_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"

# The first argument is the guard, the second a c10::Device of two bytes, or a
# c10::Stream that begins with one. An address follows the code of those that have one.
_CODE = {
    "x86_64": {
        "get": "48b8 {address} 0fb700 c3",  # movzx eax, word [address]; ret
        "set": "48b8 {address} 668930 c3",  # mov [address], si; ret
        "exchange": "48b8 {address} 668730 0fb7c6 c3",  # xchg [address], si
        "stream": "0fb7c6 31d2 c3",  # movzx eax, si; xor edx, edx; ret
    },
    "aarch64": {
        "get": "89000058 20014079 c0035fd6 1f2003d5 {address}",  # ldrh w0, [x9]
        "set": "89000058 21010079 c0035fd6 1f2003d5 {address}",  # strh w1, [x9]
        "exchange": "89000058 20014079 21010079 c0035fd6 {address}",
        "stream": "203c0012 010080d2 c0035fd6",  # and w0, w1, 0xffff; mov x1, 0
    },
}
_get_function = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p)
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
    virtual_functions.replace(address, _functions())


def _registered() -> int:
    guards = (ctypes.c_void_p * (inventory.PRIVATEUSE1 + 1)).in_dll(
        library("c10"), _GUARDS
    )
    return guards[inventory.PRIVATEUSE1] or 0


def _is_known(guard: int) -> bool:
    """Tell whether the functions that can be told by their answers are in place."""
    functions = virtual_functions.functions_of(guard, _DEVICE_COUNT + 1)
    answers = {
        position: _get_function(functions[position])(guard)
        for position in (_TYPE, _GET_DEVICE, _DEVICE_COUNT)
    }
    type_only = inventory.PRIVATEUSE1
    return {position: answer & 0xFF for position, answer in answers.items()} == {
        _TYPE: type_only,
        _GET_DEVICE: type_only,
        _DEVICE_COUNT: 1,
    }


def _functions() -> dict[int, object]:
    """Return the functions by their position.

    Raises:
        RuntimeError: There is no code for this processor.
    """
    code = _CODE.get(platform.machine())
    if code is None:
        raise RuntimeError(f"there is no code for {platform.machine()}")
    current = ctypes.addressof(inventory.WORDS)
    count = current + inventory.Words.count.offset
    stream = _executable(code["stream"], current)
    return {
        _EXCHANGE_DEVICE: _executable(code["exchange"], current),
        _GET_DEVICE: _executable(code["get"], current),
        _UNCHECKED_SET_DEVICE: _executable(code["set"], current),
        _GET_STREAM: stream,
        _GET_NEW_STREAM: stream,
        _EXCHANGE_STREAM: stream,
        # The engine keeps a stream for each index below it.
        _DEVICE_COUNT: _executable(code["get"], count),
    }


def _executable(code: str, address: int) -> ctypes.c_void_p:
    """Return the address of a copy of some code that can be run."""
    text = code.format(address=address.to_bytes(8, "little").hex())
    data = bytes.fromhex(text)
    protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    memory = mmap.mmap(-1, len(data), prot=protection)
    memory.write(data)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _kept.append(memory)
    if platform.machine() == "aarch64":  # its caches do not see what was written
        clear = ctypes.CDLL("libgcc_s.so.1")["__clear_cache"]
        clear(ctypes.c_void_p(start), ctypes.c_void_p(start + len(data)))
    return ctypes.c_void_p(start)
