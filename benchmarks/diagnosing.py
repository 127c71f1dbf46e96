"""``ranktable doctor`` on a large log, beside ``grep -E`` that finds the same lines."""

from __future__ import annotations

import random
import re
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.budgets import LOGS, LONG_LOGS, Result
from benchmarks.measure import command, in_turn
from benchmarks.results import beside
from ranktable.doctor.patterns import patterns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.budgets import Scale
    from benchmarks.measure import Bench

RANKS = 64
FAILURE = (
    "[rank1]:[E105 06:15:00.101 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=4, "
    "NumelOut=4, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.\n"
)


def measure_diagnosing(bench: Bench, scale: Scale) -> Iterator[Result]:
    """Yield the results on ordinary logs, and on those that are evidence throughout."""
    alternatives = bench.folder / "alternatives"
    alternatives.write_text("\n".join(expressions()), "ascii")
    sizes = dict.fromkeys(LOGS, scale.log_mib << 20)
    sizes |= dict.fromkeys(LONG_LOGS, scale.log_mib << 17)
    for kind, size in sizes.items():
        log = bench.folder / f"{kind}.log"
        write_log(log, kind, size)
        grep = ["grep", "-E", "-a", "-c", "-f", str(alternatives), str(log)]
        jobs = {
            "ours": partial(bench.command, command("doctor", str(log)), status=1),
            "grep": partial(bench.command, grep),
        }
        costs = in_turn(jobs, scale.commands)
        ours, rival = costs["ours"], costs["grep"]
        yield beside(f"doctor {kind}", ours, rival, "grep -E")
        yield Result(
            key=f"doctor {kind} memory",
            figure=ours.peak_bytes / 1e3,
            ours=f"{ours.peak_bytes / 1e6:.0f} MB",
            rival=f"grep -E {rival.peak_bytes / 1e6:.0f} MB",
        )


def expressions() -> Iterator[str]:
    """Yield the text that each kind of message has, as grep writes it.

    The whole expressions of the messages would be no rival: grep takes a hundred times
    as long with them, because together they have too many states.
    """
    for pattern in patterns():
        for key in pattern.keys:
            yield re.sub(r"[][\\.^$*+?(){}|]", r"\\\g<0>", key)


def write_log(path: Path, kind: str, size: int) -> None:
    """Write a log of a job that runs well until its last line."""
    made = random.Random(1)  # noqa: S311 - the same log each time
    lines = "".join(_line(made, kind, step) for step in range(20_000))
    with path.open("w", encoding="utf-8") as file:
        for _ in range(size // len(lines)):
            file.write(lines)
        file.write(FAILURE)


def _line(made: random.Random, kind: str, step: int) -> str:
    rank, part = made.randrange(RANKS), made.random()
    if kind == "calls":
        return (
            f"n{rank // 8}:{rank}:9{rank} [{rank % 8}] NCCL INFO AllReduce: opCount "
            f"{step:x} sendbuff 0x7f{step:06x} recvbuff 0x7f00 count 1024 datatype 7 "
            f"op 0 root 0 comm 0x55{rank} [nranks={RANKS}] stream 0x5566\n"
        )
    if kind == "tracebacks":
        frames = "".join(f'  File "/w/t{at}.py", line {at}, in f\n    g()\n'
                         for at in range(rank % 8))  # fmt: skip
        return (
            f"Traceback (most recent call last):\n{frames}ValueError: sample {step}\n"
        )
    if kind == "torch" or part < 0.6:
        return (
            f"[rank{rank}]: 2026-01-05 10:{step % 60:02}:{step % 59:02},123 INFO step "
            f"{step} loss {made.random():.4f} tokens/s {made.random() * 1e4:.1f}\n"
        )
    if part < 0.8:
        return (
            f"[INFO] HCCL({800 + rank},python3):2026-01-24-11:24:07.476.916 [hccl.cc:9]"
            f" [7] AllReduce tag[x] count[{step}] dataType[3] stream[0x{step:x}]\n"
        )
    return (
        f"node{rank}:946:988 [{rank % 8}] NCCL INFO Channel {step % 24}/0 : {rank} -> "
        f"{rank + 1} via P2P/CUMEM/read\n"
    )
