"""The chips of this node, for the commands that look for them."""

from __future__ import annotations

import math
import os
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
) -> NodeProbe:
    """Return what is found on this node.

    Raises:
        CommandError: An argument is wrong.
    """
    if not os.path.isdir(root):
        raise CommandError(f"--root: {root} is not a folder")
    if not (math.isfinite(timeout_s) and timeout_s > 0):
        raise CommandError("--timeout: the seconds are above 0")
    if host is not None and (not host.isprintable() or not host or " " in host):
        raise CommandError("--host: a name has no blanks and is not empty")
    machine = Machine(
        root=root, runs_programs=run_programs, timeout_s=timeout_s, env=os.environ
    )
    return probe(machine, host)
