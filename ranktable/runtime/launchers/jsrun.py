"""jsrun, the launcher of IBM's LSF systems.

Source: Lightning-AI/pytorch-lightning, fabric/plugins/environments/lsf.py.
"""

from __future__ import annotations

from ranktable.runtime.launchers.launcher import Launcher

JSRUN = Launcher(
    name="jsrun",
    markers=("JSM_NAMESPACE_RANK",),
    fields={
        "rank": "JSM_NAMESPACE_RANK",
        "world_size": "JSM_NAMESPACE_SIZE",
        "local_rank": "JSM_NAMESPACE_LOCAL_RANK",
        "local_world_size": "JSM_NAMESPACE_LOCAL_SIZE",
    },
)
LAUNCHERS = (JSRUN,)
