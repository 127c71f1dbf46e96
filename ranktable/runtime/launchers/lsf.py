"""A job of LSF, outside of jsrun and MPI.

A job lists its hosts in ``LSB_MCPU_HOSTS`` and in a file; the first one may be the
launch node, on which no process should run. Only jsrun and MPI give ranks.

Source: pmodels/mpich, src/pm/hydra/lib/tools/bootstrap/external/lsf_query_node_list.c;
Lightning-AI/pytorch-lightning, fabric/plugins/environments/lsf.py.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Scope

LSF = Launcher(
    name="lsf",
    level=Scope.NODE,
    markers=("LSB_JOBID",),
    advice="start the script with jsrun or mpirun",
)
LAUNCHERS = (LSF,)
