"""The job of ``benchmarks.simulating``: one rank of it, started by torchrun.

    simulated_job.py start                add up once
    simulated_job.py time FILE ROUNDS     time all_reduce, both kinds in one job
    simulated_job.py train FILE N STEPS   see memory after N steps, and after STEPS more

It runs on simulated chips; ``start-gloo`` and ``train-gloo`` do the same on CPUs.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Sequence

RANK, WORLD_SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
CALLS = {1: 50, 1 << 24: 1}
"""How often an all_reduce of so many elements is called to be timed once."""


def join() -> torch.device:
    """Join a simulated group, as the script of SOPHGO's manual does."""
    torch_tpu = importlib.import_module("torch_tpu")
    chip_map = torch_tpu.tpu.read_rank_table()
    torch_tpu.tpu.set_device(chip_map[RANK])
    options = torch_tpu.ProcessGroupSCCLOptions()
    options.chip_map = chip_map
    dist.init_process_group(
        backend="sccl", rank=RANK, world_size=WORLD_SIZE, pg_options=options
    )
    return torch.device(f"tpu:{chip_map[RANK]}")


def start(device: torch.device) -> None:
    """Add up the ones of all ranks."""
    tensor = torch.ones(4).to(device)
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
    if tensor.cpu().tolist() != [WORLD_SIZE] * 4:
        sys.exit("the sum is wrong")


def times(device: torch.device, rounds: int) -> dict[str, list[float]]:
    """Return the times of each all_reduce, a list of rounds.

    Both kinds are timed in turn and in the same processes, so that whatever else the
    machine does hits both.
    """
    gloo = dist.new_group(backend="gloo")
    kinds = {"sccl": (device, dist.group.WORLD), "gloo": (torch.device("cpu"), gloo)}
    found: dict[str, list[float]] = {}
    for elements, calls in CALLS.items():
        tensors = {
            kind: torch.zeros(elements).to(at) for kind, (at, _) in kinds.items()
        }
        for number in range(rounds + 1):
            for kind, (_, group) in kinds.items():
                dist.barrier(gloo)
                begin = time.perf_counter()
                for _ in range(calls):
                    dist.all_reduce(tensors[kind], group=group)
                took_s = (time.perf_counter() - begin) / calls
                if number > 0:  # the first makes connections and touches memory
                    found.setdefault(f"{kind} {elements}", []).append(took_s)
    return found


def growth(device: torch.device, before: int, steps: int) -> dict[str, list[float]]:
    """Return by how much a training rank has grown, after its first steps."""
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    sizes = []
    for count in (before, steps):
        for _ in range(count):
            optimizer.zero_grad()
            model(torch.randn(128, 256).to(device)).square().mean().backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
            optimizer.step()
        gc.collect()
        sizes.append(_resident_bytes())
    return {"growth_bytes": [sizes[1] - sizes[0]]}


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(arguments: Sequence[str]) -> None:
    """Do what the arguments say; rank 0 writes what it has measured."""
    what, *rest = arguments
    if what.endswith("-gloo"):
        dist.init_process_group("gloo")
        device = torch.device("cpu")
    else:
        device = join()
    if what.startswith("start"):
        start(device)
    else:
        measure = times if what == "time" else growth
        found = measure(device, *map(int, rest[1:]))
        if RANK == 0:
            Path(rest[0]).write_text(json.dumps(found), encoding="ascii")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
