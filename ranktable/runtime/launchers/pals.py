"""PALS, the launcher of Cray systems; the size of the job is in ``PMI_SIZE`` alone.

Source: radical-cybertools/radical.pilot, docs/source/supported/polaris.rst; the
vendor's own page was not found.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher, Tier

PALS = Launcher(
    name="pals",
    tier=Tier.MPI,
    markers=("PALS_RANKID",),
    fields={
        "rank": "PALS_RANKID",
        "world_size": "PMI_SIZE",
        "local_rank": "PALS_LOCAL_RANKID",
        "local_world_size": "PALS_LOCAL_SIZE",
        "node_rank": "PALS_NODEID",
    },
)
