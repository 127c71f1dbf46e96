"""Start a simulated run, wait for it, and say what became of it."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from ranktable.runtime.agents import agents_of
from ranktable.simulate import processes
from ranktable.simulate.agent import RankFailure
from ranktable.simulate.free_port import free_port
from ranktable.simulate.rank_environment import rank_environment
from ranktable.simulate.run import Finding, findings, start_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ranktable.simulate.plan import Plan
    from ranktable.simulate.signals import Signals

_TABLE = "rank_table.json"
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a run.

    Attributes:
        findings: What there is to say, in the order in which it was found.
        signum: The signal that ended it, None if none did.
    """

    findings: tuple[Finding, ...]
    signum: int | None = None

    @property
    def errors(self) -> list[Finding]:
        """The findings that make the run fail."""
        return [found for found in self.findings if found.severity == "error"]


def launch(plan: Plan, folder: Path, signals: Signals) -> Outcome:
    """Run a plan to its end.

    Args:
        plan: What to start.
        folder: The folder of ``run_folder``.
        signals: What the launcher is told meanwhile; it is passed on.
    """
    env = rank_environment(
        os.environ,
        vendor=plan.run.vendor,
        table=_table_file(plan, folder),
        of_run=start_run(folder, plan.run),
    )
    sys.stdout.flush()
    agents = processes.start(_commands(plan, folder), env)
    try:
        processes.wait(agents, folder, signals)
    finally:
        processes.end(agents, folder)
    if signals.received:
        return Outcome(findings=tuple(findings(folder)), signum=signals.received[0])
    outcome = Outcome(findings=tuple(findings(folder)))
    if outcome.errors:
        return outcome  # a rank has said why; how it ended adds nothing
    ended = _ended([agent.returncode for agent in agents], folder)
    return Outcome(findings=(*outcome.findings, *ended))


def printed(folder: Path) -> list[str]:
    """Return what each rank has printed to standard output, by rank.

    Each torchrun has made ``NODE/ID/attempt_0/LOCAL_RANK/stdout.log``.
    """
    logs = _logs(folder).glob("*/*/attempt_0/*/stdout.log")
    by_place = {(int(log.parts[-5]), int(log.parts[-2])): log for log in logs}
    return [by_place[place].read_text(errors="replace") for place in sorted(by_place)]


def _table_file(plan: Plan, folder: Path) -> str:
    """Return the absolute path of the table, which is written if it has no file."""
    if plan.table_file is not None:
        return os.path.abspath(plan.table_file)  # noqa: PTH100 - links stay as they are
    from ranktable.schema.writing import dump  # noqa: PLC0415 - rarely needed

    path = folder / _TABLE
    dump(plan.table, path)
    return str(path)


def _commands(plan: Plan, folder: Path) -> list[list[str]]:
    script = ["-m", plan.script] if plan.is_module else [plan.script]
    if plan.is_started_once:
        return [[sys.executable, "-u", *script, *plan.arguments]]
    port = free_port()
    redirect = ["--redirects", "1"] if plan.keeps_output else []
    commands = []
    for agent in agents_of(plan.table):
        logs = _logs(folder) / str(agent.node_rank)
        options = ["--log-dir", str(logs), *redirect, *script]
        of_torchrun = agent.arguments(options, _LOOPBACK, port)
        commands.append(
            [
                *(sys.executable, "-m", "ranktable.simulate.agent"),
                *(str(_note(folder, agent.node_rank)), str(len(of_torchrun))),
                *(*of_torchrun, *plan.arguments),
            ]
        )
    return commands


def _logs(folder: Path) -> Path:
    return folder / "logs"


def _note(folder: Path, node_rank: int) -> Path:
    return folder / f"failed-{node_rank}.json"


def _ended(statuses: Sequence[int], folder: Path) -> Iterator[Finding]:
    """Yield how the run failed as seen from outside of its ranks."""
    notes = [_note(folder, node_rank) for node_rank in range(len(statuses))]
    failures = [
        msgspec.json.decode(note.read_bytes(), type=RankFailure)
        for note in notes
        if note.exists()
    ]
    if failures:
        first = min(failures, key=lambda failure: (failure.time_s, failure.rank))
        message = f"rank {first.rank} {_how(first.status)}"
        yield Finding(severity="error", rank=first.rank, message=message)
    elif any(statuses):
        message = f"the script {_how(next(filter(None, statuses)))}"
        yield Finding(severity="error", message=message)


def _how(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with exit status {status}"
