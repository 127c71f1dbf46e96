"""Draws jobs that fail, and healthy ones, with the logs that they would leave.

Ranks, hosts, the culprit, how it fails, what the others say then, and which logs were
given. The texts are those of libraries and launchers; nothing of ``doctor`` is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

PATH = "torch/distributed/elastic/multiprocessing/api.py"
RAISED = (
    "ValueError: bad row 9", "KeyError: 'mask'", "AssertionError: loss is nan",
    "FileNotFoundError: [Errno 2] No such file or directory: '/d/9.pt'",
    "IndexError: list index out of range", "RuntimeError: shapes differ in layer 3",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "torch.AcceleratorError: CUDA error: device-side assert triggered",
    "OSError: [Errno 28] No space left on device: '/out/9.pt'",
)  # fmt: skip
KINDS = ("raises", "killed", "crashes", "memory", "chip", "silent", "behind", "shape")


@dataclass(frozen=True)
class Job:
    """A job and its logs.

    Attributes:
        size: Number of ranks.
        culprit: The rank by which it fails, None if it is healthy.
        kind: How it fails.
        logs: Lines of the processes, by the name of the log.
        agents: Lines of launchers and kernels, by the name of the log.
        ranks_of: The ranks of each log.
    """

    size: int
    culprit: int | None
    kind: str
    logs: dict[str, list[str]]
    agents: dict[str, list[str]]
    ranks_of: dict[str, set[int]]

    def files(self, without: set[str] | None = None) -> dict[str, str]:
        """Return what the files say, without some of them."""
        return {
            name: "\n".join(lines) + "\n"
            for name, lines in {**self.logs, **self.agents}.items()
            if name not in (without or set()) and lines
        }


def waits(rank: int, seq: int = 412, numel: int = 64) -> list[str]:
    """Return what the watchdog of a rank says."""
    return [
        (
            f"[rank{rank}]:[E1105 14:20:{rank:02}.1 ProcessGroupNCCL.cpp:632] "
            f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL("
            f"SeqNum={seq}, OpType=ALLREDUCE, NumelIn={numel}, NumelOut={numel}, "
            "Timeout(ms)=600000) ran for 600037 milliseconds before timing out."
        )
    ]


def raises(rank: int, *errors: str) -> list[str]:
    """Return a traceback of a rank."""
    lines = ("Traceback (most recent call last):", '  File "/job/fit.py", line 7, in f',
             "    loss = step(batch)", *errors)  # fmt: skip
    return [f"[rank{rank}]: {line}" for line in lines]


def loses(rank: int, way: int) -> list[str]:
    """Return what a rank says that lost another."""
    nccl = (
        "torch.distributed.DistBackendError: NCCL error in: /p/u.cpp:93, remote process"
        " exited or there was a network error, NCCL version 2.28.9"
    )
    ways = (
        ("RuntimeError: [/b/pair.cc:553] Connection closed by peer [10.0.0.8]:4011",),
        ("ConnectionResetError: [Errno 104] Connection reset by peer",),
        (f"RuntimeError: NCCL communicator was aborted on rank {rank}.",),
        (nccl, "ncclRemoteError: A call failed", "Last error:",
         "socketProgress: Connection closed by remote peer "),
    )  # fmt: skip
    return waits(rank) if way == len(ways) else raises(rank, *ways[way])


def draw(random: Random, *, is_healthy: bool = False) -> Job:
    """Return a job of up to sixteen ranks."""
    size = random.choice([2, 4, 8, 16])
    per_host = min(size, random.choice([2, 4, 8]))
    culprit = None if is_healthy else random.randrange(size)
    kind = "healthy" if is_healthy else random.choice(KINDS)
    lines = {
        rank: [f"[rank{rank}]: step {i} loss 2.{i}" for i in range(6)]
        for rank in range(size)
    }
    agents: dict[str, list[str]] = {}
    if culprit is None:
        _goes_well(random, lines)
    else:
        _fails(random, kind, culprit, lines)
        agents = _told_of(kind, culprit, size, per_host)
    style = random.choice(["rank", "host", "job"])
    logs: dict[str, list[str]] = {}
    ranks_of: dict[str, set[int]] = {}
    for rank, said in lines.items():
        host = f"hx{rank // per_host}"
        name = {"rank": f"rank_{rank}.log", "host": f"{host}.log", "job": "job.log"}
        logs.setdefault(name[style], []).extend(said)
        ranks_of.setdefault(name[style], set()).add(rank)
    return Job(size, culprit, kind, logs, agents, ranks_of)


def _goes_well(random: Random, lines: dict[int, list[str]]) -> None:
    """Let ranks overcome errors of all sorts, and go on."""
    for rank in lines:
        error = random.choice([
            raises(rank, random.choice(RAISED)),
            [f"[rank{rank}]: 2026-11-05 14:20:00 ERROR GET failed, trying again"],
            raises(rank, "ConnectionResetError: [Errno 104] Connection reset by peer"),
            [],
        ])  # fmt: skip
        later = [f"[rank{rank}]: step {i} loss 1.{i}" for i in range(6, 12)]
        lines[rank] += [*error, *later]
    lines[0].append("[rank0]: training finished")


def _fails(
    random: Random, kind: str, culprit: int, lines: dict[int, list[str]]
) -> None:
    own = {
        "raises": raises(culprit, random.choice(RAISED)),
        "chip": [(
            f"[rank{culprit}]:[E1105 14:20:00.1 ProcessGroupNCCL.cpp:1515] [PG 0 "
            f"(default_pg) Rank {culprit}] Process group watchdog thread terminated "
            "with exception: CUDA error: uncorrectable ECC error encountered"
        )],
        "behind": [(
            f"[rank{culprit}]:[E1105 14:20:01.1 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG "
            f"GUID 0(default_pg) Rank {culprit}] Received a dump signal due to a "
            "collective timeout from rank 0 and we will try our best. Last enqueued "
            "NCCL work: 411, last completed NCCL work: 411."
        )],
        "shape": waits(culprit, numel=99),
    }  # fmt: skip
    lines[culprit] += own.get(kind, [])
    is_waiting = kind in ("silent", "behind", "shape")
    for rank in set(lines) - {culprit}:
        lines[rank] += waits(rank) if is_waiting else loses(rank, random.randrange(4))


def _told_of(kind: str, culprit: int, size: int, per_host: int) -> dict[str, list[str]]:
    """Return what the launcher and the kernel say of the culprit."""
    status = {"killed": -9, "crashes": -11, "memory": -9}.get(kind)
    if status is None:
        return {}
    number = culprit // per_host
    host, pid = f"hx{number}", 1000 + culprit
    first = number * per_host
    others = [r for r in range(first, min(first + per_host, size)) if r != culprit]
    local = culprit % per_host
    agent = [
        f"W1105 14:20:05.1 70 {PATH}:908] Sending process {1000 + rank} closing signal "
        "SIGTERM" for rank in others
    ]  # fmt: skip
    agent += [
        (f"E1105 14:20:06.1 70 {PATH}:882] failed (exitcode: {status}) local_rank: "
        f"{local} (pid: {pid}) of binary: /v/bin/python"),
        "Root Cause (first observed failure):", "[0]:",
        "  time      : 2026-11-05_14:20:06", f"  host      : {host}",
        f"  rank      : {culprit} (local_rank: {local})",
        f"  exitcode  : {status} (pid: {pid})", "  error_file: <N/A>",
    ]  # fmt: skip
    kernel = f"[99.1] Memory cgroup out of memory: Killed process {pid} (python3) x:9kB"
    logs = {f"{host}-agent.log": agent}
    return {**logs, f"{host}-dmesg.log": [kernel]} if kind == "memory" else logs
