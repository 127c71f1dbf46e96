"""A job of Grid Engine, outside of MPI.

A parallel job lists its hosts in a file, ``PE_HOSTFILE``, with the slots of each, and
starts one process on the first host. No variable has a rank.

Source: pmodels/mpich, src/pm/hydra/lib/tools/bootstrap/external/sge_query_node_list.c.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Scope

SGE = Launcher(
    name="grid engine",
    level=Scope.NODE,
    markers=("PE_HOSTFILE",),
    advice="start mpirun in the job, or ranktable run on each host of PE_HOSTFILE",
)
LAUNCHERS = (SGE,)
