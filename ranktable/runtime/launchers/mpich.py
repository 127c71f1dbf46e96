"""MPICH's Hydra and Intel MPI.

Flux, PALS and ``srun --mpi=pmi2`` set ``PMI_RANK`` and ``PMI_SIZE`` too, with the same
values as their own variables.

Source: pmodels/mpich, src/pm/hydra/proxy/pmip_cb.c.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Scope

MPICH = Launcher(
    name="mpich or intel mpi",
    markers=("PMI_RANK",),
    absent=("PALS_RANKID",),
    fields={
        "rank": "PMI_RANK",
        "world_size": "PMI_SIZE",
        "local_rank": "MPI_LOCALRANKID",
        "local_world_size": "MPI_LOCALNRANKS",
    },
)
MPICH_BY_PORT = Launcher(
    name="mpich by port",
    level=Scope.NODE,
    # PMI_ID is the rank, but only the server at PMI_PORT knows the size.
    markers=("PMI_PORT", "PMI_ID"),
    absent=("PMI_RANK",),
    advice="start the script with mpiexec without -pmi-port",
)
LAUNCHERS = (MPICH, MPICH_BY_PORT)
