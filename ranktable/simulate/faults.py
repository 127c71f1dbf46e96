"""What goes wrong on purpose, in the process that it happens to."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NoReturn

from ranktable.simulate.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.simulate.run import Fault, Run

_STATUS = 1
_PATIENCE = 2
"""How many times the time-out a rank that hangs does so, if nobody ends it."""


class Faults:
    """The faults of one rank."""

    def __init__(self, run: Run, rank: int) -> None:
        """Take those of the run that are this rank's.

        Args:
            run: The run.
            rank: Global rank of this process.
        """
        self._faults = [fault for fault in run.faults if fault.rank == rank]
        self._rank = rank
        self._timeout_s = run.timeout_s
        self._collective = 0
        self._has_joined = False

    def before_joining(self) -> None:
        """Come late to the job, or never."""
        if self._has_joined:
            return
        self._has_joined = True
        for fault in self._faults:
            if fault.kind == "nojoin":
                self._hang("never joins")
            if fault.kind == "late":
                time.sleep(fault.delay_s)

    def chip_map(self, chip_map: Sequence[int]) -> tuple[int, ...]:
        """Return the chip map that this rank gets."""
        is_other = any(fault.kind == "map" for fault in self._faults)
        return tuple(reversed(chip_map)) if is_other else tuple(chip_map)

    def before_collective(self, num_elements: int) -> int:
        """Hang or die before a collective, or return the elements that it is for.

        Args:
            num_elements: Elements of the tensor; 0 without one.
        """
        self._collective += 1
        for fault in tuple(self._faults):
            if self._is_due(fault, num_elements):
                if fault.kind == "die":
                    os._exit(_STATUS)
                if fault.kind == "hang":
                    self._hang(f"hangs before its collective {self._collective}")
                if fault.kind == "shape":
                    return num_elements + 1
        return num_elements

    def _is_due(self, fault: Fault, num_elements: int) -> bool:
        """Whether a fault happens now; a shape needs a tensor, and waits for one."""
        if fault.kind != "shape" or self._collective < fault.collective:
            return self._collective == fault.collective
        if num_elements == 0:
            return False
        self._faults.remove(fault)
        return True

    def _hang(self, what: str) -> NoReturn:
        # The launcher ends this process as soon as the others have named it.
        time.sleep(_PATIENCE * self._timeout_s)
        raise SimulationError(
            f"rank {self._rank} {what}, as it was asked to", (self._rank,)
        )
