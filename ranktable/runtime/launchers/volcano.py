"""Volcano with its pytorch plugin, whose ``RANK`` and ``WORLD_SIZE`` count pods.

They also hold for the process, as torch's ``env://`` reads them, unless something says
that a pod has several processes. ``VC_TASK_INDEX`` is the place within one group
of tasks, so it is not a node_rank.

Source: volcano-sh/volcano, the job controller's pytorch plugin.
"""

from __future__ import annotations

from dataclasses import replace

from ranktable.runtime.launchers.launcher import Launcher, Scope

VOLCANO = Launcher(
    name="volcano",
    level=Scope.NODE,
    markers=("RANK", "VC_TASK_INDEX"),
    absent=("LOCAL_RANK",),
    fields={
        "node_rank": "RANK",
        "num_nodes": "WORLD_SIZE",
        "master_addr": "MASTER_ADDR",
        "master_port": "MASTER_PORT",
    },
    advice="start torchrun, or ranktable run, in every pod",
)
ONE_PROCESS = replace(
    VOLCANO,
    level=Scope.PROCESS,
    only_where=(("NPROC_PER_NODE", "1"),),
    fields={"rank": "RANK", "world_size": "WORLD_SIZE"},
    advice=None,
)
LAUNCHERS = (VOLCANO, ONE_PROCESS)
