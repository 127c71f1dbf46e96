"""The cost of a rank of a million, against one of ten thousand."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.budgets import Result
from benchmarks.measure import in_turn
from benchmarks.results import per_item
from benchmarks.tables import write_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.budgets import Scale
    from benchmarks.measure import Bench


def measure_scaling(bench: Bench, scale: Scale) -> Iterator[Result]:
    """Yield whether the cost of a rank stays what it is."""
    costs = []
    for ranks in (scale.medium, scale.huge):
        path = bench.folder / "growing.json"
        write_table(path, ranks)
        # The yardstick and what it is held against get the same number of calls.
        jobs = {name: partial(bench.call, name, path, 1) for name in ("read", "check")}
        costs.append(in_turn(jobs, scale.growths))
    for call in costs[0]:
        few, many = (cost[call] for cost in costs)
        of_many, of_few = many.cpu_s / scale.huge, few.cpu_s / scale.medium
        yield per_item(f"linear {call} time", of_many, of_few)
        of_many, of_few = many.peak_bytes / scale.huge, few.peak_bytes / scale.medium
        yield Result(
            key=f"linear {call} memory",
            figure=of_many / of_few,
            ours=f"{of_many:.0f} bytes",
            rival=f"{of_few:.0f} bytes",
        )
