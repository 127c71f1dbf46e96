"""One end for everything that waits for other processes."""

from __future__ import annotations

import time
from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

GRACE_S = 2.0
"""How much longer than its time-out joining a job may take, to say what went wrong."""

_Result = TypeVar("_Result")


class LateError(Exception):
    """What was waited for is not done when the time is up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """When to give up, and after how long that is.

    Attributes:
        time_s: The whole time, for messages.
        end: The end, by ``time.monotonic``.
    """

    time_s: float
    end: float

    @classmethod
    def after(cls, time_s: float) -> Deadline:
        """Return the end of a time that begins now."""
        return cls(time_s=time_s, end=time.monotonic() + time_s)

    @property
    def left_s(self) -> float:
        """The seconds that are left, 0 when the time is up."""
        return max(self.end - time.monotonic(), 0.0)


def in_time(work: Callable[[], _Result], time_s: float) -> _Result:
    """Return what a function returns, as long as it does so in time.

    Torch reads some answers without any time-out, so the function runs in a thread of
    its own. One that is late is left behind: a daemon, it keeps no process alive.

    Raises:
        LateError: The time is up.
    """
    future: Future[_Result] = Future()
    Thread(target=_keep, args=(work, future), daemon=True).start()
    done, _ = wait([future], time_s)
    if not done:
        raise LateError
    return future.result()


def _keep(work: Callable[[], _Result], future: Future[_Result]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised where it is waited for
        future.set_exception(error)
