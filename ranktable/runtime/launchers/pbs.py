"""A job of PBS or Torque, outside of MPI.

A job lists its hosts in a file, ``PBS_NODEFILE``, with one line for each slot, and
starts one process on the first host. No variable has a rank.

Source: pmodels/mpich, src/pm/hydra/lib/tools/bootstrap/external/pbs_query_node_list.c.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Scope

PBS = Launcher(
    name="pbs",
    level=Scope.NODE,
    markers=("PBS_NODEFILE",),
    advice="start mpirun in the job, or ranktable run on each host of PBS_NODEFILE",
)
LAUNCHERS = (PBS,)
