"""Run the built-in script, and check the results of its ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from ranktable.simulate.launch import launch
from ranktable.simulate.processes import run_folder
from ranktable.simulate.simulated_run import RunFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ranktable.simulate.launch import RunOutcome
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


def add_up(
    plan: Simulation, signals: Sequence[int]
) -> tuple[RunOutcome, dict[int, Contribution]]:
    """Let every chip contribute ones; return the outcome, and each rank's result.

    Args:
        plan: The run, without a script.
        signals: The signals that the launcher has received.
    """
    with run_folder() as folder:
        results = folder / "results"
        results.mkdir()
        plan = replace(
            plan,
            script=f"{__package__}.built_in",  # it needs torch, so only ranks import it
            arguments=(str(results),),
            is_module=True,
            keeps_output=True,
        )
        outcome = launch(plan, folder, signals)
        read = (file.read_bytes() for file in results.glob("*.json"))
        listed = [msgspec.json.decode(each, type=Contribution) for each in read]
    found = {each.rank: each for each in sorted(listed, key=lambda each: each.rank)}
    wrong = _wrong_sums(found, plan.table.world_size)
    return replace(outcome, findings=(*outcome.findings, *wrong)), found


def _wrong_sums(
    found: Mapping[int, Contribution], world_size: int
) -> Iterator[RunFinding]:
    right = [float(world_size)] * TENSOR_LENGTH
    for rank, contribution in found.items():
        if contribution.result != right:
            message = f"rank {rank} got {contribution.result}, not {right}"
            yield RunFinding(severity="error", rank=rank, message=message)
