"""Patch C++ objects of torch through ctypes; only this module does so.

``aliases`` uses ctypes only to change what DLPack has exported.

The reason: since 2.10 torch lets Python provide a device, but torch itself answers that
there is one chip, that it is current and that memory cannot be pinned; and it calls
Python while a C++ error is raised. Objects are changed in the layout of the Itanium
ABI, which GCC and Clang use on Linux: an object begins with the address of the table of
its class's functions, and gets a changed copy of this table. Functions that C++ may
call during an error are a few instructions that read or write ``inventory.WORDS``.

Tested with torch 2.10, 2.13 and 2.14 on x86-64; the instructions for aarch64 were
tested in an emulator. An unknown layout is refused at the start.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch

from ranktable.simulate.device import inventory

if TYPE_CHECKING:
    from collections.abc import Mapping


_POINTER_BYTES = ctypes.sizeof(ctypes.c_void_p)
_BEFORE = 2  # before the functions stand the offset to the top, and type information
_COPIED = 48  # more than any table here has; the rest is copied and never called
_PYBIND_VALUE = 2 * _POINTER_BYTES  # pybind11's instance: after Python's header
_kept: list[object] = []  # objects whose addresses C++ uses


def address_in(wrapper: object) -> int:
    """Return the address of the C++ object in a wrapper made by pybind11."""
    return ctypes.c_void_p.from_address(id(wrapper) + _PYBIND_VALUE).value or 0


def functions_of(instance: int, count: int) -> list[int]:
    """Return the addresses of an object's first virtual functions."""
    table = ctypes.c_void_p.from_address(instance).value or 0
    return functions_at(table, count)


def functions_at(table: int, count: int) -> list[int]:
    """Return the first addresses in a table of virtual functions."""
    pointers = (ctypes.c_void_p * count).from_address(table)
    return [pointer or 0 for pointer in pointers]


def exported_table(library: ctypes.CDLL, symbol: str) -> int:
    """Return the address of the functions in a table that a library exports."""
    table = ctypes.c_void_p.in_dll(library, symbol)
    return ctypes.addressof(table) + _BEFORE * _POINTER_BYTES


def replace(instance: int, functions: Mapping[int, object]) -> None:
    """Replace virtual functions of one object, by their position, permanently."""
    table = ctypes.c_void_p.from_address(instance)
    start = (table.value or 0) - _BEFORE * _POINTER_BYTES
    size_bytes = (_BEFORE + _COPIED) * _POINTER_BYTES
    copy = (ctypes.c_void_p * (_BEFORE + _COPIED)).from_buffer_copy(
        ctypes.string_at(start, size_bytes)
    )
    for position, function in functions.items():
        copy[_BEFORE + position] = ctypes.cast(function, ctypes.c_void_p)  # type: ignore[arg-type]
    _kept.extend((copy, *functions.values()))
    table.value = ctypes.addressof(copy) + _BEFORE * _POINTER_BYTES


def library(name: str) -> ctypes.CDLL:
    """Return one of torch's libraries: ``c10``, ``torch_python``.

    Raises:
        OSError: There is no library with this name.
    """
    return ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / f"lib{name}.so"))


_ALLOCATOR = "_ZN3c1028GetDefaultMobileCPUAllocatorEv"
# c10/core/StorageImpl.h: at least these words, the allocator among them.
_STORAGE_WORDS = 11


@cache
def allocator() -> int:
    """Return the address of the allocator that marks memory as pinned."""
    find = library("c10")[_ALLOCATOR]
    find.restype = ctypes.c_void_p
    return cast("int", find())


def is_pinned(tensor: torch.Tensor, device: object = None) -> bool:
    """Return whether a tensor's memory is from that allocator."""
    if not tensor.is_cpu:
        return False
    address = tensor.untyped_storage()._cdata
    return allocator() in (ctypes.c_size_t * _STORAGE_WORDS).from_address(address)


# c10/core/impl/DeviceGuardImplInterface.h, the order unchanged since torch 1.0.
# setDevice, at 3, is not changed: the engine's threads call it with 0 at their start.
_TYPE, _EXCHANGE_DEVICE, _GET_DEVICE, _UNCHECKED_SET_DEVICE = 0, 1, 2, 4
_GET_STREAM, _GET_NEW_STREAM, _EXCHANGE_STREAM = 5, 8, 9
# The count of devices is at 14; since torch 2.13 it is at 15, and 14 returns true.
_DEVICE_COUNTS = (15, 14)
_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"

# The first argument is the guard, the second a c10::Device of two bytes, or a
# c10::Stream that begins with one. An address follows the code of those that have one.
_CODE = {
    "x86_64": {
        "get": "48b8 {address} 0fb700 c3",  # movzx eax, word [address]; ret
        "set": "48b8 {address} 668930 c3",  # mov [address], si; ret
        "exchange": "48b8 {address} 668730 0fb7c6 c3",  # xchg [address], si
        "stream": "0fb7c6 31d2 c3",  # movzx eax, si; xor edx, edx; ret
        "one": "b801000000 c3",  # mov eax, 1; ret
    },
    "aarch64": {
        "get": "89000058 20014079 c0035fd6 1f2003d5 {address}",  # ldrh w0, [x9]
        "set": "89000058 21010079 c0035fd6 1f2003d5 {address}",  # strh w1, [x9]
        "exchange": "89000058 20014079 21010079 c0035fd6 {address}",
        "stream": "203c0012 010080d2 c0035fd6",  # and w0, w1, 0xffff; mov x1, 0
        "one": "20008052 c0035fd6",  # mov w0, 1; ret
    },
}
_get_function = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p)


def change_guard(guard: object) -> None:
    """Change the results of a registered guard, once in a process.

    Raises:
        RuntimeError: The guard is not at the expected place, or has another layout.
    """
    _kept.append(guard)
    address = address_in(guard)
    if not address or address != _registered():
        raise RuntimeError("it is not where registered guards are")
    code = _CODE.get(platform.machine())
    if code is None:
        raise RuntimeError(f"there is no code for {platform.machine()}")
    count = _position_of_count(address, bytes.fromhex(code["one"]))
    if not _is_known(address) or count is None:
        raise RuntimeError("its functions are not in the order that is known")
    replace(address, _functions(code, count))


def _registered() -> int:
    guards = (ctypes.c_void_p * (inventory.PRIVATEUSE1 + 1)).in_dll(
        library("c10"), _GUARDS
    )
    return guards[inventory.PRIVATEUSE1] or 0


def _is_known(guard: int) -> bool:
    """Return whether the functions that can be tested are in their places."""
    functions = functions_of(guard, _GET_DEVICE + 1)
    return all(
        _get_function(functions[position])(guard) & 0xFF == inventory.PRIVATEUSE1
        for position in (_TYPE, _GET_DEVICE)
    )


def _position_of_count(guard: int, returns_one: bytes) -> int | None:
    """Return the position of the function that returns 1 as the number of chips."""
    functions = functions_of(guard, max(_DEVICE_COUNTS) + 1)
    for position in _DEVICE_COUNTS:
        if ctypes.string_at(functions[position], len(returns_one)) == returns_one:
            return position
    return None


def _functions(code: Mapping[str, str], count_position: int) -> dict[int, object]:
    """Return the functions by their position."""
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
        count_position: _executable(code["get"], count),
    }


def _executable(code: str, address: int) -> ctypes.c_void_p:
    """Return the address of an executable copy of some code."""
    text = code.format(address=address.to_bytes(8, "little").hex())
    data = bytes.fromhex(text)
    protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    memory = mmap.mmap(-1, len(data), prot=protection)
    memory.write(data)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _kept.append(memory)
    if platform.machine() == "aarch64":  # its instruction cache must be cleared
        clear = ctypes.CDLL("libgcc_s.so.1")["__clear_cache"]
        clear(ctypes.c_void_p(start), ctypes.c_void_p(start + len(data)))
    return ctypes.c_void_p(start)


_TABLE = "_ZTVN2at25PrivateUse1HooksInterfaceE"
_COUNT = 24
# ATen/detail/AcceleratorHooksInterface.h. Python's class overrides (o) five functions
# from isPinnedPtr on, of which the second returns the allocator, and none of those from
# init to maybeExchangeDevice, which are before it, nor the one after.
_OVERRIDDEN = re.compile(r"-{5,}(o{5})-")
_ALLOCATOR_AMONG = 1  # among the five
_allocator_function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def change_hooks(hooks: object) -> None:
    """Make registered hooks return an allocator of pinned memory, once in a process.

    If the functions are in an unknown order, torch refuses to pin memory.
    """
    _kept.append(hooks)
    address = address_in(hooks)
    position = _position_of_allocator(address)
    if position is not None:
        replace(address, {position: _allocator_function(_get_allocator)})


def _get_allocator(_: int) -> int:
    return allocator()


def _position_of_allocator(hooks: int) -> int | None:
    base = exported_table(library("torch_python"), _TABLE)
    pairs = zip(
        functions_of(hooks, _COUNT),
        functions_at(base, _COUNT),
        strict=True,
    )
    found = _OVERRIDDEN.search("".join("-" if a == b else "o" for a, b in pairs))
    return None if found is None else found.start(1) + _ALLOCATOR_AMONG
