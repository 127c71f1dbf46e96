"""Cluster specs, files and probes of many nodes to one table, beside a script's way."""

from __future__ import annotations

import filecmp
import json
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.budgets import Result
from benchmarks.measure import ROOT, BenchmarkError, in_turn, script
from benchmarks.tables import RING
from benchmarks.text import memory, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.budgets import Scale
    from benchmarks.measure import Bench, Cost

RIVAL = "json script"
QUARTER = 4
"""How many times fewer files there are, to see what one more costs."""


def measure_clusters(bench: Bench, scale: Scale) -> Iterator[Result]:
    """Yield what a table of many nodes costs, from each description of them."""
    folder = bench.folder / "clusters"
    folder.mkdir()
    nodes = scale.nodes
    spec, probes, parts = folder / "spec.yaml", folder / "probes", folder / "parts"
    spec.write_text(
        f"nodes: n[000000-{nodes - 1:06}]\nchips: {list(RING)}\n", encoding="utf-8"
    )
    probes.write_text("".join(map(_probe_line, range(nodes))), encoding="utf-8")
    jobs = {
        "spec": ("gen", "--spec", str(spec)),
        "merge probes": ("merge", str(probes)),
    }
    rivals = {"spec": ("spec", str(nodes)), "merge probes": ("probes", str(probes))}
    for key, arguments in jobs.items():
        yield from _compared(bench, key, arguments, rivals[key], scale)
    parts.mkdir()
    table = folder / "spec.ours"
    _run("split", str(table), "--output", str(parts))
    files = sorted(map(str, parts.iterdir()))
    rival = ("merge", str(parts))
    yield from _compared(bench, "merge files", ("merge", *files), rival, scale)
    yield _growth(bench, files, scale)


def _compared(
    bench: Bench, key: str, ours: Sequence[str], rival: Sequence[str], scale: Scale
) -> Iterator[Result]:
    """Yield the results of one way to a table; both write the same bytes."""
    name = key.partition(" ")[2] or key
    mine, theirs = (bench.folder / "clusters" / f"{name}.{who}" for who in _WHO)
    by_hand = [sys.executable, "-m", "benchmarks.by_hand", *rival, str(theirs)]
    jobs = {
        "ours": partial(bench.command, _command(*ours, "--output", str(mine))),
        "rival": partial(bench.command, by_hand),
    }
    costs = in_turn(jobs, scale.commands)
    if not filecmp.cmp(mine, theirs, shallow=False):
        raise BenchmarkError(f"{key}: ours and the rival's tables differ")
    yield _result(key, costs["ours"], costs["rival"])


_WHO = ("ours", "rival")


def _result(key: str, ours: Cost, rival: Cost) -> Result:
    return Result(
        key=key,
        figure=ours.cpu_s / rival.cpu_s,
        ours=seconds(ours.cpu_s),
        rival=f"{RIVAL} {seconds(rival.cpu_s)}",
        memory=memory(ours, rival),
    )


def _growth(bench: Bench, files: Sequence[str], scale: Scale) -> Result:
    """Return what a file costs among many, as a multiple of its cost among few."""
    few = len(files) // QUARTER
    output = ("--output", "-")
    jobs = {
        name: partial(bench.command, _command("merge", *files[:count], *output))
        for name, count in (("one", 1), ("few", few), ("many", len(files)))
    }
    costs = in_turn(jobs, scale.commands)
    start = costs["one"].cpu_s
    of_few = (costs["few"].cpu_s - start) / (few - 1)
    of_many = (costs["many"].cpu_s - start) / (len(files) - 1)
    return Result(
        key="merge linear",
        figure=of_many / of_few,
        ours=f"{of_many * 1e6:.0f} us",
        rival=f"{of_few * 1e6:.0f} us among {few:,}",
    )


def _command(*arguments: str) -> list[str]:
    return [script("ranktable"), *arguments]


def _run(*arguments: str) -> None:
    subprocess.run(  # noqa: S603 - our own command
        _command(*arguments), cwd=ROOT, check=True, capture_output=True
    )


def _probe_line(node: int) -> str:
    """Return what ``ranktable probe`` prints on a node."""
    line = {
        "probe": 1,
        "host": f"n{node:06}",
        "vendor": "sophgo",
        "model": None,
        "driver": None,
        "chips": [{"device_id": chip} for chip in sorted(RING)],
        "unseen": [{"what": "status", "why": "tpu-smi is not installed"}],
    }
    return json.dumps(line, separators=(",", ":")) + "\n"
