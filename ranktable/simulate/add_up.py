"""Run the built-in script, and check the results of its ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from ranktable.simulate.launch import launch
from ranktable.simulate.processes import run_folder
from ranktable.simulate.simulated_run import RunFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ranktable.simulate.launch import RunOutcome
    from ranktable.simulate.processes import Signals
    from ranktable.simulate.simulation import Simulation


TENSOR_LENGTH = 4
"""Number of elements, all of them one; as in the script of SOPHGO's manual."""


class Contribution(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one rank.

    Attributes:
        rank: Its global rank.
        node_rank: Its simulated node.
        device_id: Its chip, as its tensor names it.
        result: The sum.
        time_s: Time of the all_reduce.
    """

    rank: int
    node_rank: int
    device_id: int
    result: list[float]
    time_s: float


def leave(folder: Path, contribution: Contribution) -> None:
    """Write the result of a rank."""
    draft = folder / f"{contribution.rank}.draft"
    draft.write_bytes(msgspec.json.encode(contribution))
    # Atomically, because the job may end at any moment.
    draft.rename(draft.with_suffix(".json"))


def contributions(folder: Path) -> dict[int, Contribution]:
    """Return the results of the ranks, by rank."""
    left = (
        msgspec.json.decode(path.read_bytes(), type=Contribution)
        for path in folder.glob("*.json")
    )
    return {found.rank: found for found in left}


BUILT_IN = "ranktable.simulate.built_in"


def add_up(
    plan: Simulation, signals: Signals
) -> tuple[RunOutcome, dict[int, Contribution]]:
    """Run the built-in script; return the outcome, and each rank's result.

    Args:
        plan: The run, whose script is ``BUILT_IN``.
        signals: The signals that the launcher has received.
    """
    with run_folder() as folder:
        results = folder / "results"
        results.mkdir()
        plan = replace(plan, arguments=(str(results),), keeps_output=True)
        outcome = launch(plan, folder, signals)
        found = contributions(results)
    wrong = _wrong_sums(found, plan.table.world_size)
    return replace(outcome, findings=(*outcome.findings, *wrong)), found


def _wrong_sums(
    found: Mapping[int, Contribution], world_size: int
) -> Iterator[RunFinding]:
    right = [float(world_size)] * TENSOR_LENGTH
    for rank, contribution in sorted(found.items()):
        if contribution.result != right:
            message = f"rank {rank} got {contribution.result}, not {right}"
            yield RunFinding(severity="error", rank=rank, message=message)
