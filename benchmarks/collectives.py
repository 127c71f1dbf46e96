"""Collectives of ``ranktable.dist`` beside those of torch and of mmengine."""

from __future__ import annotations

import json
from operator import sub, truediv
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.budgets import COLLECTIVE_SIZES, Result
from benchmarks.measure import ROOT, script
from benchmarks.text import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.budgets import Scale
    from benchmarks.measure import Bench

JOB = str(ROOT / "benchmarks" / "collective_job.py")
_TINY_BYTES = 4
_MICRO = 1e6


def measure_collectives(bench: Bench, scale: Scale) -> Iterator[Result]:
    """Yield the results of collectives on two ranks."""
    file = bench.folder / "collectives.json"
    bench.command(
        [
            *("env", "OMP_NUM_THREADS=1", "GLOO_SOCKET_IFNAME=lo"),
            *(script("torchrun"), "--standalone", "--nproc-per-node", "2"),
            *(JOB, str(file), str(scale.rounds)),
        ]
    )
    found = json.loads(file.read_text(encoding="utf-8"))
    for mode in ("off", "first"):
        tiny = found[f"all_reduce {mode} {_TINY_BYTES}"]
        yield Result(
            key=f"dist {mode} 4 bytes",
            figure=median(map(sub, tiny["ours"], tiny["torch"])) * _MICRO,
            ours=seconds(median(tiny["ours"])),
            rival=f"torch {seconds(median(tiny['torch']))}",
        )
        for size, count in COLLECTIVE_SIZES.items():
            times = found[f"all_reduce {mode} {count}"]
            yield _ratio(f"dist {mode} {size}", times, "torch")
    for name, rival in (
        ("all_reduce_params", "mmengine"),
        ("collect_results", "mmengine"),
        ("reduce_scatter", "gloo"),
        ("overlap", "one after the other"),
    ):
        yield _ratio(f"dist {name}", found[name], rival)


def _ratio(key: str, times: dict[str, list[float]], rival: str) -> Result:
    ours, theirs = times["ours"], times[rival]
    return Result(
        key=key,
        figure=median(map(truediv, ours, theirs)),
        ours=seconds(median(ours)),
        rival=f"{rival} {seconds(median(theirs))}",
    )
