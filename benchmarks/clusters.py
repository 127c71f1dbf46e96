"""Cluster specs, files and probes of many nodes to one table, beside a script's way."""

from __future__ import annotations

import filecmp
import json
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.measure import ROOT, BenchmarkError, command, in_turn
from benchmarks.results import beside, growth_of_merge
from benchmarks.tables import RING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.budgets import Result, Scale
    from benchmarks.measure import Bench

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
    yield growth_of_merge(bench, "merge linear", files, QUARTER, scale.commands)


def _compared(
    bench: Bench, key: str, ours: Sequence[str], rival: Sequence[str], scale: Scale
) -> Iterator[Result]:
    """Yield the results of one way to a table; both write the same bytes."""
    name = key.partition(" ")[2] or key
    mine, theirs = (bench.folder / "clusters" / f"{name}.{who}" for who in _WHO)
    by_hand = [sys.executable, "-m", "benchmarks.by_hand", *rival, str(theirs)]
    jobs = {
        "ours": partial(bench.command, command(*ours, "--output", str(mine))),
        "rival": partial(bench.command, by_hand),
    }
    costs = in_turn(jobs, scale.commands)
    if not filecmp.cmp(mine, theirs, shallow=False):
        raise BenchmarkError(f"{key}: ours and the rival's tables differ")
    yield beside(key, costs["ours"], costs["rival"], RIVAL)


_WHO = ("ours", "rival")


def _run(*arguments: str) -> None:
    subprocess.run(  # noqa: S603 - our own command
        command(*arguments), cwd=ROOT, check=True, capture_output=True
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
