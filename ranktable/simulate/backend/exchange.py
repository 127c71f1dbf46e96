"""The gloo of one group, with a barrier before each collective.

Gloo reports too little if a rank has ended, and ends the process if two ranks send
tensors of different sizes. So both cases are found before gloo is called.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import time
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed as dist
from torch._C import _distributed_c10d as c10d
from torch._C._distributed_c10d import Work

from ranktable.simulate.barrier import pauses
from ranktable.simulate.record_file import Records
from ranktable.simulate.simulation_error import SimulationError, rank_list

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from pathlib import Path

    from ranktable.simulate.barrier import RendezvousBarrier
    from ranktable.simulate.faults import Faults
    from ranktable.simulate.recording import Recorder


def done(outputs: list[torch.Tensor]) -> Work:
    """Return work that has ended already, as all of SCCL's."""
    future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
    future.set_result(outputs)
    work: Work = c10d._create_work_from_future(future)  # type: ignore[attr-defined]  # noqa: SLF001 - its only name
    return work


class PendingTransfer(Work):
    """Work between two ranks, one of which may not have started it yet.

    Scripts need not wait for SCCL's own work: the chip does one operation after the
    other, so a received tensor is complete when it is read. A script that drops this
    object relies on that, so the transfer is then waited for.
    """

    def __init__(
        self, finish: Callable[[], None], drop: Callable[[], None], tensor: torch.Tensor
    ) -> None:
        """Store how to wait for it, how to drop it, and its tensor."""
        super().__init__()
        self._finish = finish
        self._drop = drop
        self._tensor = tensor
        self._is_done = False

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the other rank."""
        del timeout
        if not self._is_done:
            self._is_done = True
            self._finish()
        return True

    def is_completed(self) -> bool:
        """Whether it was waited for."""
        return self._is_done

    def result(self) -> list[torch.Tensor]:
        """Return the tensor."""
        return [self._tensor]

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """Return a future that has the tensor, after waiting for it."""
        self.wait()
        return done([self._tensor]).get_future()

    def __del__(self) -> None:
        """Wait for the transfer if the script has not."""
        if not self._is_done:
            self._is_done = True
            self._drop()


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
        # A daemon: after the time-out, the process ends without it. After an exception
        # peers may have ended, and no rank should wait for them.
        thread = Thread(target=dist.destroy_process_group, daemon=True)
        thread.start()
        thread.join(_TIME_AFTER_FAILURE_S if is_failing() else _TIME_S)


_RECORD_BYTES = 64
_PLACES = 1024
"""More transfers than a script starts without waiting."""


class Transfers:
    """Transfers that a member of a group sends and receives.

    If gloo receives more than the tensor can hold, it ends the process without a
    message. So each side first writes into its own file what it is about to do, and
    reads the file of the other side; the second of them sees both.
    """

    def __init__(self, folder: Path, group_rank: int) -> None:
        """Start without transfers, in the folder of the group."""
        self._folder = folder
        self._group_rank = group_rank
        self._files: dict[str, Records] = {}
        self._counts: dict[str, int] = {}

    def sends(self, peer: int, tag: int, what: str) -> Callable[[], str | None]:
        """Record what is about to be sent.

        Args:
            peer: The receiving member.
            tag: A number that distinguishes transfers between the same members.
            what: A description.

        Returns:
            A function that returns what the peer is about to receive, None if not known
            yet.
        """
        way = f"{self._group_rank}-{peer}-{tag}"
        return self._note(f"send-{way}", f"receive-{way}", what)

    def receives(self, peer: int, tag: int, what: str) -> Callable[[], str | None]:
        """Record what is about to be received; see ``sends``."""
        way = f"{peer}-{self._group_rank}-{tag}"
        return self._note(f"receive-{way}", f"send-{way}", what)

    def _note(self, own: str, other: str, what: str) -> Callable[[], str | None]:
        number = self._counts[own] = self._counts.get(own, 0) + 1
        place = number % _PLACES
        self._file(own).write(place, number, what)

        def look() -> str | None:
            [(found, said)] = self._file(other).read(place)
            if found > number:
                return what  # the other side is far ahead and has used this place again
            return said if found == number else None

        return look

    def _file(self, name: str) -> Records:
        if name not in self._files:
            self._files[name] = Records(self._folder / name, _RECORD_BYTES)
        return self._files[name]


_REAPING_S = 1.0
"""Time for a process to end after it has closed its connection."""
_POLL_S = 0.01
_MOST_UNSENT = 64
"""Most tensors that are sent without waiting, before this rank waits for them."""


class Exchange:
    """The communication of the ranks of one group.

    Attributes:
        gloo: The gloo group that sends the bytes.
        rendezvous: The barrier where the ranks wait for each other.
    """

    def __init__(
        self,
        gloo: Any,  # noqa: ANN401 - ProcessGroupGloo, whose methods have no types
        rendezvous: RendezvousBarrier,
        faults: Faults,
        title: str,
        recorder: Recorder | None = None,
    ) -> None:
        """Store the parts; gloo's errors get the title of the backend."""
        self.gloo = gloo
        self.rendezvous = rendezvous
        self._faults = faults
        self._title = title
        self._recorder = recorder
        self._group_rank = rendezvous.group_rank
        self._is_alone = len(rendezvous.ranks) == 1
        self._transfers = Transfers(rendezvous.folder, rendezvous.group_rank)
        self._unsent: list[Callable[[], None]] = []
        self._failure: RuntimeError | None = None

    def collective(
        self,
        name: str,
        agreed: torch.Tensor | None,
        detail: str,
        start: Callable[[], Work],
        part_bytes: int,
    ) -> None:
        """Do a collective of the group.

        Args:
            name: Its name in ``torch.distributed``.
            agreed: A tensor whose size must be the same on every rank, if there is one.
            detail: What else must be the same: the reduction, the root.
            start: Calls gloo.
            part_bytes: Bytes that every rank gives or gets.

        Raises:
            SimulationError: A rank is missing, or calls something else.
        """
        if self._failure is not None:
            raise self._failure
        count = self._faults.before_collective(0 if agreed is None else agreed.numel())
        action = name + detail
        if agreed is not None:
            action = f"{name} of {count} {dtype_name(agreed)}{detail}"
        if not self._is_alone:
            self.rendezvous.wait(action)
        begin_ns = time.monotonic_ns()
        self._finish(self._told(start), lambda: self.rendezvous.moment(action))
        if self._recorder is not None:
            self._recorder.collective(name, detail, part_bytes, begin_ns)

    def send(
        self, tensor: torch.Tensor, memory: torch.Tensor, peer: int, tag: int
    ) -> Work:
        """Send a tensor with its current values to a member.

        Args:
            tensor: The tensor.
            memory: Its memory, for gloo.
            peer: The receiving member.
            tag: A number that distinguishes transfers between the same members.

        Raises:
            SimulationError: The member is about to receive something else.
        """
        sent = described(tensor)
        received = self._transfers.sends(peer, tag, sent)()
        self._compare(sent, received, self._group_rank, peer)
        begin_ns = time.monotonic_ns()
        kept = memory.clone()
        work = self._told(lambda: self.gloo.send([kept], peer, tag))

        def finish() -> None:
            what = f"the send of {sent} by {self._me} to {self._name(peer)}"
            self._finish(work, lambda: what)
            if self._recorder is not None:
                target = self.rendezvous.ranks[peer]
                self._recorder.transfer(target, kept.nbytes, begin_ns)

        # The sender need not wait; but gloo drops work without a reference.
        return PendingTransfer(finish, lambda: self._keep(finish), tensor)

    def receive(
        self, tensor: torch.Tensor, memory: torch.Tensor, peer: int | None, tag: int
    ) -> Work:
        """Receive a tensor from a member, or from any if ``peer`` is None.

        Args:
            tensor: The tensor.
            memory: Its memory, for gloo.
            peer: The sending member.
            tag: A number that distinguishes transfers between the same members.

        Raises:
            SimulationError: The member is about to send something else.
        """
        wanted = described(tensor)
        what = f"the recv of {wanted} by {self._me} from "
        if peer is None:
            what += "any rank"
            work = self._told(lambda: self.gloo.recv_anysource([memory], tag))
            await_sender = None
        else:
            what += self._name(peer)
            sent = self._transfers.receives(peer, tag, wanted)
            self._compare(sent(), wanted, peer, self._group_rank)
            work = self._told(lambda: self.gloo.recv([memory], peer, tag))
            await_sender = partial(self._await_sender, peer, sent, wanted, what)

        def finish() -> None:
            if await_sender is not None:
                await_sender()
            self._finish(work, lambda: what)

        return PendingTransfer(finish, lambda: self._later(finish), tensor)

    def leave(self) -> None:
        """Leave the group, after everything that was sent has been received.

        A rank that has failed leaves at once.
        """
        with contextlib.suppress(SimulationError):  # already reported
            while self._unsent and not is_failing():
                self._unsent.pop(0)()
        self.rendezvous.leave()

    @property
    def _me(self) -> str:
        return self._name(self._group_rank)

    def _compare(
        self, sent: str | None, received: str | None, source: int, target: int
    ) -> None:
        if sent is not None and received is not None and sent != received:
            raise self.rendezvous.close(
                f"{self._name(source)} sends {sent} to {self._name(target)}, which "
                f"receives {received}",
                (),
            )

    def _await_sender(
        self, peer: int, sent: Callable[[], str | None], wanted: str, what: str
    ) -> None:
        """Wait until a member has started to send."""
        end = time.monotonic() + self.rendezvous.timeout_s
        waiting = pauses()
        while (found := sent()) is None:
            # It may have sent the tensor and ended in the meantime.
            if self.rendezvous.is_without([peer]) and sent() is None:
                self.rendezvous.refuse_gone([peer], what)
            if time.monotonic() > end:
                raise self._late(what)
            next(waiting)
        self._compare(found, wanted, peer, self._group_rank)

    def _keep(self, finish: Callable[[], None]) -> None:
        self._unsent.append(finish)
        if len(self._unsent) > _MOST_UNSENT:
            self._unsent.pop(0)()

    def _name(self, group_rank: int) -> str:
        return rank_list([self.rendezvous.ranks[group_rank]])

    def _told(self, start: Callable[[], Work]) -> Work:
        """Return gloo's work; its errors get the wording of the backend."""
        try:
            return start()
        except (RuntimeError, ValueError) as error:
            named = str(error).replace("ProcessGroupGloo", f"ProcessGroup{self._title}")
            raise type(error)(named) from None

    def _finish(self, work: Work, what: Callable[[], str]) -> None:
        try:
            work.wait()
        except RuntimeError as error:
            raise self._explained(error, what()) from error

    def _later(self, finish: Callable[[], None]) -> None:
        """Finish work in the background; its failure is not reported."""
        try:
            finish()
        except RuntimeError as error:
            self._failure = error

    def _explained(self, error: RuntimeError, what: str) -> SimulationError:
        """Return the error for an operation that gloo could not finish."""
        reason = str(error).splitlines()[0]
        if "Timed out" in reason:
            return self._late(what)
        end = time.monotonic() + _REAPING_S
        while time.monotonic() < end:
            try:
                self.rendezvous.refuse_gone(range(len(self.rendezvous.ranks)), what)
            except SimulationError as found:
                return found
            time.sleep(_POLL_S)
        return self.rendezvous.close(f"{what} failed: {reason}", ())

    def _late(self, what: str) -> SimulationError:
        within = f"within {self.rendezvous.timeout_s:g} s"
        return self.rendezvous.close(f"{what} did not end {within}", ())


def described(tensor: torch.Tensor) -> str:
    """Return a description of a tensor."""
    return f"{tensor.numel()} {dtype_name(tensor)}"


def dtype_name(tensor: torch.Tensor) -> str:
    """Return the name of a tensor's type."""
    return str(tensor.dtype).removeprefix("torch.")
