"""PRRTE's prterun without Open MPI: it sets a rank of PMIx, but no size of the job.

Only the PMIx server knows the size. Slurm and Flux set ``PMIX_RANK`` too, but not
``PRTE_LAUNCHED``. Source: openpmix/prrte, prterun(1) and src/mca/schizo/prte.
"""

from __future__ import annotations

from dataclasses import replace

from ranktable.runtime.launchers.launcher import Launcher

PRRTE = Launcher(
    name="prterun",
    markers=("PMIX_RANK", "PRTE_LAUNCHED"),
    advice="PMIX_RANK is set, but not the number of processes; start the script with "
    "mpirun of Open MPI, or set RANK=$PMIX_RANK and WORLD_SIZE in the command",
    lacks=("RANK", "WORLD_SIZE"),
)
PMIX = replace(PRRTE, name="pmix", markers=("PMIX_RANK",), absent=("PRTE_LAUNCHED",))
LAUNCHERS = (PRRTE, PMIX)
