"""Commands on a table of a whole cluster, as an operator starts them."""

from __future__ import annotations

import json
import shutil
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING

from benchmarks.budgets import COMMANDS, Result
from benchmarks.measure import command, lowest
from benchmarks.other_vendors import super_pods
from benchmarks.results import in_ms
from benchmarks.tables import RING, write_table
from ranktable import dump
from ranktable.cluster.generate import make_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.budgets import Scale
    from benchmarks.measure import Bench, Cost

CHIPS = len(RING)
NODES_OF_A_RACK = 32
UNEVEN = (8, 8, 4, 4, 8)
"""Chips of the nodes of a cluster of two kinds, in turn."""
DIFFERENT = 1
"""Exit status of ``diff``."""


def measure_operating(bench: Bench, scale: Scale) -> Iterator[Result]:
    """Yield what every command costs, its start and its output included."""
    folder = bench.folder / "operating"
    folder.mkdir()
    _write_files(folder, scale)
    make = f"gen --spec spec.yaml --tp {CHIPS} --cp 2 --pp 16 --output table.json"
    for prepare in (make, "fit table.json --lost n000003 -o less.json"):
        bench.command(_command(folder, prepare))
    for key, line in COMMANDS.items():
        status = DIFFERENT if line.startswith("diff") else 0
        run = partial(_run, bench, folder, line, status)
        cost = lowest(run() for _ in range(scale.operations))
        yield in_ms(f"operate {key}", cost.cpu_s)


def _write_files(folder: Path, scale: Scale) -> None:
    """Write the description of a cluster, its racks, and tables of other formats."""
    nodes = scale.layouts // CHIPS
    hosts = [f"n{node:06}" for node in range(nodes)]
    spec = f"nodes: n[000000-{nodes - 1:06}]\nchips: {list(RING)}\n"
    (folder / "spec.yaml").write_text(spec, "utf-8")
    num_racks = max(nodes // NODES_OF_A_RACK, 2)
    for name, racks in (
        ("racks", [node // NODES_OF_A_RACK for node in range(nodes)]),
        ("scattered", [node % num_racks for node in range(nodes)]),
    ):
        lines = (f"{host} r{rack}\n" for host, rack in zip(hosts, racks, strict=True))
        (folder / name).write_text("host rack\n" + "".join(lines), "utf-8")
    # As many nodes as hold whole copies of a model of 256 ranks.
    count = nodes // (8 * len(UNEVEN)) * 8 * len(UNEVEN)
    sizes = islice(cycle(UNEVEN), count)
    uneven = make_table([range(size) for size in sizes], hosts=hosts[:count])
    dump(uneven, folder / "uneven.json")
    write_table(folder / "hccl.json", scale.layouts, layout="hccl")
    pods = json.dumps(super_pods(scale.layouts), indent=1)
    (folder / "pods.json").write_text(pods, "utf-8")


def _run(bench: Bench, folder: Path, line: str, status: int) -> Cost:
    """Return what a command costs that finds no output of an earlier one."""
    for path in folder.glob("out-*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return bench.command(_command(folder, line), status=status)


def _command(folder: Path, line: str) -> list[str]:
    """Return a command on files of a folder."""
    named = {path.name for path in folder.iterdir()} | {"table.json", "less.json"}
    words = (
        str(folder / word) if word in named or word.startswith("out-") else word
        for word in line.split()
    )
    return command(*words)
