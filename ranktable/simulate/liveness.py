"""Whether a process of this machine still runs."""

from __future__ import annotations

from pathlib import Path

# proc(5): the fields of /proc/PID/stat after the name, which stands in parentheses and
# may have any characters. State is the third field of all, start time the 22nd.
_STATE, _START = 0, 19
_ENDED = ("Z", "X", "x")  # a zombie has ended, but nobody has asked for its status


def start_time(pid: int) -> int:
    """Return when a process started, in ticks since the machine did; 0 if it has ended.

    A number of a process is used again after its end; together with this it is not.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # there is no such process, or it ends just now
        return 0
    fields = stat.rpartition(b")")[2].split()
    return 0 if fields[_STATE].decode() in _ENDED else int(fields[_START])
