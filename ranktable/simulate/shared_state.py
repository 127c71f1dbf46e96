"""The shared memory of the ranks of a group: a small file that each of them maps.

It has the progress and the process of each member. A member sleeps until another one
changes it. Ranks that poll instead use the cores that other ranks need: with eight
ranks on two cores, a collective took several times as long.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import time
from pathlib import Path

# proc(5): the fields of /proc/PID/stat after the name, which is in parentheses and may
# have any characters. State is the third of all fields, start time the 22nd.
_STATE, _START = 0, 19
_ENDED = ("Z", "X", "x")  # a zombie has ended, but its parent has not read its status


def start_time(pid: int) -> int:
    """Return when a process started, in ticks since the machine did; 0 if it has ended.

    A process id may be used again; together with the start time it is unique.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # there is no such process, or it is just ending
        return 0
    fields = stat.rpartition(b")")[2].split()
    return 0 if fields[_STATE].decode() in _ENDED else int(fields[_START])


_WAIT, _WAKE = 0, 1
_EVERYBODY = 2**31 - 1
# Newer architectures share one table of system calls.
_NUMBERS = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "loongarch64": 98}
_NUMBER = _NUMBERS.get(platform.machine())
_POLL_S = 0.001  # if the number of the system call is not known


class _Duration(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_syscall = ctypes.CDLL(None).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (
    *(ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32),
    *(ctypes.POINTER(_Duration), ctypes.c_void_p, ctypes.c_int),
)


class WakeUps:
    """A word of shared memory for which processes can wait."""

    def __init__(self, memory: mmap.mmap, offset: int) -> None:
        """Use the word at an offset, which must be a multiple of 4."""
        self._word = ctypes.c_uint32.from_buffer(memory, offset)
        self._address = ctypes.addressof(self._word)

    @property
    def value(self) -> int:
        """The value of the word."""
        return self._word.value

    def change(self, value: int) -> None:
        """Store a new value, without waking processes."""
        self._word.value = value

    def wake(self) -> None:
        """Wake all waiting processes."""
        if _NUMBER is not None:
            _syscall(_NUMBER, self._address, _WAKE, _EVERYBODY, None, None, 0)

    def wait(self, value: int, time_s: float) -> None:
        """Sleep until woken, if the word holds this value; at most for this time."""
        if _NUMBER is None:
            time.sleep(min(time_s, _POLL_S))
            return
        duration = _Duration(0, int(time_s * 1e9))
        _syscall(_NUMBER, self._address, _WAIT, value, duration, None, 0)


TEXT_BYTES = 255
"""Longest text of a member; one more byte has its length."""

_WORD_BYTES = 8
_SLOTS = 2
_CLOSED = 2**32 - 1
_LEFT = 1
"""In place of a process id: no rank is process 1."""


class SharedState:
    """The state that the members of a group share.

    A member has two places that it uses in turn. Two are enough, because no member can
    be two barriers ahead of another.
    """

    def __init__(self, path: Path, size: int, group_rank: int) -> None:
        """Map the file for a number of members; the first one creates it."""
        self._size = size
        self._group_rank = group_rank
        num_words = (_SLOTS + 2) * size + 2
        num_bytes = _WORD_BYTES * num_words + _SLOTS * size * (TEXT_BYTES + 1)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(file, num_bytes)  # all members give it the same size
            mapped = mmap.mmap(file, num_bytes)
        finally:
            os.close(file)
        memory = memoryview(mapped)
        words = memory[: _WORD_BYTES * num_words].cast("Q")
        self._slots = (words[:size], words[size : 2 * size])
        self._start_times = words[2 * size : 3 * size]
        self._pids = words[3 * size : 4 * size]
        self._closed = words[4 * size : 4 * size + 1]
        self._changes = WakeUps(mapped, _WORD_BYTES * (4 * size + 1))
        self._texts = memory[_WORD_BYTES * num_words :]
        self._start_times[group_rank] = start_time(os.getpid())
        self._pids[group_rank] = os.getpid()

    @property
    def is_closed(self) -> bool:
        """Whether a member has closed the group."""
        return self._closed[0] != 0

    def close(self) -> None:
        """Close the group, so that no member continues."""
        self._closed[0] = 1
        self._changes.change(_CLOSED)
        self._changes.wake()

    def leave(self) -> None:
        """Mark that this member has left."""
        self._pids[self._group_rank] = _LEFT

    def has_left(self, group_rank: int) -> bool:
        """Whether a member has left."""
        return self._pids[group_rank] == _LEFT

    def has_ended(self, group_rank: int) -> bool:
        """Whether the process of a member has ended, and the member had not left."""
        pid = self._pids[group_rank]
        is_known = pid not in (0, _LEFT)  # 0 before it arrives
        return is_known and start_time(pid) != self._start_times[group_rank]

    def arrivals(self, number: int) -> memoryview[int]:
        """Return the marks of all members at the barrier with this number."""
        return self._slots[number % _SLOTS]

    def arrive(self, number: int, mark: int, text: bytes) -> memoryview[int]:
        """Publish a text, then a mark, and return the marks of all members.

        Args:
            number: Number of the barrier.
            mark: The mark of this member at this barrier; not 0.
            text: At most ``TEXT_BYTES`` bytes.
        """
        begin = self._text_begin(number, self._group_rank)
        self._texts[begin] = len(text)
        self._texts[begin + 1 : begin + 1 + len(text)] = text
        slot = self._slots[number % _SLOTS]
        slot[self._group_rank] = mark
        # Different for each arrival, so that a rank that read it before does not sleep.
        self._changes.change((number * self._size + self._group_rank) % _CLOSED)
        return slot

    @property
    def change(self) -> int:
        """A number that changes with each arrival; read it before the marks."""
        return self._changes.value

    def sleep(self, change: int, time_s: float) -> None:
        """Sleep until all have arrived, if there was no arrival since a change.

        Args:
            change: The value of ``change`` before the marks were read.
            time_s: Most seconds to sleep; below 1.
        """
        self._changes.wait(change, time_s)

    def wake(self) -> None:
        """Wake the sleeping members, because all have arrived."""
        self._changes.wake()

    def text_of(self, number: int, group_rank: int) -> str:
        """Return the text of a member at a barrier."""
        begin = self._text_begin(number, group_rank)
        text = self._texts[begin + 1 : begin + 1 + self._texts[begin]]
        return bytes(text).decode(errors="replace")

    def _text_begin(self, number: int, group_rank: int) -> int:
        return (number % _SLOTS * self._size + group_rank) * (TEXT_BYTES + 1)
