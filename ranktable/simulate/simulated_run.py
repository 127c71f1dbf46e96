"""The description of a simulated run, which its launcher writes for the ranks.

A run has a private folder whose path is in ``RANKTABLE_SIMULATE``. Its file
``run.json`` has the run; ``findings.jsonl`` has the findings of ranks, one on each
line. A process without the variable is not in a simulated run.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from ranktable._error import Error

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "RANKTABLE_SIMULATE"
RANK_PROCESS = "RANKTABLE_SIMULATE_RANK"
"""The variable with the process of a rank, and the port of the store of the ranks."""
RUN_ID = "ranktable simulate"
"""The id that the agent gives its ranks in place of torchrun's."""
FaultKind = Literal["die", "late", "hang"]
_RUN, _FINDINGS = "run.json", "findings.jsonl"


class NotSimulatedError(Error, ImportError):
    """The simulated package was imported outside of ``ranktable simulate``."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A failure that a user requests.

    Attributes:
        kind: The rank joins late, or hangs or dies before a collective.
        rank: The global rank that has the fault.
        collective: Before which of its collectives it happens, counted from 1.
        delay_s: By how many seconds it joins late.
    """

    kind: FaultKind
    rank: int
    collective: int = 1
    delay_s: float = 0.0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated run.

    Attributes:
        timeout_s: Time after which a missing rank is reported.
        chips: The chips that exist on each simulated node, by its node_rank.
        faults: The failures to simulate.
    """

    timeout_s: float = 60.0
    chips: tuple[tuple[int, ...], ...]
    faults: tuple[Fault, ...] = ()


class RunFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of a rank.

    Attributes:
        severity: An ``error`` makes the run fail; a ``warning`` does not.
        rank: The rank that has the problem, None if all have.
        message: One sentence that can be understood alone.
        attempt: How often torchrun had restarted the job.
    """

    severity: Literal["error", "warning"]
    rank: int | None = None
    message: str
    attempt: int = 0


_ATTEMPT = "attempt"


def note_attempt(folder: Path) -> None:
    """Leave the number of this attempt in the folder of a run, for ``restarts``."""
    (folder / _ATTEMPT).write_text(str(attempt()))


def restarts(folder: Path) -> int:
    """Return how often the job of a run was restarted."""
    path = folder / _ATTEMPT
    return int(path.read_text()) if path.exists() else 0


def attempt() -> int:
    """Return how often torchrun has restarted the job of this process."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def start_run(folder: Path, run: Run) -> dict[str, str]:
    """Write the run into its folder and return the variables that its ranks need."""
    (folder / _RUN).write_bytes(msgspec.json.encode(run))
    return {VARIABLE: str(folder)}


def current_run(env: Mapping[str, str]) -> tuple[Path, Run]:
    """Return the folder of this process's run, and the run.

    Raises:
        NotSimulatedError: It is in no run.
    """
    name = env.get(VARIABLE, "")
    try:
        folder = Path(name)
        return folder, msgspec.json.decode((folder / _RUN).read_bytes(), type=Run)
    except (OSError, ValueError):
        raise NotSimulatedError(
            "simulated chips exist only in a run of `ranktable simulate`; "
            f"{VARIABLE} is {name!r}, which is not the folder of a run"
        ) from None


def report(folder: Path, finding: RunFinding) -> None:
    """Append a finding as one write, so that lines of several ranks do not mix.

    Without room for it the launcher does not get it, but the rank prints its own error.
    """
    finding = msgspec.structs.replace(finding, attempt=attempt())
    line = msgspec.json.encode(finding) + b"\n"
    with (
        contextlib.suppress(OSError),
        (folder / _FINDINGS).open("ab", buffering=0) as file,
    ):
        file.write(line)


def findings(folder: Path) -> list[RunFinding]:
    """Return the distinct findings of a run, in the order of their reports."""
    try:
        lines = (folder / _FINDINGS).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found: dict[RunFinding, None] = {}
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError):  # there was no room for it all
            found[msgspec.json.decode(line, type=RunFinding)] = None
    return list(found)


def leave(path: Path, value: msgspec.Struct) -> None:
    """Write a small file for the launcher as a whole; without room there is none."""
    draft = path.with_suffix(".draft")
    try:
        draft.write_bytes(msgspec.json.encode(value))
        draft.rename(path)
    except OSError:
        draft.unlink(missing_ok=True)
