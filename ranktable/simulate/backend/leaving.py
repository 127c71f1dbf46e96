"""The end of a rank: scripts forget to destroy their process group."""

from __future__ import annotations

import atexit
import sys
from threading import Thread

from torch import distributed as dist

_TIME_S = 60.0
_TIME_AFTER_FAILURE_S = 2.0


def leave_at_exit() -> None:
    """Destroy the process group when the interpreter ends, if the script did not.

    Without this gloo aborts the interpreter at its end (pytorch/pytorch#190489), after
    the script has printed the right results.
    """
    atexit.register(_leave)


def is_failing() -> bool:
    """Whether the script has ended with an exception."""
    return getattr(sys, "last_value", None) is not None


def _leave() -> None:
    if dist.is_initialized():
        # A daemon: when the time is up, the process ends without it. After an exception
        # peers may be gone, and nobody should wait for them.
        thread = Thread(target=dist.destroy_process_group, daemon=True)
        thread.start()
        thread.join(_TIME_AFTER_FAILURE_S if is_failing() else _TIME_S)
