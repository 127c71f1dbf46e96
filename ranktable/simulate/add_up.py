"""The run of the built-in script, and whether its sums are right."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.simulate.contribution import TENSOR_LENGTH, contributions
from ranktable.simulate.launch import launch
from ranktable.simulate.run import Finding
from ranktable.simulate.run_folder import run_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.simulate.contribution import Contribution
    from ranktable.simulate.launch import Outcome
    from ranktable.simulate.plan import Plan
    from ranktable.simulate.signals import Signals


BUILT_IN = "ranktable.simulate.built_in"


def add_up(plan: Plan, signals: Signals) -> tuple[Outcome, dict[int, Contribution]]:
    """Run the built-in script; return what became of it, and each rank's result.

    Args:
        plan: The run, whose script is ``BUILT_IN``.
        signals: What the launcher is told meanwhile.
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
) -> Iterator[Finding]:
    right = [float(world_size)] * TENSOR_LENGTH
    for rank, contribution in sorted(found.items()):
        if contribution.result != right:
            message = f"rank {rank} has got {contribution.result}, not {right}"
            yield Finding(severity="error", rank=rank, message=message)
