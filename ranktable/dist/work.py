"""A collective that is under way, and waiting for it without losing sight of others."""

from __future__ import annotations

import time
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ranktable.dist.errors import DistError, MismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch.distributed as dist

    from ranktable.dist.calls import CollectiveCall
    from ranktable.dist.communicator import Communicator

Result = TypeVar("Result")
Other = TypeVar("Other")

LOOK: Final = timedelta(seconds=0.5)
"""Time after which a rank that waits looks whether another compares this collective."""

_AFTER_S: Final = 2.0
"""Time for the others to say where they are, after something has failed."""


class Work(Generic[Result]):
    """A collective that may not have ended yet."""

    def __init__(
        self, finish: Callable[[], Result], pending: Sequence[Pending] = ()
    ) -> None:
        """Describe it.

        Args:
            finish: Makes the result of what has arrived, and writes it.
            pending: What has to end first.
        """
        self._finish: Callable[[], Result] | None = finish
        self._pending = pending
        self._error: BaseException | None = None
        self._result: Result
        self._lock = Lock()

    def wait(self) -> Result:
        """Return the result, once it is there; a second call returns it again.

        On a device the current stream waits, and this function does not: what is
        started on that stream afterwards sees the result.

        Raises:
            MismatchError: The ranks do not do the same.
            DistError: The collective failed.
        """
        with self._lock:  # a mean that two threads divide would be divided twice
            if self._error is not None:
                raise self._error
            if self._finish is not None:
                try:
                    for each in self._pending:
                        each.wait()
                    self._result = self._finish()
                except BaseException as error:  # also Ctrl-C, which ends it
                    self._error = error
                    raise
                finally:
                    self._finish, self._pending = None, ()
            return self._result

    def then(self, change: Callable[[Result], Other]) -> Work[Other]:
        """Return work whose result is made of the result of this.

        Args:
            change: What makes it; called once.
        """
        finish = self._finish
        assert finish is not None  # noqa: S101 - nobody has waited for a part
        return Work(lambda: change(finish()), self._pending)

    def is_completed(self) -> bool:
        """Whether the result is there, and written; ``wait`` returns at once then.

        Where the backend has ended this finishes what is left: means, casts, copies.
        """
        if not all(each.is_completed() for each in self._pending):
            return False
        if self._finish is not None:
            try:
                self.wait()
            except Exception:  # noqa: BLE001 - wait raises it again, to whoever asks
                return True
        return True


def done(result: Result) -> Work[Result]:
    """Return work that was done before."""
    return Work(lambda: result)


class Pending:
    """One operation of torch, as part of a collective.

    Attributes:
        is_over: Whether somebody has waited for it.
    """

    def __init__(
        self,
        work: dist.Work | None,
        communicator: Communicator,
        call: CollectiveCall | None,
    ) -> None:
        """Describe it.

        Args:
            work: What torch has returned.
            communicator: The group.
            call: The collective; None for what two ranks do alone.
        """
        self._work = work
        self._communicator = communicator
        self._call = call
        self.is_over = False

    def is_completed(self) -> bool:
        """Whether torch has done it, and the ranks are known to do the same."""
        if self._work is not None and not self._work.is_completed():
            return False
        return self._call is None or self._call.is_decided()

    def wait(self) -> None:
        """Wait until torch has done it.

        Raises:
            MismatchError: Another rank does something else.
            DistError: It failed, or did not end in time.
        """
        call, work = self._call, self._work
        if call is not None and call.held is not None:
            call.verify()
        if work is None:
            return
        try:
            if call is None or not call.is_compared or call.is_verified:
                work.wait()
            elif self._communicator.supports_timed_wait:
                wait_and_answer(work, call)
            else:
                work.wait()
        except DistError:
            raise
        except RuntimeError as error:
            raise explained(error, self._communicator, call) from error
        finally:
            self.is_over = True


def wait_and_answer(work: dist.Work, call: CollectiveCall) -> None:
    """Wait for gloo, and compare what this rank does if that takes long.

    Raises:
        MismatchError: Another rank does something else.
        RuntimeError: It has failed.
    """
    begin = time.monotonic()
    while not _has_ended(work):
        call.look_around(time.monotonic() - begin)
        if time.monotonic() - begin > call.communicator.timeout.total_seconds():
            work.wait()  # it says why; gloo has a time-out of its own
    call.end()


def explained(
    error: RuntimeError, members: Communicator, call: CollectiveCall | None
) -> DistError:
    """Return the error for an operation that torch could not finish."""
    verdict = None if call is None else call.explain(_AFTER_S)
    if verdict is not None and verdict.kind == "differ":
        members.fail(verdict.message)
        return MismatchError(verdict.message)
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    what = "what was sent or received"
    if call is not None:
        what = f"{call.fingerprint}, collective {call.seq} of {members.name},"
    others = "another rank has ended, or the ranks do not do the same"
    if verdict is not None and verdict.kind == "missing":
        others = verdict.message
    return DistError(
        f"{what} failed on rank {members.rank}: {reason}; {others} "
        "(RANKTABLE_DIST_CHECK=always compares every call)"
    )


def _has_ended(work: dist.Work) -> bool:
    """Wait a while, and return whether it has ended.

    Raises:
        RuntimeError: It has failed.
    """
    try:
        work.wait(LOOK)
    except RuntimeError:  # it has failed, or this was too short
        if not work.is_completed():
            return False
        work.wait()  # it may have ended just after that
    return True
