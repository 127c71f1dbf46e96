"""Run the built-in script, and check the results of its ranks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ranktable.simulate.launch import launch
from ranktable.simulate.processes import run_folder
from ranktable.simulate.simulated_run import RunFinding
from ranktable.simulate.spawned import command_of, returned, task_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ranktable.simulate.launch import RunOutcome
    from ranktable.simulate.simulation import Simulation


TENSOR_LENGTH = 4
"""Number of elements, all of them one; as in the script of SOPHGO's manual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
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
    # By its name and file: it needs torch, so only ranks import it.
    file = Path(__file__).with_name("built_in.py")
    task = task_named("contribute", f"{__package__}.built_in", str(file))
    with run_folder() as folder:
        module, *arguments = command_of(task, folder)
        plan = replace(plan, script=module, arguments=arguments, is_module=True)
        outcome = launch(replace(plan, keeps_output=True), folder, signals)
        found: dict[int, Any] = returned(folder)
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
