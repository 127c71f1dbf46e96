"""A Kubernetes Indexed Job; the environment does not have the number of its pods.

Every Job of a JobSet numbers its own pods, so other numbers of pods are preferred.

Source: kubernetes.io, "Job with Pod-to-Pod Communication".
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Scope

INDEXED_JOB = Launcher(
    name="kubernetes indexed job",
    level=Scope.NODE,
    markers=("JOB_COMPLETION_INDEX",),
    fields={"node_rank": "JOB_COMPLETION_INDEX"},
    advice="RANK and WORLD_SIZE are missing; start torchrun, or ranktable run, in "
    "every pod, or, for one process per pod, export RANK=$JOB_COMPLETION_INDEX and "
    "WORLD_SIZE, the completions of the Job",
)
LAUNCHERS = (INDEXED_JOB,)
