"""Alibaba's PAI DLC, whose ``RANK`` and ``WORLD_SIZE`` count nodes.

With one process on each node they are the rank and the size of the process.

Source: Alibaba PAI, "General environment variables".
"""

from __future__ import annotations

from dataclasses import replace

from ranktable.runtime.launchers.launcher import Launcher, Scope

PAI = Launcher(
    name="pai dlc",
    level=Scope.NODE,
    markers=("RANK", "NPROC_PER_NODE"),
    absent=(
        "LOCAL_RANK",
        # Users may export NPROC_PER_NODE; with one of these, RANK is that of the node.
        *("OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID", "PMI_RANK"),
        *("JSM_NAMESPACE_RANK", "SLURM_STEP_NUM_TASKS", "FLUX_TASK_RANK"),
    ),
    fields={
        "node_rank": "RANK",
        "num_nodes": "WORLD_SIZE",
        "local_world_size": "NPROC_PER_NODE",
        "master_addr": "MASTER_ADDR",
        "master_port": "MASTER_PORT",
    },
    advice="start torchrun, or ranktable run, on every node",
)
ONE_PROCESS = replace(
    PAI,
    level=Scope.PROCESS,
    only_where=(("NPROC_PER_NODE", "1"),),
    fields={"rank": "RANK", "world_size": "WORLD_SIZE"},
    advice=None,
)
LAUNCHERS = (PAI, ONE_PROCESS)
