"""A job of Grid Engine, outside of an MPI.

A parallel job has a file of its hosts, ``PE_HOSTFILE``, with the slots of each, and
starts one process on the first of them. Nothing gives a rank.

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
