"""CPU time and peak memory of fresh processes, ours and the rival's in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

ROOT = Path(__file__).parent.parent
CALLS_AFTER_FIRST = 5
_KIB = 1024
_SHOWN_BYTES = 4000


class BenchmarkError(Exception):
    """What was to be measured did something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What something cost.

    Attributes:
        cpu_s: CPU seconds, user and system.
        peak_bytes: Peak memory: of the whole process for a command, over that of the
            interpreter and its modules for a call.
        first_s: CPU seconds of the first call of the process.
        output_bytes: Size of what a command wrote to standard output.
    """

    cpu_s: float
    peak_bytes: int
    first_s: float = 0
    output_bytes: int = 0

    def lowest(self, other: Cost) -> Cost:
        """Return the lower of every figure.

        Other work on the machine only ever adds to a CPU time, so the minimum is the
        figure that repeats.
        """
        return Cost(
            cpu_s=min(self.cpu_s, other.cpu_s),
            peak_bytes=min(self.peak_bytes, other.peak_bytes),
            first_s=min(self.first_s, other.first_s),
            output_bytes=min(self.output_bytes, other.output_bytes),
        )


class Bench:
    """Starts the processes that are measured."""

    def __init__(self, folder: Path) -> None:
        """Keep the folder for temporary files."""
        self.folder = folder
        # A bytecode cache of our own: a checkout may have none, or be told to write
        # none, and would then compile its modules at every start; the rival, which
        # came from an index, would not.
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            "NO_COLOR": "1",
        }

    def call(self, name: str, path: Path, calls: int = CALLS_AFTER_FIRST) -> Cost:
        """Return what a call of ``benchmarks.calls`` costs in a fresh process."""
        done = subprocess.run(  # noqa: S603 - our own module
            [sys.executable, "-m", "benchmarks.worker", name, str(path), str(calls)],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            check=True,
        )
        found = json.loads(done.stdout)
        return Cost(
            cpu_s=found["best_s"],
            first_s=found["first_s"],
            peak_bytes=found["peak_bytes"],
        )

    def command(self, arguments: Sequence[str], *, status: int = 0) -> Cost:
        """Return what a command costs.

        Raises:
            BenchmarkError: Its exit status is another one.
        """
        with (
            tempfile.TemporaryFile(dir=self.folder) as output,
            tempfile.TemporaryFile(dir=self.folder) as errors,
        ):
            process = subprocess.Popen(  # noqa: S603 - ours and the rival's commands
                arguments, cwd=ROOT, env=self.environment, stdout=output, stderr=errors
            )
            # wait4 gives the use of this one child; the peak of a child is at least
            # that of its parent, so this process keeps no table in its memory.
            _, state, use = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(state)
            size = output.seek(0, os.SEEK_END)
            errors.seek(max(errors.seek(0, os.SEEK_END) - _SHOWN_BYTES, 0))
            said = errors.read().decode(errors="replace")
        if process.returncode != status:
            shown = " ".join(arguments)[:_SHOWN_BYTES]
            raise BenchmarkError(
                f"{shown}: exit status {process.returncode}, not {status}\n{said}"
            )
        return Cost(
            cpu_s=use.ru_utime + use.ru_stime,
            peak_bytes=use.ru_maxrss * _KIB,
            output_bytes=size,
        )


def script(name: str) -> str:
    """Return the path of a command of this environment."""
    return str(Path(sysconfig.get_path("scripts")) / name)


def command(*arguments: str) -> list[str]:
    """Return a command of ours."""
    return [script("ranktable"), *arguments]


def in_turn(jobs: Mapping[str, Callable[[], Cost]], repeats: int) -> dict[str, Cost]:
    """Return the lowest cost of every job, measured in turn so that noise hits all."""
    costs: dict[str, list[Cost]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            costs[name].append(job())
    return {name: lowest(found) for name, found in costs.items()}


def lowest(costs: Iterable[Cost]) -> Cost:
    """Return the lowest of every figure."""
    first, *others = costs
    for cost in others:
        first = first.lowest(cost)
    return first
