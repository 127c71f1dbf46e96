"""The communication of the ranks of one group, by way of files.

All ranks of a simulated run are processes of this machine. So a rank writes its tensor
into a file, and the others map it after the barrier before each collective. Torch's own
gloo reports too little if a rank has ended, and ends the process if two ranks send
tensors of different sizes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import torch
from torch._C import _distributed_c10d as c10d
from torch._C._distributed_c10d import Work

from ranktable.simulate.barrier import pauses
from ranktable.simulate.simulation_error import SimulationError, rank_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta
    from pathlib import Path

    from ranktable.simulate.barrier import RendezvousBarrier
    from ranktable.simulate.faults import Faults
    from ranktable.simulate.recording import Recorder


def done(outputs: list[torch.Tensor]) -> Work:
    """Return work that has ended already, as all of SCCL's."""
    future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
    future.set_result(outputs)
    work: Work = c10d._create_work_from_future(future)  # type: ignore[attr-defined]
    return work


class PendingTransfer(Work):
    """Work between two ranks, one of which may not have started it yet.

    Scripts need not wait for SCCL's own work: the chip does one operation after the
    other, so a received tensor is complete when it is read. A script that drops this
    object relies on that, so the transfer is then waited for.
    """

    def __init__(
        self,
        tensor: torch.Tensor,
        *,
        finish: Callable[[], None],
        drop: Callable[[], None],
        source: Callable[[], int | None] | None = None,
    ) -> None:
        """Store the tensor, how to finish and drop the transfer, and who sent it."""
        super().__init__()
        self._tensor = tensor
        self._source = source
        self._finish = finish
        self._drop = drop
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

    def _source_rank(self) -> int:
        """Return the member that has sent the tensor; the name is torch's."""
        source = None if self._source is None else self._source()
        return -1 if source is None else source

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


class SharedTensors:
    """The tensors that the members of a group have written for one collective."""

    def __init__(self, folder: Path, number: int) -> None:
        """Find the files of a collective by its number in the group.

        A member has two files that it uses in turn. Two are enough, because no member
        can be two barriers ahead of another.
        """
        self._folder = folder
        self._slot = number % 2

    def of(self, group_rank: int, dtype: torch.dtype) -> torch.Tensor:
        """Return the elements of a member's tensor, in one dimension."""
        return read_file(self.path(group_rank), dtype)

    def path(self, group_rank: int) -> Path:
        """Return the file of a member's tensor."""
        return self._folder / f"tensor-{group_rank}-{self._slot}"


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """Return the memory of a contiguous tensor."""
    buffer = (ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())
    return memoryview(buffer)


def read_file(path: Path, dtype: torch.dtype) -> torch.Tensor:
    """Return the elements in a file, which is mapped and not copied."""
    size = path.stat().st_size // dtype.itemsize
    if size == 0:
        return torch.empty(0, dtype=dtype, device="cpu")
    return torch.from_file(str(path), shared=False, size=size, dtype=dtype)


class Exchange:
    """The communication of the ranks of one group.

    Attributes:
        rendezvous: The barrier where the ranks wait for each other.
    """

    def __init__(
        self,
        rendezvous: RendezvousBarrier,
        faults: Faults,
        recorder: Recorder | None = None,
    ) -> None:
        """Store the parts."""
        self.rendezvous = rendezvous
        self._faults = faults
        self._recorder = recorder
        self._folder = rendezvous.folder
        self._group_rank = rendezvous.group_rank
        self._number = 0
        self._transfers: Counter[tuple[int, int, int]] = Counter()
        self._unread: list[tuple[Path, Callable[[], None]]] = []
        self._awaited: list[Callable[[], bool]] = []
        self._failure: RuntimeError | None = None
        self._has_left = False

    @contextlib.contextmanager
    def collective(
        self,
        name: str,
        given: torch.Tensor | None,
        *,
        agreed: torch.Tensor | None = None,
        detail: str = "",
        part_bytes: int | None = None,
    ) -> Iterator[SharedTensors]:
        """Do a collective of the group, in a block with the tensors of all members.

        Args:
            name: Its name in ``torch.distributed``.
            given: The tensor that this rank gives to others, if it does.
            agreed: A tensor whose size must be the same on every rank, if there is one.
            detail: What else must be the same: the reduction, the root.
            part_bytes: Bytes that every rank gives or gets, if not those of ``agreed``.

        Raises:
            SimulationError: A rank is missing, or calls something else.
        """
        if self._failure is not None:
            raise self._failure
        count = self._faults.before_collective(0 if agreed is None else agreed.numel())
        action = name + detail
        if agreed is not None:
            action = f"{name} of {count} {dtype_name(agreed)}{detail}"
        shared = self._shared(given)
        self.rendezvous.wait(action)
        begin_ns = time.monotonic_ns()
        yield shared
        if self._recorder is not None:
            if part_bytes is None:
                part_bytes = 0 if agreed is None else agreed.nbytes
            self._recorder.collective(name, detail, part_bytes, begin_ns)

    def again(self, given: torch.Tensor) -> SharedTensors:
        """Give other tensors, in the block of a collective."""
        shared = self._shared(given)
        self.rendezvous.wait_again()
        return shared

    def _shared(self, given: torch.Tensor | None) -> SharedTensors:
        self._number += 1
        shared = SharedTensors(self._folder, self._number)
        if given is not None:
            self._write(shared.path(self._group_rank), given)
        return shared

    def _write(self, path: Path, tensor: torch.Tensor, head: str = "") -> None:
        """Write a tensor into a file, and a line before it.

        Raises:
            SimulationError: There is no room for it.
        """
        # Not emptied first, because new pages take longer than those that are there.
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(head.encode())
                stream.write(bytes_of(tensor))
                stream.truncate()
        except OSError as error:
            rank = self.rendezvous.ranks[self._group_rank]
            raise self.rendezvous.error(
                f"rank {rank} cannot write {tensor.nbytes} bytes for other ranks into "
                f"{path.parent}: {error.strerror}; set TMPDIR to a folder with room",
                (rank,),
            ) from error

    def send(
        self, tensor: torch.Tensor, memory: torch.Tensor, peer: int, tag: int
    ) -> Work:
        """Send a tensor with its current values to a member.

        Args:
            tensor: The tensor.
            memory: Its memory.
            peer: The receiving member.
            tag: A number that distinguishes transfers between the same members.
        """
        what = f"the send of {described(tensor)} by {self._me} to {self._name(peer)}"
        begin_ns = time.monotonic_ns()
        path, sent_bytes = self._next_file(self._group_rank, peer, tag), memory.nbytes
        draft = path.with_suffix(".draft")
        self._write(draft, memory, head=f"{described(tensor)}\n")
        draft.rename(path)  # whole, so that the receiver need not look again

        def finish() -> None:
            self._await(lambda: not path.exists(), [peer], what)
            if self._recorder is not None:
                target = self.rendezvous.ranks[peer]
                self._recorder.transfer(target, sent_bytes, begin_ns)

        def drop() -> None:
            self._unread.append((path, finish))
            while self._unread and not self._unread[0][0].exists():
                self._unread.pop(0)[1]()

        return PendingTransfer(tensor, finish=finish, drop=drop)

    def receive(
        self, tensor: torch.Tensor, memory: torch.Tensor, peer: int, tag: int
    ) -> Work:
        """Receive a tensor from a member.

        Args:
            tensor: The tensor.
            memory: Its memory.
            peer: The sending member.
            tag: A number that distinguishes transfers between the same members.
        """
        path = self._next_file(peer, self._group_rank, tag)

        def take() -> int | None:
            if not path.exists():
                return None
            self._take(path, peer, described(tensor), memory)
            return peer

        return self._receiving(tensor, take, [peer], self._name(peer))

    def receive_any(self, tensor: torch.Tensor, memory: torch.Tensor, tag: int) -> Work:
        """Receive a tensor from the member that sends one first; see ``receive``."""
        own = self._group_rank
        others = [peer for peer in range(len(self.rendezvous.ranks)) if peer != own]

        def take() -> int | None:
            for peer in others:
                if self._file(peer, own, tag, ahead=1).exists():
                    path = self._next_file(peer, own, tag)
                    self._take(path, peer, described(tensor), memory)
                    return peer
            return None

        return self._receiving(tensor, take, others, "any rank")

    def _receiving(
        self,
        tensor: torch.Tensor,
        take: Callable[[], int | None],
        peers: Sequence[int],
        whose: str,
    ) -> Work:
        """Return the work of receiving a tensor.

        Args:
            tensor: The tensor.
            take: Receives it and returns the sending member, None if it is not there.
            peers: The members that may send it.
            whose: The same, in words.
        """
        what = f"the recv of {described(tensor)} by {self._me} from {whose}"
        source = None

        def receive() -> bool:
            nonlocal source
            if source is None:
                source = take()
                if source is not None:
                    self._awaited.remove(receive)
            return source is not None

        def finish() -> None:
            self._await(receive, peers, what)

        self._awaited.append(receive)
        return PendingTransfer(
            tensor,
            finish=finish,
            drop=lambda: self._later(finish),
            source=lambda: source,
        )

    def leave(self) -> None:
        """Leave the group, after everything that was sent has been received.

        A rank that has failed leaves at once.
        """
        with contextlib.suppress(SimulationError):  # already reported
            while self._unread and not is_failing():
                self._unread.pop(0)[1]()
        self._has_left = True
        self.rendezvous.leave()

    @property
    def _me(self) -> str:
        return self._name(self._group_rank)

    def _name(self, group_rank: int) -> str:
        return rank_list([self.rendezvous.ranks[group_rank]])

    def _next_file(self, source: int, target: int, tag: int) -> Path:
        """Return the file of the next transfer between two members."""
        self._transfers[source, target, tag] += 1
        return self._file(source, target, tag)

    def _file(self, source: int, target: int, tag: int, ahead: int = 0) -> Path:
        """Return the file of the last transfer, or of one after it."""
        number = self._transfers[source, target, tag] + ahead
        return self._folder / f"{source}-{target}-{tag}-{number}.sent"

    def _take(self, path: Path, peer: int, wanted: str, memory: torch.Tensor) -> None:
        """Receive the tensor in a file, and remove the file."""
        with path.open("rb") as file:
            sent = file.readline().decode().strip()
            if sent != wanted:
                raise self.rendezvous.close(
                    f"{self._name(peer)} sends {sent} to {self._me}, which receives "
                    f"{wanted}",
                    (),
                )
            file.readinto(bytes_of(memory))
        path.unlink()

    def _await(
        self, is_done: Callable[[], bool], peers: Sequence[int], what: str
    ) -> None:
        """Wait until a transfer with one of these members is done.

        Raises:
            SimulationError: They are all missing, or the group cannot continue.
        """
        end = time.monotonic() + self.rendezvous.timeout_s
        waiting = pauses()
        while not is_done():
            for receive in tuple(self._awaited):  # the other rank may wait for one
                receive()
            # It may have done its part and ended in the meantime.
            is_without = self.rendezvous.is_without
            if all(is_without([peer]) for peer in peers) and not is_done():
                self.rendezvous.refuse_gone(peers, what)
            if time.monotonic() > end:
                within = f"within {self.rendezvous.timeout_s:g} s"
                raise self.rendezvous.close(f"{what} did not end {within}", ())
            next(waiting)

    def _later(self, finish: Callable[[], None]) -> None:
        """Finish a transfer that the script has dropped; keep its failure for later."""
        if self._has_left:
            return
        try:
            finish()
        except RuntimeError as error:
            self._failure = error


def is_failing() -> bool:
    """Whether the script has ended with an exception."""
    return getattr(sys, "last_value", None) is not None


def described(tensor: torch.Tensor) -> str:
    """Return a description of a tensor."""
    return f"{tensor.numel()} {dtype_name(tensor)}"


def dtype_name(tensor: torch.Tensor) -> str:
    """Return the name of a tensor's type."""
    return str(tensor.dtype).removeprefix("torch.")
