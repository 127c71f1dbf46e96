"""A Kubernetes Indexed Job; the number of its pods is nowhere in the environment.

Source: kubernetes.io, "Job with Pod-to-Pod Communication".
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Level, Tier

INDEXED_JOB = Launcher(
    name="kubernetes indexed job",
    tier=Tier.PLATFORM,
    level=Level.NODE,
    markers=("JOB_COMPLETION_INDEX",),
    # A JobSet of several slices has a job for each, with indices of its own.
    absent=("MEGASCALE_NUM_SLICES",),
    fields={"node_rank": "JOB_COMPLETION_INDEX"},
    advice="start torchrun, or ranktable run, in every pod",
)
