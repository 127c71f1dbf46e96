"""PRRTE's prterun without Open MPI: it sets a rank of PMIx, but no size of the job.

Only the PMIx server knows the size. Source: openpmix/prrte, prterun(1).
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher

PRRTE = Launcher(
    name="prterun",
    markers=("PMIX_RANK",),
    advice="PMIX_RANK is set, but not the number of processes; start the script with "
    "mpirun of Open MPI, or set RANK=$PMIX_RANK and WORLD_SIZE in the command",
    lacks=("RANK", "WORLD_SIZE"),
)
LAUNCHERS = (PRRTE,)
