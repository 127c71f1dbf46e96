"""A simulated job beside the same job on plain gloo."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from operator import truediv
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.budgets import Result
from benchmarks.measure import ROOT, command, in_turn, lowest, script
from benchmarks.results import beside, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.budgets import Scale
    from benchmarks.measure import Bench

JOB = str(ROOT / "benchmarks" / "simulated_job.py")
SIZES = {"4 bytes": 1, "64 MiB": 1 << 24}
"""Sizes of an all_reduce and the float32 elements that they are."""

_STEPS_BEFORE = 600
"""Until torch, gloo and the allocator have all that they keep, on plain gloo too."""


def measure_simulating(bench: Bench, scale: Scale) -> Iterator[Result]:
    """Yield the results of simulated jobs."""
    yield _start(bench, scale)
    for ranks in ("few", "box"):
        found = _run(bench, getattr(scale, ranks), "time", scale.rounds)
        for size, elements in SIZES.items():
            ours, theirs = (found[f"{kind} {elements}"] for kind in ("sccl", "gloo"))
            yield Result(
                key=f"simulate {size} {ranks}",
                figure=median(map(truediv, ours, theirs)),
                ours=seconds(median(ours)),
                rival=f"gloo {seconds(median(theirs))}",
            )
    yield _growth(bench, scale)


def _start(bench: Bench, scale: Scale) -> Result:
    nproc = str(scale.box)
    commands = {
        "ours": command("simulate", "--nproc", nproc, JOB, "start"),
        "gloo": [
            *("env", "OMP_NUM_THREADS=1"),  # as the simulated ranks have it
            *(script("torchrun"), "--standalone", "--nproc-per-node", nproc),
            *(JOB, "start-gloo"),
        ],
    }
    jobs = {key: partial(bench.command, words) for key, words in commands.items()}
    in_turn(jobs, 1)  # fills the bytecode cache
    costs = [in_turn(jobs, 1) for _ in range(scale.jobs)]
    ours, theirs = (lowest(cost[key] for cost in costs) for key in jobs)
    # A job is long, and other work may hit the one and not the next.
    figure = median(cost["ours"].cpu_s / cost["gloo"].cpu_s for cost in costs)
    found = beside("simulate start", ours, theirs, "torchrun, gloo")
    return replace(found, figure=figure)


def _growth(bench: Bench, scale: Scale) -> Result:
    before = min(_STEPS_BEFORE, 2 * scale.steps)
    ours, theirs = (
        min(
            _run(bench, scale.few, what, before, scale.steps)["growth_bytes"][0] / 1e3
            for _ in range(scale.growths)
        )
        for what in ("train", "train-gloo")
    )
    return Result(
        key="simulate memory",
        figure=ours,
        ours=f"{ours:.0f} kB",
        rival=f"gloo {theirs:.0f} kB",
    )


def _run(bench: Bench, nproc: int, what: str, *numbers: int) -> dict[str, list[float]]:
    """Return what rank 0 of a simulated job has measured."""
    path = bench.folder / f"simulated-{what}.json"
    arguments = (JOB, what, str(path), *map(str, numbers))
    bench.command(command("simulate", "--nproc", str(nproc), *arguments))
    found: dict[str, list[float]] = json.loads(path.read_text(encoding="ascii"))
    return found
