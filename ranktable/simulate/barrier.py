"""A barrier before each collective, where ranks compare what they are about to do.

Each rank writes into its place of a file what it is about to do, and waits until all
have done so. SCCL does the same: it makes a communicator for every collective. But here
no rank waits forever, and a rank that is missing or does something else is named.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ranktable.simulate.record_file import Records
from ranktable.simulate.simulation_error import SimulationError, rank_list, reported

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class GroupOutcome(msgspec.Struct, frozen=True):
    """Why a group cannot continue.

    Attributes:
        message: One sentence that can be understood alone.
        ranks: The global ranks that are the cause.
    """

    message: str
    ranks: tuple[int, ...]


_OUTCOME = "outcome.json"


def settle(folder: Path, outcome: GroupOutcome) -> GroupOutcome:
    """Return the outcome of a group: the earliest one.

    Args:
        folder: The folder of the group.
        outcome: The outcome in this process.
    """
    path = folder / _OUTCOME
    draft = folder / f"outcome-{os.getpid()}.json"
    draft.write_bytes(msgspec.json.encode(outcome))
    # A link is created completely or not at all, and not if the name exists.
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()  # otherwise a later write to it would change the outcome
    return msgspec.json.decode(path.read_bytes(), type=GroupOutcome)


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended is a zombie until its parent knows."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # there is no such process, or it is just ending
        return False
    # proc(5): the name is in parentheses and may have any characters.
    state = stat.rpartition(b")")[2].split()[0]
    return state not in (b"Z", b"X", b"x")


_FIRST_PAUSE_S = 20e-6
_PAUSE_S = 0.005
_SHARE_OF_WAIT = 0.01
"""Ranks that look more often use the cores that other ranks need."""


def pauses() -> Iterator[float]:
    """Sleep longer each time, and yield the time since the begin, in seconds."""
    begin, pause_s = time.monotonic(), _FIRST_PAUSE_S
    while True:
        time.sleep(pause_s)
        waited_s = time.monotonic() - begin
        yield waited_s
        pause_s = min(2 * pause_s, max(_PAUSE_S, _SHARE_OF_WAIT * waited_s))


_RECORD_BYTES = 256
_SLOTS = 2
"""Places of a rank, which it uses in turn: no rank is two barriers ahead."""
_LEFT = "left"


class RendezvousBarrier:
    """The barrier where the ranks of one group wait for each other.

    Attributes:
        folder: The folder of the group, in that of the run.
        ranks: Global rank of each member.
        group_rank: The rank of this process in the group.
        group: Name of the group in messages.
        timeout_s: Seconds after which a missing rank is named.
    """

    def __init__(
        self,
        folder: Path,
        *,
        ranks: Sequence[int],
        group_rank: int,
        group: str,
        timeout_s: float,
    ) -> None:
        """Open the file of the group."""
        self.ranks = tuple(ranks)
        self.group = group
        self.timeout_s = timeout_s
        self.folder = folder
        self.group_rank = group_rank
        self._number = 0
        self._collective = 0
        self._action = ""
        self._records = Records(folder / "calls", _RECORD_BYTES)
        self._process = os.getpid()
        self._records.write(group_rank, self._process)

    def wait(self, action: str) -> None:
        """Wait until all members are about to call the same operation.

        Args:
            action: What this rank is about to do, in words.

        Raises:
            SimulationError: A member ended, left or is missing, or is about to call
                something else.
        """
        self._collective += 1
        self._action = action
        self.wait_again()

    def wait_again(self) -> None:
        """Wait until all members are at the same later point of the operation.

        Raises:
            SimulationError: See ``wait``.
        """
        self._number += 1
        self._records.write(self._slot + self.group_rank, self._number, self._action)
        end = time.monotonic() + self.timeout_s
        waiting = pauses()
        while missing := self._missing():
            self._refuse_closed()
            if next(waiting) > _PAUSE_S:
                self._refuse_absent(missing, is_late=time.monotonic() > end)
        self._refuse_closed()
        self._refuse_disagreement()

    def leave(self) -> None:
        """Leave the group; the last one removes its folder."""
        if os.getpid() != self._process:
            return  # a fork of the rank ends, and not the rank
        self._records.write(self.group_rank, self._process, _LEFT)
        if all(said == _LEFT for _, said in self._records.read(0, len(self.ranks))):
            shutil.rmtree(self.folder, ignore_errors=True)

    def is_without(self, members: Sequence[int]) -> bool:
        """Whether members have ended or left, or the group is closed."""
        return self._is_closed or any(self._gone(members))

    def refuse_gone(self, members: Sequence[int], what: str) -> None:
        """Raise if members have ended or left.

        Args:
            members: Members, by their rank in the group.
            what: The operation that needs them, in words.

        Raises:
            SimulationError: A member ended or left, or the group cannot continue.
        """
        self._refuse_closed()
        ended, left = self._gone(members)
        if ended:
            raise self._blame(ended, f"ended during {what}")
        if left:
            raise self._blame(left, f"left during {what}")

    def close(self, message: str, ranks: Sequence[int]) -> SimulationError:
        """Return the error for a group that cannot continue.

        If another rank has returned one before, it is the same error.
        """
        outcome = settle(self.folder, GroupOutcome(message, tuple(ranks)))
        return self.error(outcome.message, outcome.ranks)

    def error(self, message: str, ranks: Sequence[int] = ()) -> SimulationError:
        """Return an error after reporting it to the run."""
        return reported(self.folder.parent, message, ranks)

    @property
    def _is_closed(self) -> bool:
        return (self.folder / _OUTCOME).exists()

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise self.close("", ())

    @property
    def _slot(self) -> int:
        """The first place of the current barrier; the processes are before it."""
        return len(self.ranks) * (1 + self._number % _SLOTS)

    def _calls(self) -> list[tuple[int, str]]:
        """Return the last barrier of each member in this slot, and what it calls."""
        return self._records.read(self._slot, len(self.ranks))

    def _missing(self) -> list[int]:
        return [
            group_rank
            for group_rank, (number, _) in enumerate(self._calls())
            if number != self._number
        ]

    def _refuse_absent(self, missing: Sequence[int], *, is_late: bool) -> None:
        """Raise if missing members have ended or left, or are late."""
        what = f"{self._action}, collective {self._collective} of {self.group}"
        ended, left = self._gone(missing)
        # It may have arrived, done its part and ended in the meantime.
        missing = self._missing()
        if ended := [group_rank for group_rank in ended if group_rank in missing]:
            raise self._blame(ended, f"ended before {what}")
        if left := [group_rank for group_rank in left if group_rank in missing]:
            raise self._blame(left, f"left the group before {what}")
        if is_late and missing:
            within = f"within {self.timeout_s:g} s"
            raise self._blame(missing, f"did not reach {what}, {within}")

    def _blame(self, members: Sequence[int], what: str) -> SimulationError:
        ranks = [self.ranks[group_rank] for group_rank in members]
        return self.close(f"{rank_list(ranks)} {what}", ranks)

    def _gone(self, members: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the members whose processes have ended, and those that left before."""
        processes = self._records.read(0, len(self.ranks))
        left = [member for member in members if processes[member][1] == _LEFT]
        ended = [
            member
            for member in members
            if member not in left
            and processes[member][0]  # 0 before it arrives
            and not is_running(processes[member][0])
        ]
        return ended, left

    def _refuse_disagreement(self) -> None:
        """Raise if members are about to do different things."""
        doing: dict[str, list[int]] = {}
        for rank, (_, action) in zip(self.ranks, self._calls(), strict=True):
            doing.setdefault(action, []).append(rank)
        if len(doing) == 1:
            return
        # The smallest group comes first, because it is probably the wrong one.
        groups = sorted(doing.items(), key=lambda item: len(item[1]))
        said = ", ".join(
            f"{rank_list(ranks)} {'calls' if len(ranks) == 1 else 'call'} {action}"
            for action, ranks in groups
        )
        place = f"collective {self._collective} of {self.group}"
        odd = [rank for _, ranks in groups[:-1] for rank in ranks]
        raise self.error(f"in {place} {said}", odd)
