"""The job of ``benchmarks.collectives``: one rank of it, started by torchrun.

collective_job.py FILE ROUNDS STEPS     write the times of rank 0, ours and the rivals'
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as plain

from ranktable import dist
from ranktable.runtime.torch_versions import reduce_scatter_single

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Calls = Mapping[str, Callable[[], object]]

mmengine = importlib.import_module("mmengine.dist")  # it has no types

CALLS = {4 << 10: (20, 8), 1 << 20: (5, 8), 64 << 20: (1, 2)}
"""How often a collective of so many bytes is called to be timed once, and how often
that is done in a round: from turn to turn two ranks on a busy machine differ by a
fifth, so it takes many turns to tell a twentieth."""

SHAPES = 100
RESULTS = 100_000
PARTS = 4 << 20
LAYERS = [torch.randn(640, 640) for _ in range(8)]


def times(
    calls: Calls,
    rounds: int,
    count: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Return the seconds of a call of each kind, a list of rounds.

    All are timed in turn and in the same processes, so that whatever else the machine
    does hits all; every other round backwards, so that none always follows another.
    """
    found: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in sorted(calls.items(), reverse=number % 2 > 0):
            plain.barrier()
            begin = clock()
            for _ in range(count):
                call()
            took_s = (clock() - begin) / count
            if number > 0:  # the first makes connections and touches memory
                found[name].append(took_s)
    return found


def overhead(rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the times of an all_reduce, of ours and of torch's."""
    found = {}
    for size, (count, turns) in CALLS.items():
        data = torch.zeros(size // 4)
        calls = {
            "ours": lambda data=data: dist.all_reduce(data),
            "torch": lambda data=data: plain.all_reduce(data),
        }
        found[f"all_reduce {size}"] = times(calls, turns * rounds, count)
    return found


def small(rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the CPU times of small calls, of ours and of torch's.

    Nearly all of such a call is waiting, which differs by more than what we add: that
    is CPU time of the thread that calls.
    """
    one, some = torch.zeros(1), torch.zeros(256)
    reduce_scatter = reduce_scatter_single()

    def gathered() -> None:
        plain.all_gather([torch.empty_like(some) for _ in range(2)], some)

    calls: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "all_reduce": (lambda: dist.all_reduce(one), lambda: plain.all_reduce(one)),
        "broadcast": (lambda: dist.broadcast(one), lambda: plain.broadcast(one, 0)),
        "all_gather": (lambda: dist.all_gather(some), gathered),
        "reduce_scatter": (
            lambda: dist.reduce_scatter(some),
            lambda: reduce_scatter(some.new_empty(128), some),
        ),
    }
    return {
        f"small {name}": times(
            {"ours": ours, "torch": theirs}, 2 * rounds, 100, time.thread_time
        )
        for name, (ours, theirs) in calls.items()
    }


def parameters() -> list[torch.Tensor]:
    """Return 300 tensors of a model: three types, many sizes, 40 MB in all."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(16, 60_000, (300,), generator=generator).tolist()
    kinds = (torch.float32, torch.float32, torch.float64, torch.int64)
    return [
        torch.ones(size, dtype=kinds[place % len(kinds)])
        for place, size in enumerate(sizes)
    ]


def step(*, is_overlapped: bool) -> None:
    """Compute the layers of a step, and the mean of what each gives."""
    works = []
    for layer in LAYERS:
        gradient = layer @ layer
        if is_overlapped:
            works.append(dist.all_reduce(gradient, "mean", async_op=True))
        else:
            dist.all_reduce(gradient, "mean")
    for work in works:
        work.wait()


def growth(steps: int) -> tuple[int, float]:
    """Return how many keys and kilobytes collectives of a hundred shapes leave."""
    from torch.distributed.distributed_c10d import _get_default_store

    def reduce(count: int) -> tuple[int, int]:
        for step in range(count):
            dist.all_reduce(torch.ones(step % SHAPES + 1))
        plain.barrier()
        time.sleep(1)  # the last one to hear a verdict removes it
        resident = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return _get_default_store().num_keys(), int(resident)

    before_keys, before = reduce(SHAPES)
    after_keys, after = reduce(steps)
    return after_keys - before_keys, (after - before) * os.sysconf("SC_PAGE_SIZE") / 1e3


def main() -> None:
    """Write what was measured."""
    file, rounds = Path(sys.argv[1]), int(sys.argv[2])
    dist.init_dist("pytorch", backend="gloo")
    rank = dist.get_rank()
    found: dict[str, object] = {**overhead(rounds), **small(rounds)}
    found["growth"] = growth(int(sys.argv[3]))
    ours, theirs = parameters(), parameters()
    few = max(rounds // 3, 1)
    found["all_reduce_params"] = times(
        {
            "ours": lambda: dist.all_reduce_params(ours),
            "mmengine": lambda: mmengine.all_reduce_params(theirs),
        },
        few,
    )
    results = [{"id": rank + 2 * each, "score": 0.5} for each in range(RESULTS // 2)]
    found["collect_results"] = times(
        {
            "ours": lambda: dist.collect_results(results, RESULTS),
            "mmengine": lambda: mmengine.collect_results(results, RESULTS),
        },
        few,
    )
    found["overlap"] = times(
        {
            "ours": lambda: step(is_overlapped=True),
            "one after the other": lambda: step(is_overlapped=False),
        },
        rounds,
    )
    data = torch.ones(PARTS // 4)
    output = torch.empty(data.numel() // 2)
    found["reduce_scatter"] = times(
        {
            "ours": lambda: dist.reduce_scatter(data),
            "gloo": lambda: reduce_scatter_single()(output, data),
        },
        rounds,
    )
    if rank == 0:
        file.write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()


if __name__ == "__main__":
    main()
