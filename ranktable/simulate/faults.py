"""Failures that a user requests: ``--fault hang:2@3``."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.simulate.simulated_run import Fault
from ranktable.simulate.simulation_error import SimulationError

if TYPE_CHECKING:
    from ranktable.simulate.simulated_run import FaultKind, Run


_FORMS = "late:RANK=SECONDS, hang:RANK[@N], die:RANK[@N]"
_MAX_DELAY_S = 86_400
"""One day; a longer delay is a typing mistake."""

_NUMBER = r"(\d{1,9})"
_LATE = re.compile(rf"late:{_NUMBER}=(\d{{1,9}}(?:\.\d{{1,6}})?)", re.ASCII)
_OTHER = re.compile(rf"(hang|die):{_NUMBER}(?:@([1-9]\d{{0,8}}))?", re.ASCII)


def parse_fault(text: str, world_size: int) -> Fault:
    """Return the fault that an argument names.

    Args:
        text: The argument; ``N`` counts the collectives of the rank from 1.
        world_size: Number of ranks of the job.

    Raises:
        ArgumentError: It has another form, or names a rank that the job lacks.
    """
    if (late := _LATE.fullmatch(text)) is not None:
        fault = Fault(kind="late", rank=int(late[1]), delay_s=float(late[2]))
    elif (other := _OTHER.fullmatch(text)) is not None:
        kind: FaultKind = "die" if other[1] == "die" else "hang"
        fault = Fault(kind=kind, rank=int(other[2]), collective=int(other[3] or 1))
    else:
        raise ArgumentError(f"{text!r} is not a fault of one of the forms {_FORMS}")
    if fault.rank >= world_size:
        reason = f"{text!r}: rank {fault.rank} is not among the {world_size} ranks"
        raise ArgumentError(
            f"{reason} of the job", hint=f"the last is {world_size - 1}"
        )
    if late is not None and not 0 < fault.delay_s <= _MAX_DELAY_S:
        raise ArgumentError(
            f"{text!r}: the delay must be above 0 and at most {_MAX_DELAY_S} seconds"
        )
    return fault


_STATUS = 1
_PATIENCE = 2
"""How long a rank hangs if it is not killed, in multiples of the time-out."""


class Faults:
    """The faults of one rank."""

    def __init__(self, run: Run, rank: int, attempt: int) -> None:
        """Store the faults of this global rank; a job that is restarted has none."""
        self._faults = [
            fault for fault in run.faults if fault.rank == rank and not attempt
        ]
        self._rank = rank
        self._timeout_s = run.timeout_s
        self._collective = 0
        self._delay_s = sum(fault.delay_s for fault in self._faults)

    def before_joining(self) -> None:
        """Join the job late."""
        time.sleep(self._delay_s)
        self._delay_s = 0.0

    def before_collective(self) -> None:
        """Hang or die before a collective."""
        self._collective += 1
        for fault in self._faults:
            if fault.kind == "late" or fault.collective != self._collective:
                continue
            if fault.kind == "die":
                os._exit(_STATUS)
            # The launcher ends this process after the others have named it.
            time.sleep(_PATIENCE * self._timeout_s)
            raise SimulationError(
                f"rank {self._rank} hangs before its collective {self._collective}, as "
                "--fault asked",
                (self._rank,),
            )
