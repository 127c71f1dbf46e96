"""Open MPI 4 and 5.

``OMPI_COMM_WORLD_NODE_RANK`` is not read: it counts the processes on this host over all
jobs, so it is not the index of a node. ``OMPI_UNIVERSE_SIZE`` counts slots.

Source: open-mpi/ompi, docs/tuning-apps/environment-var.rst.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher

OPEN_MPI = Launcher(
    name="open mpi",
    markers=("OMPI_COMM_WORLD_RANK",),
    fields={
        "rank": "OMPI_COMM_WORLD_RANK",
        "world_size": "OMPI_COMM_WORLD_SIZE",
        "local_rank": "OMPI_COMM_WORLD_LOCAL_RANK",
        "local_world_size": "OMPI_COMM_WORLD_LOCAL_SIZE",
        "host": "PMIX_HOSTNAME",
    },
)
LAUNCHERS = (OPEN_MPI,)
