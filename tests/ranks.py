"""Ranks for tests: one way to start them, one deadline, one kind of failure.

Every rank is a process, forked from one that has imported torch; see ``with_torch`` of
``tests.commands``. There are four ways to say what ranks do:

- ``run_code`` and ``start_rank`` give code or a script to ranks without a launcher;
- ``torchrun`` starts them as torch does;
- ``simulate`` gives a script to simulated chips, as ``ranktable simulate`` does;
- a ``Pool`` is the ranks of one job, which stay and call the functions of many tests.

What does not end by the deadline, and a rank of a pool that dies, is a
``RankFailureError``, which quotes what each process has written.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.metadata
import itertools
import json
import os
import pickle
import re
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.simulate import agent
from ranktable.simulate.requirements import rank_environment
from ranktable.simulate.simulated_run import Run, RunFinding, findings, start_run
from tests.command_server import IMPORTED_FIRST
from tests.commands import Outcome, torch_environment, with_torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.connection import Connection

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "tests" / "simulated"
DEADLINE_S = 150.0
"""Time for a job, a script or a call of a pool, on a machine that does more besides."""
_END_S = 10.0
"""Time for a process to end that was asked to."""
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_FIRST_PORT = 11_000 + 100 * (_WORKER % 80)
_PORTS = itertools.cycle(_FIRST_PORT + (os.getpid() + n) % 100 for n in range(100))
"""Those of this worker; other runs begin with another one of them."""
_OF_GLOO = re.compile(r"^\[Gloo\] Rank .*\n", re.MULTILINE)
"""What gloo of torch 2.8 writes to standard output when it has connected."""
_SAID = re.compile(r"\[\d")
_SERVE = "import sys; from tests.rank_worker import serve; serve(*sys.argv[1:])"
TRAINING = {
    IMPORTED_FIRST: "torch.distributed.fsdp torch.distributed.checkpoint "
    "torch.distributed.pipelining"
}
"""For ranks that train: their server imports first what takes each rank 2.5 seconds.

Such tests have one ``xdist_group``, so that only one server does it.
"""
HEAD = """
import json, os, sys, time
import torch
import torch.distributed as dist
from ranktable.runtime import *

def say(*values):
    sys.stdout.write(json.dumps(values) + "\\n")
"""
"""What comes before the code that ranks are given."""


class RankFailureError(AssertionError):
    """A rank that died, or did not answer or end in time."""


@dataclass(frozen=True)
class Raised:
    """What a rank raised: the name of its type, its message, and where."""

    kind: str
    message: str
    trace: str


class Process:
    """A process of a job; its output goes to files, so it never waits."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        self.name = name
        out, err = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115 - kept
        self._files = (out, err)
        self._process = subprocess.Popen(  # noqa: S603 - the project's own commands
            command, env=env, cwd=ROOT, stdin=stdin, stdout=out, stderr=err
        )

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit status; None where it has not ended in time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self._process.poll()

    def end(self) -> Outcome:
        """End it, unless it has ended, and return how it ended."""
        self._process.terminate()  # a launcher then ends its ranks, too
        self.wait(_END_S)
        self._process.kill()
        status = self._process.wait()
        written = []
        for file in self._files:
            with file:
                file.seek(0)
                written.append(_OF_GLOO.sub("", file.read().decode()))
        return Outcome(status, *written)


def start(
    program: str,
    *arguments: str | Path,
    env: Mapping[str, str],
    name: str | None = None,
    stdin: int = subprocess.DEVNULL,
) -> Process:
    """Start a program that has torch imported, in the project's folder."""
    command = [with_torch() / program, *arguments]
    return Process(name or program, command, env=env, stdin=stdin)


def finish(processes: Sequence[Process]) -> list[Outcome]:
    """Wait for all processes, which have one deadline together.

    Raises:
        RankFailureError: Some did not end; those are ended now.
    """
    end = time.monotonic() + DEADLINE_S
    late = [
        process.name
        for process in processes
        if process.wait(max(0, end - time.monotonic())) is None
    ]
    if late:
        raise failure(f"did not end in {DEADLINE_S:g} s: {', '.join(late)}", processes)
    return [process.end() for process in processes]


def failure(what: str, processes: Sequence[Process]) -> RankFailureError:
    """End processes, and return a failure with what each has written."""
    lines = [what]
    for process in processes:
        status = process.wait(0)
        how = "had not ended" if status is None else f"exit status {status}"
        lines.append(f"--- {process.name}, {how}")
    for process in processes:
        lines += [f"--- {process.name} wrote:", *process.end()[1:]]
    return RankFailureError("\n".join(line for line in lines if line))


def run_program(
    program: str, *arguments: str | Path, env: Mapping[str, str] | None = None
) -> Outcome:
    """Run ``python``, ``torchrun`` or a command of ours to its end."""
    (ended,) = finish([start(program, *arguments, env=env or torch_environment())])
    return ended


def torchrun(script: Path, nproc: int, **env: str) -> Outcome:
    """Run a script on the ranks of one node."""
    options = ["--nproc-per-node", str(nproc), "--standalone"]
    return run_program("torchrun", *options, script, env={**torch_environment(), **env})


def start_rank(
    rank: int, world_size: int, port: int, *what: str | Path, **env: str
) -> Process:
    """Start one rank by hand, without a launcher; ``what`` is for the interpreter."""
    job = job_variables(rank, world_size, port)
    env = {**torch_environment(), **job, **env}
    return start("python", *what, env=env, name=f"rank {rank}")


def start_code(code: str, rank: int, world_size: int, port: int, **env: str) -> Process:
    """Start one rank by hand that runs code below the imports of ``HEAD``."""
    return start_rank(rank, world_size, port, "-c", HEAD + code, **env)


def run_code(
    code: str, world_size: int, *, env: Mapping[str, str] | None = None
) -> list[Outcome]:
    """Run code on all ranks of a job."""
    port, more = free_port(), dict(env or {})
    return finish(
        [start_code(code, rank, world_size, port, **more) for rank in range(world_size)]
    )


def job_variables(rank: int, world_size: int, port: int) -> dict[str, str]:
    """Return what a rank has to know of its job."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def free_port() -> int:
    """Return a free port that no other test is given, and the kernel gives to nobody.

    The kernel takes those of its own connections from 32,768 on.
    """
    while True:
        port = next(_PORTS)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return port


def write_table(folder: Path, chips: Sequence[Sequence[int]]) -> str:
    """Write the table of these chips, a list a node, and return its path."""
    path = folder / "table.json"
    ranktable.dump(make_table(chips), path)
    return str(path)


def chip_environment(folder: Path, run: Run, table: str | None) -> dict[str, str]:
    """Return the environment of ranks on simulated chips."""
    env = rank_environment(
        {**torch_environment(), "PYTHONPATH": str(ROOT)},
        table=table or "",
        of_run=start_run(folder, run),
    )
    return env if table else {n: env[n] for n in env if n != "RANK_TABLE_FILE"}


@dataclass(frozen=True, kw_only=True)
class SimulatedJob:
    """What a job on simulated chips left behind.

    Attributes:
        status: Exit status of what has started the ranks.
        out: What the ranks printed.
        err: What they had to say.
        findings: What they reported.
    """

    status: int
    out: str
    err: str
    findings: list[RunFinding]

    @property
    def said(self) -> list[object]:
        """What each line of JSON says, by the rank it begins with."""
        lines = sorted(line for line in self.out.splitlines() if _SAID.match(line))
        return [json.loads(line) for line in lines]

    @property
    def warnings(self) -> list[str]:
        """The messages of the warnings that were reported."""
        return [found.message for found in self.findings if found.severity == "warning"]

    @property
    def errors(self) -> list[str]:
        """The messages of the errors that were reported."""
        return [found.message for found in self.findings if found.severity == "error"]


def skip_where_no_chips_can_be_simulated() -> None:
    """Skip a test of simulated chips with a torch that is too old for them."""
    version = importlib.metadata.version("torch")
    if tuple(map(int, version.split(".")[:2])) < (2, 10):
        pytest.skip(f"simulated chips need torch 2.10; this is {version}")


def simulate(
    folder: Path,
    script: Path,
    run: Run,
    *arguments: str,
    env: Mapping[str, str] | None = None,
) -> SimulatedJob:
    """Run a script on every chip of a run, which keeps its files in an empty folder."""
    skip_where_no_chips_can_be_simulated()
    table = write_table(folder, run.chips)
    env = {**chip_environment(folder, run, table), **(env or {})}
    job = agent.RankJob(
        node_sizes=tuple(map(len, run.chips)),
        script=str(script),
        arguments=arguments,
        is_module=False,
        keeps_output=False,
        port=free_port(),
    )
    _, *arguments_of_python = agent.write_job(folder, job)
    launcher = start("python", *arguments_of_python, env=env, name="launcher")
    (ended,) = finish([launcher])
    return SimulatedJob(**ended._asdict(), findings=findings(folder))


# NCCL refuses two ranks on one GPU of one host. Ranks that say they are on hosts of
# their own, and talk by TCP, share a GPU, so that one is enough for these tests.
_SHARING_A_GPU = {
    "CUDA_VISIBLE_DEVICES": "0",
    "NCCL_NET": "Socket",
    "NCCL_SOCKET_IFNAME": "lo",
}


@dataclass
class Pool:
    """The ranks of one job, which start with the first call and are kept.

    What a test wants done is a function at the top of a module, which every rank calls;
    only a real answer of every rank is a success. Ranks that fail are replaced.

    Attributes:
        backend: ``gloo``, ``sccl``, ``nccl``, in checking mode ``gloo:check``; ``none``
            for one process without a process group.
        world_size: Number of ranks; 0 without a process group.
    """

    backend: str
    world_size: int
    _ranks: list[Process] = field(default_factory=list)
    _pipes: list[Connection] = field(default_factory=list)
    _folder: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def call(
        self,
        function: Callable[..., Any],
        *arguments: object,
        env: Mapping[str, str] | None = None,
        timeout_s: float = DEADLINE_S,
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
        self, function: Callable[..., Any], *arguments: object, **how: Any
    ) -> list[Any]:
        """Return what ``call`` returns; no rank may raise."""
        answers = self.call(function, *arguments, **how)
        self._check(function.__name__, answers)
        return answers

    def stop(self) -> None:
        """End the ranks; a later call starts others."""
        for rank in self._ranks:
            rank.end()
        for pipe in self._pipes:
            pipe.close()
        self._ranks, self._pipes = [], []
        self._folder.close()

    def __str__(self) -> str:
        """Return what to call it."""
        return f"{self.backend}-{self.world_size}"

    def _start(self) -> None:
        if self._ranks:
            return
        if self.backend.startswith("sccl"):
            skip_where_no_chips_can_be_simulated()  # before a folder that is left open
        folder = Path(self._folder.enter_context(tempfile.TemporaryDirectory()))
        backend = "" if self.backend == "none" else self.backend.partition(":")[0]
        for env in self._environments(folder):
            name = f"rank {len(self._ranks)} of {self}"
            ours, theirs = Pipe()
            with theirs:
                rank = start(
                    *("python", "-c", _SERVE, backend),
                    env=env,
                    name=name,
                    stdin=theirs.fileno(),
                )
            self._ranks.append(rank)
            self._pipes.append(ours)
        self._check("init_dist", self._answers("init_dist", DEADLINE_S))

    def _environments(self, folder: Path) -> list[dict[str, str]]:
        env = torch_environment()
        if self.world_size == 0:
            return [env]
        if self.backend.startswith("sccl"):
            chips = tuple(range(self.world_size))
            run = Run(chips=(chips,), timeout_s=30)
            env = chip_environment(folder, run, write_table(folder, run.chips))
        elif self.backend == "nccl":
            env = {**env, **_SHARING_A_GPU}
        node = {
            "LOCAL_WORLD_SIZE": str(self.world_size),
            "GROUP_RANK": "0",
            "TORCHELASTIC_RUN_ID": "1",  # by which a process of torchrun is known
        }
        if self.backend.endswith(":check"):
            env["RANKTABLE_DIST_CHECK"] = "1"
        port = free_port()
        return [
            {
                **env,
                **node,
                **job_variables(rank, self.world_size, port),
                "LOCAL_RANK": str(rank),
                "NCCL_HOSTID": f"host of rank {rank}",
            }
            for rank in range(self.world_size)
        ]

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
                    status = self._ranks[rank].wait(_END_S)
                    lost[rank] = f"ended with exit status {status}"
                else:
                    answers[rank] = pickle.loads(said)  # noqa: S301 - our own
                    missing.discard(rank)
        if lost:
            names = [f"rank {rank} of {self} {how}" for rank, how in lost.items()]
            raise self._failure([f"{what}: {'; '.join(names)}", *self._traces(answers)])
        return [answers[rank] for rank in range(len(self._pipes))]

    def _check(self, what: str, answers: Sequence[Any]) -> None:
        """Raise a failure, and end the ranks, if a rank raised."""
        if traces := self._traces(dict(enumerate(answers))):
            raise self._failure([f"{what}:", *traces])

    def _traces(self, answers: Mapping[int, Any]) -> list[str]:
        return [
            f"rank {rank} of {self}:\n{each.trace}"
            for rank, each in answers.items()
            if isinstance(each, Raised)
        ]

    def _failure(self, lines: Sequence[str]) -> RankFailureError:
        ranks, self._ranks = self._ranks, []
        failed = failure("\n".join(lines), ranks)
        self.stop()
        return failed


_pools: dict[tuple[str, int], Pool] = {}


def pool(backend: str, world_size: int) -> Pool:
    """Return the ranks of a backend and a world size; they start with their first call.

    Where there is no hardware for them the test is skipped.
    """
    if backend == "nccl":
        import torch

        if not torch.cuda.is_available():
            pytest.skip("nccl needs a CUDA device, there is none")
    return _pools.setdefault((backend, world_size), Pool(backend, world_size))


def stop_all() -> None:
    """End the ranks of all pools."""
    for each in _pools.values():
        each.stop()


def named(name: str) -> Pool:
    """Return a pool by its name."""
    backend, _, world_size = name.rpartition("-")
    return pool(backend, int(world_size))
