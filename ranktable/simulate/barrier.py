"""A barrier before each collective, where ranks compare what they are about to do.

All ranks of a simulated run are processes of this machine, so they share a small file
that each of them maps. A rank writes into its own place what it is about to do, and
waits until all have done so. SCCL does the same: it makes a communicator for every
collective. But here no rank waits forever, and a rank that is missing or does something
else is named.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from ranktable.simulate.shared_state import TEXT_BYTES, SharedState
from ranktable.simulate.simulation_error import SimulationError, rank_list, reported

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class GroupOutcome(msgspec.Struct, frozen=True):
    """Why a group cannot continue.

    Attributes:
        message: One sentence that can be understood alone.
        ranks: The global ranks that are the cause.
    """

    message: str
    ranks: tuple[int, ...]


def settle(folder: Path, outcome: GroupOutcome) -> GroupOutcome:
    """Return the outcome of a group: the earliest one.

    Args:
        folder: The folder of the group.
        outcome: The outcome in this process.
    """
    path = folder / "outcome.json"
    draft = folder / f"outcome-{os.getpid()}.json"
    draft.write_bytes(msgspec.json.encode(outcome))
    # A link is created completely or not at all, and not if the name exists.
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()  # otherwise a later write to it would change the outcome
    return msgspec.json.decode(path.read_bytes(), type=GroupOutcome)


_POLLS = 50
"""Polls before the first sleep, about 20 microseconds if each rank has a core: ranks
arrive within microseconds of each other, and waking one takes longer."""

_NAP_S = 0.01
"""Time after which a sleeping rank checks whether the missing ones still run."""

_NUMBER_SHIFT = 32  # the lower 32 bits of a mark are the checksum of the action


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
        """Open the shared state of the group."""
        self.ranks = tuple(ranks)
        self.group = group
        self.timeout_s = timeout_s
        self.folder = folder
        self.group_rank = group_rank
        self._number = 0
        self._state = SharedState(folder / "state", len(ranks), group_rank)
        has_cores = len(ranks) <= len(os.sched_getaffinity(0))
        self._polls = _POLLS if has_cores else 1

    def wait(self, action: str) -> None:
        """Wait until all members are about to call the same operation.

        Args:
            action: What this rank is about to do, in words.

        Raises:
            SimulationError: A member ended, left or is missing, or is about to call
                something else.
        """
        self._number += 1
        text = action.encode()[:TEXT_BYTES]
        state, size = self._state, len(self.ranks)
        # One word has both the progress of a rank and its action, so that another rank
        # cannot see only one of them.
        mark = self._number << _NUMBER_SHIFT | crc32(text)
        arrivals = state.arrive(self._number, mark, text)
        for _ in range(self._polls):
            if arrivals.tolist().count(mark) == size and not state.is_closed:
                state.wake()
                return
        self._wait_for_all(action)
        if arrivals.tolist().count(mark) != size:
            raise self._disagreement()

    def leave(self) -> None:
        """Leave the group."""
        self._state.leave()

    def is_without(self, members: Sequence[int]) -> bool:
        """Whether members have ended or left, or the group is closed."""
        closed = self._state.is_closed
        return closed or bool(self._ended(members) or self._left(members))

    def refuse_gone(self, members: Sequence[int], what: str) -> None:
        """Raise if members have ended or left.

        Args:
            members: Members, by their rank in the group.
            what: The operation that needs them, in words.

        Raises:
            SimulationError: A member ended or left, or the group cannot continue.
        """
        if self._state.is_closed:
            raise self.close("", ())
        if ended := self._ended(members):
            raise self._blame(ended, f"ended during {what}")
        if left := self._left(members):
            raise self._blame(left, f"left during {what}")

    def close(self, message: str, ranks: Sequence[int]) -> SimulationError:
        """Return the error for a group that cannot continue.

        If another rank has returned one before, it is the same error.
        """
        outcome = settle(self.folder, GroupOutcome(message, tuple(ranks)))
        self._state.close()
        return self.error(outcome.message, outcome.ranks)

    def error(self, message: str, ranks: Sequence[int] = ()) -> SimulationError:
        """Return an error after reporting it to the run."""
        return reported(self.folder.parent, message, ranks)

    def moment(self, action: str) -> str:
        """Return a description of the current collective."""
        return f"{action}, collective {self._number} of {self.group}"

    def _missing(self) -> list[int]:
        marks = self._state.arrivals(self._number).tolist()
        return [
            group_rank
            for group_rank, mark in enumerate(marks)
            if mark >> _NUMBER_SHIFT != self._number
        ]

    def _wait_for_all(self, action: str) -> None:
        """Wait until all have arrived, even for different calls."""
        end = time.monotonic() + self.timeout_s
        is_first = True
        change = self._state.change
        while (missing := self._missing()) or self._state.is_closed:
            if self._state.is_closed:
                raise self.close("", ())
            if not is_first:
                self._refuse_absent(missing, action, is_late=time.monotonic() > end)
            is_first = False
            self._state.sleep(change, _NAP_S)
            change = self._state.change
        self._state.wake()

    def _refuse_absent(
        self, missing: Sequence[int], action: str, *, is_late: bool
    ) -> None:
        """Raise if missing members have ended or left, or are late."""
        what = self.moment(action)
        ended = self._ended(missing)
        left = self._left(missing)
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

    def _ended(self, members: Sequence[int]) -> list[int]:
        return [
            group_rank for group_rank in members if self._state.has_ended(group_rank)
        ]

    def _left(self, members: Sequence[int]) -> list[int]:
        return [
            group_rank for group_rank in members if self._state.has_left(group_rank)
        ]

    def _disagreement(self) -> SimulationError:
        """Return the error for members that are about to do different things."""
        doing: dict[str, list[int]] = {}
        for group_rank, rank in enumerate(self.ranks):
            doing.setdefault(self._state.text_of(self._number, group_rank), []).append(
                rank
            )
        # The smallest group comes first, because it is probably the wrong one.
        groups = sorted(doing.items(), key=lambda item: len(item[1]))
        said = ", ".join(
            f"{rank_list(ranks)} {'calls' if len(ranks) == 1 else 'call'} {action}"
            for action, ranks in groups
        )
        place = f"collective {self._number} of {self.group}"
        odd = [rank for _, ranks in groups[:-1] for rank in ranks]
        return self.error(f"in {place} {said}", odd)
