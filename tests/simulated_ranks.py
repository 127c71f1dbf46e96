"""Simulated ranks for tests, started as ``ranktable simulate`` does."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.simulate import agent
from ranktable.simulate.simulated_run import Run, RunFinding, findings, start_run
from tests.commands import TORCH_ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCRIPTS = Path(__file__).parent / "simulated"
PACKAGE = Path(ranktable.__file__).parent
TIMEOUT_S = 120
_LAUNCHED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "RANK_TABLE_FILE", "CHIP_MAP")
_SAID = re.compile(r"\[\d")


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What a run left behind.

    Attributes:
        statuses: Exit status of what has started the ranks.
        out: What the ranks printed.
        err: What they had to say.
        findings: What they reported.
        time_s: How long it took.
    """

    statuses: list[int]
    out: str
    err: str
    findings: list[RunFinding]
    time_s: float

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


def environment(folder: Path, run: Run, table: Path | None) -> dict[str, str]:
    """Return the environment of a simulated rank."""
    clean = {key: value for key, value in os.environ.items() if key not in _LAUNCHED}
    path = [PACKAGE / "simulate" / "path" / run.vendor, PACKAGE.parent]
    return {
        **clean,
        **start_run(folder, run),
        **({} if table is None else {"RANK_TABLE_FILE": str(table)}),
        **TORCH_ENVIRONMENT,
        "PYTHONPATH": ":".join(map(str, path)),
    }


def write_table(folder: Path, chips: Sequence[Sequence[int]]) -> Path:
    """Write the table of these chips, a list a node."""
    path = folder / "table.json"
    ranktable.dump(make_table(chips), path)
    return path


def simulate(
    folder: Path,
    script: Path,
    run: Run,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    table: Path | None = None,
) -> Ended:
    """Run a script on every chip of a run.

    Args:
        folder: An empty folder.
        script: The script.
        run: The run.
        arguments: Of the script.
        env: More variables.
        table: The rank table, if it is not that of the run.
    """
    everything = {
        **environment(folder, run, table or write_table(folder, run.chips)),
        **(env or {}),
    }
    job = agent.RankJob(
        node_sizes=tuple(map(len, run.chips)),
        script=str(script),
        arguments=arguments,
        is_module=False,
        keeps_output=False,
        port=free_port(),
    )
    begin = time.monotonic()
    process = subprocess.Popen(  # noqa: S603 - our own launcher
        agent.write_job(folder, job),
        env=everything,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = _finish(process)
    return Ended(
        statuses=[process.returncode],
        out=out,
        err=err,
        findings=findings(folder),
        time_s=time.monotonic() - begin,
    )


def _finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        return process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)  # it ends its ranks, too
        out, err = process.communicate(timeout=TIMEOUT_S)
        raise AssertionError(f"the ranks did not end in time: {out}{err}") from None


def free_port() -> int:
    """Return a port of this machine that nobody has."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
