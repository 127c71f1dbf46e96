"""Sleep until another process changes a word of shared memory; Linux's futex(2).

Ranks that look again and again take the cores from those that they wait for: with eight
ranks on two cores that made a collective several times as slow.
"""

from __future__ import annotations

import ctypes
import platform
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mmap

_WAIT, _WAKE = 0, 1
_EVERYBODY = 2**31 - 1
# Architectures of the last fifteen years share one table of system calls.
_NUMBERS = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "loongarch64": 98}
_NUMBER = _NUMBERS.get(platform.machine())
_POLL_S = 0.001  # where the number is not known


class _Duration(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_syscall = ctypes.CDLL(None).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (
    *(ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32),
    *(ctypes.POINTER(_Duration), ctypes.c_void_p, ctypes.c_int),
)


class Futex:
    """A word of shared memory that processes wait at."""

    def __init__(self, memory: mmap.mmap, offset: int) -> None:
        """Take the word at an offset, which is a multiple of 4."""
        self._word = ctypes.c_uint32.from_buffer(memory, offset)
        self._address = ctypes.addressof(self._word)

    @property
    def value(self) -> int:
        """What the word holds."""
        return self._word.value

    def change(self, value: int) -> None:
        """Store a value that nobody has stored before; it wakes nobody."""
        self._word.value = value

    def wake(self) -> None:
        """Wake whoever waits."""
        if _NUMBER is not None:
            _syscall(_NUMBER, self._address, _WAKE, _EVERYBODY, None, None, 0)

    def wait(self, value: int, time_s: float) -> None:
        """Sleep until woken, if the word holds this value; at most for this time."""
        if _NUMBER is None:
            time.sleep(min(time_s, _POLL_S))
            return
        duration = _Duration(0, int(time_s * 1e9))
        _syscall(_NUMBER, self._address, _WAIT, value, duration, None, 0)
