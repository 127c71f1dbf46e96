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
    from collections.abc import Callable
    from datetime import timedelta
    from pathlib import Path

    from ranktable.simulate.barrier import RendezvousBarrier
    from ranktable.simulate.faults import Faults


def done(outputs: list[torch.Tensor]) -> Work:
    """Return work that has ended already, as all of SCCL's."""
    future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
    future.set_result(outputs)
    work: Work = c10d._create_work_from_future(future)  # type: ignore[attr-defined]
    return work


class Receiving(Work):
    """Work of a rank that receives a tensor, which may not have been sent yet.

    Scripts need not wait for SCCL's own work: the chip does one operation after the
    other, so a received tensor is complete when it is read. A script that drops this
    object relies on that, so the tensor is then waited for.
    """

    def __init__(self, tensor: torch.Tensor, receive: Callable[[], None]) -> None:
        """Store the tensor, and the function that waits for it."""
        super().__init__()
        self._tensor = tensor
        self._receive = receive
        self._is_done = False

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the other rank."""
        del timeout
        if not self._is_done:
            self._is_done = True  # also if it fails
            self._receive()
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
        """Wait for the tensor if the script has not; the error is reported already."""
        with contextlib.suppress(SimulationError):
            self.wait()


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

    def __init__(self, rendezvous: RendezvousBarrier, faults: Faults) -> None:
        """Store the parts."""
        self.rendezvous = rendezvous
        self._faults = faults
        self._folder = rendezvous.folder
        self._group_rank = rendezvous.group_rank
        self._number = 0
        self._transfers: Counter[tuple[int, int, int]] = Counter()

    def collective(
        self,
        name: str,
        given: torch.Tensor | None,
        *,
        agreed: torch.Tensor | None = None,
        detail: str = "",
    ) -> SharedTensors:
        """Begin a collective of the group, and return the tensors of all members.

        Args:
            name: Its name in ``torch.distributed``.
            given: The tensor that this rank gives to others, if it does.
            agreed: A tensor whose size must be the same on every rank, if there is one.
            detail: What else must be the same: the reduction, the root.

        Raises:
            SimulationError: A rank is missing, or calls something else.
        """
        self._faults.before_collective()
        what = "" if agreed is None else f" of {described(agreed)}"
        shared = self._shared(given)
        self.rendezvous.wait(f"{name}{what}{detail}")
        return shared

    def again(self, given: torch.Tensor) -> SharedTensors:
        """Give other tensors in the collective that was begun last."""
        shared = self._shared(given)
        self.rendezvous.wait_again()
        return shared

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
        path = self._next_file(self._group_rank, peer, tag)
        draft = path.with_suffix(".draft")
        self._write(draft, memory, head=f"{described(tensor)}\n")
        draft.rename(path)  # whole, so that the receiver need not look again
        return done([tensor])

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
        return Receiving(tensor, lambda: self._take(tensor, memory, peer, path))

    def leave(self) -> None:
        """Leave the group."""
        self.rendezvous.leave()

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

    def _take(
        self, tensor: torch.Tensor, memory: torch.Tensor, peer: int, path: Path
    ) -> None:
        """Wait for the file that a member sends, and read it.

        Raises:
            SimulationError: The member is missing, the tensor is another one, or the
                group cannot continue.
        """
        what = f"the recv of {described(tensor)} by {self._me} from {self._name(peer)}"
        end = time.monotonic() + self.rendezvous.timeout_s
        waiting = pauses()
        while not path.exists():
            # It may have sent it and ended in the meantime.
            if self.rendezvous.is_without([peer]) and not path.exists():
                self.rendezvous.refuse_gone([peer], what)
            if time.monotonic() > end:
                within = f"within {self.rendezvous.timeout_s:g} s"
                raise self.rendezvous.close(f"{what} did not end {within}", ())
            next(waiting)
        with path.open("rb") as file:
            sent, wanted = file.readline().decode().strip(), described(tensor)
            if sent != wanted:
                raise self.rendezvous.close(
                    f"{self._name(peer)} sends {sent} to {self._me}, which receives "
                    f"{wanted}",
                    (),
                )
            file.readinto(bytes_of(memory))
        path.unlink()

    @property
    def _me(self) -> str:
        return self._name(self._group_rank)

    def _name(self, group_rank: int) -> str:
        return rank_list([self.rendezvous.ranks[group_rank]])

    def _next_file(self, source: int, target: int, tag: int) -> Path:
        """Return the file of the next transfer between two members."""
        self._transfers[source, target, tag] += 1
        number = self._transfers[source, target, tag]
        return self._folder / f"{source}-{target}-{tag}-{number}.sent"


def is_failing() -> bool:
    """Whether the script has ended with an exception."""
    return getattr(sys, "last_value", None) is not None


def described(tensor: torch.Tensor) -> str:
    """Return a description of a tensor."""
    return f"{tensor.numel()} {str(tensor.dtype).removeprefix('torch.')}"
