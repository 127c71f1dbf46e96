"""Real processes for tests of ``ranktable.dist``, which are started once and reused.

A pool is the ranks of one job. What a test wants done is a function at the top of a
module, which every rank calls; only a real answer of every rank is a success. A rank
that dies or does not answer fails the test by its number, and the pool is replaced.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ranktable.cluster.generate import make_table
from ranktable.schema.writing import dump
from ranktable.simulate.requirements import rank_environment
from ranktable.simulate.simulated_run import Run, start_run
from tests.dist_worker import Raised, serve
from tests.simulated_ranks import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess

CALL_TIMEOUT_S = 60.0
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")


class RankFailureError(AssertionError):
    """A rank that died, or did not answer."""


@dataclass
class Pool:
    """The ranks of one job.

    Attributes:
        backend: ``gloo``, ``sccl``, ``sccl:doc``, ``nccl``; ``none`` for one process
            without a process group.
        world_size: Number of ranks; 0 without a process group.
    """

    backend: str
    world_size: int
    _processes: list[ForkServerProcess] = field(default_factory=list)
    _pipes: list[Connection] = field(default_factory=list)
    _folder: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def call(
        self,
        function: Callable[..., Any],
        *arguments: object,
        env: Mapping[str, str] | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
        is_last: bool = False,
    ) -> list[Any]:
        """Return what a function returns on each rank, or the ``Raised`` of a rank.

        Args:
            function: At the top of a module.
            arguments: What it gets, the same on every rank.
            env: More variables, for this call only.
            timeout_s: Time for all to answer.
            is_last: Whether the ranks cannot be used any more afterwards.
        """
        self._start()
        asked = (function.__module__, function.__name__, arguments, env or {})
        for pipe in self._pipes:
            pipe.send_bytes(pickle.dumps(asked))
        answers = self._answers(function.__name__, timeout_s)
        if is_last:
            self.stop()
        return answers

    def returned(
        self,
        function: Callable[..., Any],
        *arguments: object,
        env: Mapping[str, str] | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
        is_last: bool = False,
    ) -> list[Any]:
        """Return what a function returns on each rank; none may raise."""
        answers = self.call(
            function, *arguments, env=env, timeout_s=timeout_s, is_last=is_last
        )
        raised = [each for each in answers if isinstance(each, Raised)]
        if raised:
            self.stop()
            traces = [
                f"rank {rank} of {self}:\n{each.trace}"
                for rank, each in enumerate(answers)
                if isinstance(each, Raised)
            ]
            raise AssertionError("\n".join(traces))
        return answers

    def stop(self) -> None:
        """End the ranks; a later call starts others."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        self._processes, self._pipes = [], []
        self._folder.close()

    def __str__(self) -> str:
        """Return what to call it."""
        return f"{self.backend}-{self.world_size}"

    def _start(self) -> None:
        if self._processes:
            return
        folder = Path(self._folder.enter_context(tempfile.TemporaryDirectory()))
        backend = None if self.backend == "none" else self.backend.partition(":")[0]
        context = _context()
        for env in self._environments(folder):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, env, backend))
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)
        problems = [
            each.trace
            for each in self._answers("init_dist", CALL_TIMEOUT_S)
            if isinstance(each, Raised)
        ]
        if problems:
            self.stop()
            raise RankFailureError("\n".join([f"{self} did not start", *problems]))

    def _environments(self, folder: Path) -> list[dict[str, str]]:
        env = {name: os.environ[name] for name in _KEPT if name in os.environ}
        env |= {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        if self.world_size == 0:
            return [env]
        if self.backend.startswith("sccl"):
            chips = tuple(range(self.world_size))
            profile = "doc" if self.backend.endswith(":doc") else "source"
            run = Run(chips=(chips,), profile=profile, timeout_s=30)  # type: ignore[arg-type]
            table = folder / "rank_table.json"
            dump(make_table([list(chips)]), table)
            of_run = start_run(folder, run)
            env = rank_environment(
                env, vendor="sophgo", table=str(table), of_run=of_run
            )
        size = str(self.world_size)
        job = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "WORLD_SIZE": size,
            "LOCAL_WORLD_SIZE": size,
            "GROUP_RANK": "0",
            "TORCHELASTIC_RUN_ID": "1",  # by which a process of torchrun is known
        }
        ranks = map(str, range(self.world_size))
        return [{**env, **job, "RANK": rank, "LOCAL_RANK": rank} for rank in ranks]

    def _answers(self, what: str, timeout_s: float) -> list[Any]:
        """Return an answer of each rank.

        Raises:
            RankFailureError: A rank gave none; the pool is gone then.
        """
        answers: dict[int, Any] = {}
        end = time.monotonic() + timeout_s
        missing = set(range(len(self._pipes)))
        lost: dict[int, str] = {}
        while missing and not lost:
            left = end - time.monotonic()
            ready = wait([self._pipes[rank] for rank in missing], max(0.0, left))
            if not ready:
                lost = dict.fromkeys(missing, f"gave no answer within {timeout_s:g} s")
            for rank in sorted(missing):
                if self._pipes[rank] not in ready:
                    continue
                try:
                    said = self._pipes[rank].recv_bytes()
                except (EOFError, OSError):
                    self._processes[rank].join()
                    status = self._processes[rank].exitcode
                    lost[rank] = f"ended with exit status {status}"
                else:
                    answers[rank] = pickle.loads(said)  # noqa: S301 - our own
                    missing.discard(rank)
        if lost:
            self.stop()
            said_so_far = {
                rank: answer.trace if isinstance(answer, Raised) else "answered"
                for rank, answer in answers.items()
            }
            names = [f"rank {rank} of {self} {how}" for rank, how in lost.items()]
            raise RankFailureError(f"{what}: {'; '.join(names)}; others: {said_so_far}")
        return [answers[rank] for rank in range(len(self._pipes))]


def _context() -> multiprocessing.context.ForkServerContext:
    """Return what forks ranks from one process that has imported torch."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.dist_worker"])
    return context


_pools: dict[tuple[str, int], Pool] = {}


def pool(backend: str, world_size: int) -> Pool:
    """Return the ranks of a backend and a world size; they start with their first call.

    Where there is no hardware for them the test is skipped.
    """
    if backend == "nccl":
        import torch  # noqa: PLC0415 - only here

        found = torch.cuda.device_count()
        if found < world_size:
            pytest.skip(f"nccl needs {world_size} CUDA devices, there are {found}")
    return _pools.setdefault((backend, world_size), Pool(backend, world_size))


def stop_all() -> None:
    """End the ranks of all pools."""
    for each in _pools.values():
        each.stop()


def named(name: str) -> Pool:
    """Return a pool by its name."""
    backend, _, world_size = name.rpartition("-")
    return pool(backend, int(world_size))


@contextlib.contextmanager
def forking() -> Iterator[None]:
    """Start what ranks are forked from, with the variables that torch reads."""
    before = dict(os.environ)
    os.environ.update(OMP_NUM_THREADS="1", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    _context()
    forkserver.ensure_running()
    os.environ.clear()
    os.environ.update(before)
    yield
