"""Virtual functions of C++ objects, as the Itanium ABI lays them out.

An object begins with the address of a table of its class's functions. Torch lets Python
answer some of them; others are answered here by giving one object a changed copy of
its table. GCC and Clang use this ABI on Linux, whatever the processor.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_POINTER_BYTES = ctypes.sizeof(ctypes.c_void_p)
_BEFORE = 2  # before the functions stand the offset to the top, and type information
_COPIED = 48  # more than any table here has; what follows is copied and never called
_PYBIND_VALUE = 2 * _POINTER_BYTES  # pybind11's instance: after Python's header
_kept: list[object] = []  # what C++ holds addresses of


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
    """Replace virtual functions of one object, by their position, for good."""
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
