"""Results of a kind, and figures as text."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.budgets import Result
from benchmarks.measure import command, in_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.measure import Bench, Cost

_MEGABYTE = 1e6
_LONG_S = 1


def seconds(value: float) -> str:
    """Return a time with three digits and the unit that suits it."""
    if value >= _LONG_S:
        return f"{value:.2f} s"
    return f"{value * 1e3:.3g} ms"


def memory(ours: Cost, rival: Cost) -> str:
    """Return two peaks of memory, ours first."""
    return f"{ours.peak_bytes / _MEGABYTE:.0f} / {rival.peak_bytes / _MEGABYTE:.0f} MB"


def in_ms(key: str, cost_s: float, rival: str = "-", note: str = "") -> Result:
    """Return the result of a time."""
    text = seconds(cost_s) + note
    return Result(key=key, figure=cost_s * 1e3, ours=text, rival=rival)


def beside(
    key: str, ours: Cost, theirs: Cost, rival: str, *, has_first: bool = False
) -> Result:
    """Return the ratio of our CPU time to that of the rival, whose name is given."""
    return Result(
        key=key,
        figure=ours.cpu_s / theirs.cpu_s,
        first=ours.first_s / theirs.first_s if has_first else None,
        ours=seconds(ours.cpu_s),
        rival=f"{rival} {seconds(theirs.cpu_s)}",
        memory=memory(ours, theirs),
    )


def per_item(key: str, many_s: float, few_s: float, note: str = "") -> Result:
    """Return what one costs among many, as a multiple of its cost among few."""
    return Result(
        key=key,
        figure=many_s / few_s,
        ours=f"{many_s * 1e6:.4g} us",
        rival=f"{few_s * 1e6:.4g} us{note}",
    )


def best(call: Callable[[], object], repeats: int = 5) -> float:
    """Return the lowest CPU time of some calls in this process."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def growth_of_merge(
    bench: Bench, key: str, files: Sequence[str], fewer: int, repeats: int
) -> Result:
    """Return what a file costs among many, against how many times fewer."""
    few = max(len(files) // fewer, 2)
    counts = {"one": 1, "few": few, "many": len(files)}
    jobs = {
        name: partial(bench.command, command("merge", *files[:count], "--output", "-"))
        for name, count in counts.items()
    }
    costs = in_turn(jobs, repeats)
    of_many, of_few = (
        (costs[name].cpu_s - costs["one"].cpu_s) / (counts[name] - 1)
        for name in ("many", "few")
    )
    return per_item(key, of_many, of_few, f" among {few:,}")
