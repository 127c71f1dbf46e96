"""The chips of this node, for the commands that look for them."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.cli.output import CommandError
from ranktable.cluster.discovery.machine import Machine
from ranktable.cluster.discovery.node_probe import probe

if TYPE_CHECKING:
    from ranktable.cluster.probes.probe_line import NodeProbe

ROOT = "/"
TIMEOUT_S = 10.0


def probe_node(
    root: str,
    *,
    run_programs: bool,
    host: str | None = None,
    timeout_s: float = TIMEOUT_S,
    record: str | None = None,
) -> NodeProbe:
    """Return what is found on this node.

    Args:
        root: Folder that is used as /.
        run_programs: Whether programs below another folder are run.
        host: Name of the node.
        timeout_s: Time limit of every tool.
        record: Folder to fill with all that ``check`` reads of this node.

    Raises:
        CommandError: An argument is wrong.
    """
    if host is not None and (not host.isprintable() or not host or " " in host):
        raise CommandError("--host: a name has no blanks and is not empty")
    machine = machine_at(root, run_programs=run_programs, timeout_s=timeout_s)
    if host is None and not machine.has_name:
        raise CommandError(
            f"--root: {root} has no /etc/hostname, so the name of the node is unknown\n"
            "help: write it there, or name the node: --host for probe, --hosts for gen"
        )
    if record is None:
        return probe(machine, host)
    return _record(machine, host, record)


def machine_at(root: str, *, run_programs: bool, timeout_s: float) -> Machine:
    """Return this node, or the folder that stands for one.

    Raises:
        CommandError: An argument is wrong.
    """
    if not os.path.isdir(root):
        raise CommandError(f"--root: {root} is not a folder")
    if not (math.isfinite(timeout_s) and timeout_s > 0):
        raise CommandError("--timeout: the seconds are above 0")
    return Machine(
        root=root, runs_programs=run_programs, timeout_s=timeout_s, env=os.environ
    )


def _record(machine: Machine, host: str | None, folder: str) -> NodeProbe:
    """Write down everything that ``check`` needs to know of this node."""
    from ranktable.cluster.discovery.recording import RecordingMachine
    from ranktable.preflight.facts import ENVIRON, variables_of_job
    from ranktable.preflight.here import record

    if os.path.isdir(folder) and os.listdir(folder):
        raise CommandError(f"--record: {folder} is not empty")
    recording = RecordingMachine(
        root=machine.root,
        runs_programs=machine.runs_programs,
        timeout_s=machine.timeout_s,
        env=machine.env,
        folder=Path(folder),
    )
    variables = variables_of_job(os.environ)
    recording.put(ENVIRON, "".join(f"{n}={v}\n" for n, v in variables.items()))
    record(recording, os.environ)
    return probe(recording, host)
