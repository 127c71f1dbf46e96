"""Flux; the first process of a job has none of these variables.

Source: flux-framework/flux-core, doc/man7/flux-environment.rst.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Scope

FLUX = Launcher(
    name="flux",
    markers=("FLUX_TASK_RANK",),
    fields={
        "rank": "FLUX_TASK_RANK",
        "world_size": "FLUX_JOB_SIZE",
        "local_rank": "FLUX_TASK_LOCAL_ID",
        "num_nodes": "FLUX_JOB_NNODES",
    },
)
FLUX_INSTANCE = Launcher(
    name="flux instance",
    level=Scope.NODE,
    markers=("FLUX_URI",),
    absent=("FLUX_TASK_RANK",),
    advice="start the script with flux run",
)
LAUNCHERS = (FLUX, FLUX_INSTANCE)
