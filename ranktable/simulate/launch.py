"""Start a simulated run, wait for it, and return its outcome."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ranktable.schema.writing import dump
from ranktable.simulate import agent, processes
from ranktable.simulate.processes import free_port
from ranktable.simulate.requirements import rank_environment
from ranktable.simulate.simulated_run import RunFinding, findings, restarts, start_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ranktable.simulate.simulation import Simulation

_TABLE = "rank_table.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The outcome of a run.

    Attributes:
        findings: All findings, in the order in which they were found.
        signum: The signal that ended it, None if none did.
    """

    findings: tuple[RunFinding, ...]
    signum: int | None = None

    @property
    def errors(self) -> list[RunFinding]:
        """The findings that make the run fail."""
        return [found for found in self.findings if found.severity == "error"]


def launch(plan: Simulation, folder: Path, signals: Sequence[int]) -> RunOutcome:
    """Run a plan to its end.

    Args:
        plan: What to start.
        folder: The folder of ``run_folder``.
        signals: The signals that the launcher receives; they are passed on.
    """
    env = rank_environment(
        os.environ,
        table=_table_file(plan, folder),
        of_run=start_run(folder, plan.run),
    )
    sys.stdout.flush()
    process = processes.start(_command(plan, folder), env)
    try:
        processes.wait(process, folder, signals)
    finally:
        processes.end(process, folder)
    found = findings(folder)
    if signals:
        return RunOutcome(findings=tuple(found), signum=signals[0])
    if process.returncode == 0:
        # A job that torchrun has restarted until it succeeded did succeed.
        found = [each for each in found if each.attempt == restarts(folder)]
    outcome = RunOutcome(findings=tuple(found))
    if outcome.errors:
        return outcome  # a rank has reported the cause; the exit status adds nothing
    ended = _ended(process.returncode, folder)
    return replace(outcome, findings=(*outcome.findings, *ended))


def printed(folder: Path, world_size: int) -> list[str]:
    """Return what each rank has printed to standard output, by rank."""
    files = (agent.output_of(folder, rank) for rank in range(world_size))
    return [file.read_text(errors="replace") for file in files]


def _table_file(plan: Simulation, folder: Path) -> str:
    """Return the absolute path of the table, which is written if it has no file."""
    if plan.table_file is not None:
        return os.path.abspath(plan.table_file)
    path = folder / _TABLE
    dump(plan.table, path)
    return str(path)


def _command(plan: Simulation, folder: Path) -> list[str]:
    if plan.is_started_once:
        script = ["-m", plan.script] if plan.is_module else [plan.script]
        return [sys.executable, "-u", *script, *plan.arguments]
    job = agent.RankJob(
        node_sizes=tuple(map(len, plan.run.chips)),
        script=plan.script,
        arguments=tuple(plan.arguments),
        is_module=plan.is_module,
        keeps_output=plan.keeps_output,
        port=free_port(),
    )
    return agent.write_job(folder, job)


def _ended(status: int, folder: Path) -> Iterator[RunFinding]:
    """Yield how the run failed, as seen from outside its ranks."""
    first = agent.read_failure(folder)
    if first is not None:
        message = f"rank {first.rank} {_how(first.status)}"
        yield RunFinding(severity="error", rank=first.rank, message=message)
    elif status:
        yield RunFinding(severity="error", message=f"the script {_how(status)}")


def _how(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with exit status {status}"
