"""Signals to the launcher, noted instead of obeyed, so that it can clean up."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_NOTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """What the launcher was told.

    Attributes:
        received: The signals that came, in their order.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.received: list[int] = []

    def note(self, signum: int, _frame: FrameType | None) -> None:
        """Keep a signal."""
        self.received.append(signum)


@contextlib.contextmanager
def noted_signals() -> Iterator[Signals]:
    """Note SIGINT, SIGTERM and SIGHUP; in another thread than the main one, none."""
    signals = Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    # What is ignored, as SIGHUP is under nohup, stays ignored.
    before = {
        signum: signal.signal(signum, signals.note)
        for signum in _NOTED
        if signal.getsignal(signum) is not signal.SIG_IGN
    }
    try:
        yield signals
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
