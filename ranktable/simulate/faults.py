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
    from collections.abc import Mapping, Sequence

    from ranktable.simulate.simulated_run import FaultKind, Run


FORMS: Mapping[FaultKind, str] = {
    "late": "late:RANK=SECONDS",
    "hang": "hang:RANK[@N]",
    "die": "die:RANK[@N]",
}
"""Every kind of fault and its form."""

MAX_DELAY_S = 86_400
"""One day; a longer delay is a typing mistake."""

_RANK = r"0|[1-9]\d{0,8}"
_NUMBER = r"[1-9]\d{0,8}"
_SECONDS = r"\d{1,9}(?:\.\d{1,6})?"
_AFTER_RANK = {"=SECONDS": ("=", _SECONDS), "[@N]": ("@", _NUMBER)}


def parse_fault(text: str, world_size: int) -> Fault:
    """Return the fault that an argument names.

    Args:
        text: One of ``FORMS``; ``N`` counts the collectives of the rank from 1.
        world_size: Number of ranks of the job.

    Raises:
        ArgumentError: It has another form, or names a rank that the job lacks.
    """
    name = text.partition(":")[0]
    kind = next((kind for kind in FORMS if kind == name), None)
    if kind is None:
        reason = f"there is no fault {name!r}" if name else "the fault has no name"
        raise _error(text, 0, reason, f"write {', '.join(FORMS.values())}")
    form = FORMS[kind]
    parts, end = _parts(text, len(kind), _AFTER_RANK[form.partition("RANK")[2]])
    if end < len(text) or len(parts) not in ((4,) if kind == "late" else (2, 4)):
        hint = "ranks count from 0; N, the number of a collective, from 1"
        raise _error(text, end, f"this is not of the form {form}", hint)
    rank = int(parts[1])
    if rank >= world_size:
        reason = f"rank {rank} is not among the {world_size} ranks of the job"
        raise _error(text, len(kind) + 1, reason, f"ranks are 0 to {world_size - 1}")
    if kind != "late":
        collective = int(parts[-1]) if parts[2:] else 1
        return Fault(kind=kind, rank=rank, collective=collective)
    delay_s = float(parts[-1])
    if not 0 < delay_s <= MAX_DELAY_S:
        reason = f"the delay must be above 0 and at most {MAX_DELAY_S} seconds"
        raise _error(text, end - len(parts[-1]), reason, f"write {form}")
    return Fault(kind=kind, rank=rank, delay_s=delay_s)


def _parts(text: str, start: int, after_rank: Sequence[str]) -> tuple[list[str], int]:
    """Return the well-formed parts after the kind, and where they end."""
    parts = []
    for pattern in (":", _RANK, *after_rank):
        found = re.compile(pattern, re.ASCII).match(text, start)
        if found is None:
            break
        parts.append(found[0])
        start = found.end()
    return parts, start


def _error(text: str, position: int, reason: str, hint: str) -> ArgumentError:
    return ArgumentError(reason, text=text, position=position, hint=hint)


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
        self._has_joined = False

    def before_joining(self) -> None:
        """Join the job late."""
        if not self._has_joined:
            self._has_joined = True
            time.sleep(sum(fault.delay_s for fault in self._faults))

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
