"""A job of Slurm, outside of its steps.

This is a batch script, the shell of salloc, or an ssh session into a job. The variables
have the sizes of the job and even a rank, but it is not a task; see ``slurm.py``.

Source: SchedMD/slurm, doc/man/man1/sbatch.1.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Scope

SLURM_JOB = Launcher(
    name="slurm job",
    level=Scope.NODE,
    markers=("SLURM_JOB_ID",),
    advice="start the script with srun",
)
LAUNCHERS = (SLURM_JOB,)
