"""The cost of a rank, from eight of them to a million."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.budgets import Result
from benchmarks.measure import in_turn
from benchmarks.tables import write_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.budgets import Scale
    from benchmarks.measure import Bench, Cost

CALLS = ("read", "check")


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What every call cost at one size."""

    ranks: int
    costs: dict[str, Cost]

    def time_us(self, call: str) -> float:
        """Return the CPU microseconds of a rank."""
        return self.costs[call].cpu_s / self.ranks * 1e6

    def memory_bytes(self, call: str) -> float:
        """Return the peak memory of a rank."""
        return self.costs[call].peak_bytes / self.ranks


def measure_growth(bench: Bench, scale: Scale) -> list[Growth]:
    """Return what every call costs, for every size in increasing order."""
    found = []
    for ranks in (scale.tiny, scale.small, scale.medium, scale.large, scale.huge):
        path = bench.folder / "growing.json"
        write_table(path, ranks)
        # The yardstick and what it is held against get the same number of calls.
        jobs = {name: partial(bench.call, name, path, 1) for name in CALLS}
        found.append(Growth(ranks=ranks, costs=in_turn(jobs, scale.growths)))
    return found


def judge_growth(growths: list[Growth], scale: Scale) -> Iterator[Result]:
    """Yield whether the cost of a rank stays what it is."""
    by_ranks = {growth.ranks: growth for growth in growths}
    huge, medium = by_ranks[scale.huge], by_ranks[scale.medium]
    for call in CALLS:
        many, few = huge.time_us(call), medium.time_us(call)
        yield Result(
            key=f"linear {call} time",
            figure=many / few,
            ours=f"{many:.3g} us",
            rival=f"{few:.3g} us",
        )
        many, few = huge.memory_bytes(call), medium.memory_bytes(call)
        yield Result(
            key=f"linear {call} memory",
            figure=many / few,
            ours=f"{many:.0f} bytes",
            rival=f"{few:.0f} bytes",
        )
