"""A collective that is under way, and waiting for it without losing sight of others."""

from __future__ import annotations

import time
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from ranktable.dist.blocked import forget
from ranktable.dist.errors import DistError
from ranktable.dist.verdicts import find_verdict, withdraw
from ranktable.dist.waiting import find_deadlock, name_missing, post_open

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch.distributed as dist

    from ranktable.dist.action import Turn
    from ranktable.dist.communicator import Communicator
    from ranktable.dist.verdicts import Verdict

Result = TypeVar("Result")
Other = TypeVar("Other")

LOOK: Final = timedelta(seconds=0.25)
"""Time after which a rank that waits says what it waits in, and looks what the others
say: long beside a collective, short for those who wait for its answer."""

_DEADLOCK_S: Final = 1.0
"""Time after which it looks whether another waits for it in another group."""

_AFTER_S: Final = 2.0
"""Time for the reason of a failure to be written by those who know it."""


class Waitable(Protocol):
    """What may have to end first."""

    def wait(self) -> object:
        """Wait until it has ended."""

    def is_completed(self) -> bool:
        """Whether it has."""
        ...


class Work(Generic[Result]):
    """A collective that may not have ended yet."""

    def __init__(
        self, finish: Callable[[], Result], pending: Sequence[Waitable] = ()
    ) -> None:
        """Describe it.

        Args:
            finish: Makes the result of what has arrived.
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
            change: What makes it; called once, when somebody waits.
        """
        finish = self._finish
        assert finish is not None  # noqa: S101 - nobody has waited for a part
        return Work(lambda: change(finish()), self._pending)

    def is_completed(self) -> bool:
        """Whether nothing has to be waited for any more."""
        return all(each.is_completed() for each in self._pending)


def end(communicator: Communicator, turn: Turn) -> None:
    """Answer nobody any more for a collective that has ended."""
    communicator.open_turns.pop(turn.number, None)
    if turn.is_posted and not turn.is_agreed:
        turn.is_posted = False
        withdraw(communicator, turn.number)


class Pending:
    """One operation of torch, as part of a collective."""

    def __init__(
        self,
        work: dist.Work | None,
        communicator: Communicator,
        turn: Turn | None,
        backend: str,
    ) -> None:
        """Describe it.

        Args:
            work: What torch has returned.
            communicator: The group.
            turn: The collective; None for what two ranks do alone.
            backend: Whose operation it is; gloo's can be waited for a while.
        """
        self._work = work
        self._communicator = communicator
        self._turn = turn
        self._is_watched = (
            turn is not None
            and turn.is_compared
            and backend == "gloo"
            and communicator.is_watched
        )

    def is_completed(self) -> bool:
        """Whether torch has done it."""
        return self._work is None or self._work.is_completed()

    def wait(self) -> None:
        """Wait until torch has done it.

        Raises:
            MismatchError: Another rank does something else.
            DistError: It failed, or did not end in time.
        """
        if self._work is None:
            return
        try:
            if self._turn is None or not self._is_watched:
                self._work.wait()
            else:
                if not _has_ended(self._work):
                    self._watch(self._work, self._turn)
                end(self._communicator, self._turn)
        except DistError:
            raise
        except RuntimeError as error:
            raise self._explained(error) from error
        finally:
            if self._turn is None:
                self._communicator.transfers.discard(self)

    def _watch(self, work: dist.Work, turn: Turn) -> None:
        """Wait, and look from time to time what the others do."""
        communicator = self._communicator
        begin = time.monotonic()
        deadline = begin + communicator.timeout.total_seconds()
        look_s = _DEADLOCK_S
        while True:
            post_open(communicator)
            if not turn.is_agreed:  # else all have come; gloo has a time-out of its own
                verdict = find_verdict(communicator, turn.number)
                if verdict is None and time.monotonic() > begin + look_s:
                    look_s *= 2
                    verdict = find_deadlock(communicator, turn.number, turn.action)
                self._refuse(verdict)
                if time.monotonic() > deadline:
                    timeout = communicator.timeout
                    self._refuse(
                        name_missing(communicator, turn.number, turn.action, timeout)
                    )
            if _has_ended(work):
                break
        if look_s > _DEADLOCK_S:
            forget(communicator.rank)

    def _refuse(self, verdict: Verdict | None) -> None:
        if verdict is not None and verdict.kind != "agreed":
            # Else gloo would wait for ever, and the process could not end.
            self._communicator.fail(verdict.message)
            verdict.refuse()

    def _explained(self, error: RuntimeError) -> DistError:
        """Return the error for an operation that torch could not finish."""
        communicator, turn = self._communicator, self._turn
        deadline = time.monotonic() + _AFTER_S
        is_watched = self._is_watched and turn is not None and not turn.is_agreed
        while turn and is_watched and time.monotonic() < deadline:
            try:
                self._refuse(find_verdict(communicator, turn.number))
            except DistError as found:
                return found
            time.sleep(_AFTER_S / 10)
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        what = (
            "what was sent or received"
            if turn is None
            else f"{turn.action}, collective {turn.number} of {communicator.name},"
        )
        return DistError(
            f"{what} failed on rank {communicator.rank}: {reason}; another rank has "
            "ended, or the ranks do not do the same (RANKTABLE_DIST_CHECK=always "
            "compares every call)"
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
