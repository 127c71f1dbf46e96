"""Collectives of ``ranktable.dist`` beside those of torch and of mmengine."""

from __future__ import annotations

import json
import subprocess
import sys
from operator import sub, truediv
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.budgets import (
    CLIENTS,
    COLLECTIVE_SIZES,
    LATENESS_S,
    SMALL_CALLS,
    Result,
)
from benchmarks.measure import ROOT, script
from benchmarks.results import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.budgets import Scale
    from benchmarks.measure import Bench

JOB = str(ROOT / "benchmarks" / "collective_job.py")
_MICRO = 1e6


def measure_collectives(bench: Bench, scale: Scale) -> Iterator[Result]:
    """Yield the results of collectives on two ranks."""
    file = bench.folder / "collectives.json"
    # yapf, which mmengine imports, renames its cache into place before the end of it is
    # written: of two ranks that import it first, one can read half a cache.
    bench.command([sys.executable, "-c", "import mmengine.dist"])
    bench.command(
        [
            *("env", "OMP_NUM_THREADS=1", "GLOO_SOCKET_IFNAME=lo"),
            *(script("torchrun"), "--standalone", "--nproc-per-node", "2"),
            *(JOB, str(file), str(scale.rounds), str(scale.shaped_steps)),
        ]
    )
    found = json.loads(file.read_text(encoding="utf-8"))
    for name in SMALL_CALLS:
        call = found[f"small {name}"]
        yield Result(
            key=f"dist small {name}",
            figure=median(map(sub, call["ours"], call["torch"])) * _MICRO,
            ours=seconds(median(call["ours"])),
            rival=f"torch {seconds(median(call['torch']))}",
        )
    for size, count in COLLECTIVE_SIZES.items():
        yield _ratio(f"dist {size}", found[f"all_reduce {count}"], "torch")
    for name, rival in (
        ("all_reduce_params", "mmengine"),
        ("collect_results", "mmengine"),
        ("reduce_scatter", "gloo"),
        ("overlap", "one after the other"),
    ):
        yield _ratio(f"dist {name}", found[name], rival)
    keys, kilobytes = found["growth"]
    yield Result(
        key="dist memory",
        figure=kilobytes,
        ours=f"{kilobytes:.0f} kB, {keys} keys in the store",
        rival="-",
    )
    yield from _rounds(scale)


def _rounds(scale: Scale) -> Iterator[Result]:
    """Yield what a round in a store takes of its clients, and of the store."""
    for name, late_s in LATENESS_S.items():
        cpu_s = {}
        for clients in CLIENTS:
            count = getattr(scale, clients)
            command = [
                sys.executable,
                "-m",
                "benchmarks.rounds",
                str(count),
                str(late_s),
            ]
            done = subprocess.run(  # noqa: S603 - this interpreter
                command, cwd=ROOT, capture_output=True, text=True, check=True
            )
            found = json.loads(done.stdout)
            cpu_s[count] = found["cpu_s"] / count
            yield Result(
                key=f"round {clients} {name}",
                figure=found["most"],
                ours=f"{found['most']}, on average {found['mean']:.1f}",
                rival=f"CPU of the store {seconds(found['cpu_s'])}",
            )
        few, many = cpu_s[scale.few_clients], cpu_s[scale.clients]
        yield Result(
            key=f"round linear {name}",
            figure=many / few if few else 1,
            ours=seconds(many),
            rival=f"{seconds(few)} among {scale.few_clients:,}",
        )


def _ratio(key: str, times: dict[str, list[float]], rival: str) -> Result:
    ours, theirs = times["ours"], times[rival]
    return Result(
        key=key,
        figure=median(map(truediv, ours, theirs)),
        ours=seconds(median(ours)),
        rival=f"{rival} {seconds(median(theirs))}",
    )
