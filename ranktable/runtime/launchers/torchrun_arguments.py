"""torchrun's arguments as variables, ``PET_*``, which describe the agent.

JobSet and TrainJob set them in every pod. ``PET_NNODES`` may be a range, ``2:4``, and
``PET_NPROC_PER_NODE`` a kind of device, ``auto`` or ``gpu``; these give no number.

Source: pytorch/pytorch, torch/distributed/argparse_util.py; kubeflow/trainer,
pkg/runtime/framework/plugins/torch/torch.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.runtime.errors import InvalidVariableError
from ranktable.runtime.launchers.launcher import Launcher, Scope
from ranktable.runtime.values import read_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value

_NODES, _PROCESSES = "PET_NNODES", "PET_NPROC_PER_NODE"
_RANGE = re.compile(r"[0-9]{1,9}:[0-9]{1,9}")
_DEVICE_KIND = re.compile(r"[a-z]+")
"""``auto``, ``cpu``, ``gpu``, ``xpu``, or the name of another backend for devices."""


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    nodes, processes = env.get(_NODES, ""), env.get(_PROCESSES, "")
    if _RANGE.fullmatch(nodes):
        least, most = map(int, nodes.split(":"))
        if not 0 < least <= most:
            raise InvalidVariableError(
                "RT302",
                f"{_NODES} is {nodes!r}, not a range such as 1:4; correct or unset it",
                {_NODES: nodes},
            )
    elif nodes:
        yield "num_nodes", read_number("num_nodes", _NODES, nodes), _NODES
    if processes and not _DEVICE_KIND.fullmatch(processes):
        number = read_number("local_world_size", _PROCESSES, processes)
        yield "local_world_size", number, _PROCESSES


TORCHRUN_ARGUMENTS = Launcher(
    name="torchrun's PET_* variables",
    level=Scope.NODE,
    fields={
        "node_rank": "PET_NODE_RANK",
        "master_addr": "PET_MASTER_ADDR",
        "master_port": "PET_MASTER_PORT",
    },
    more=_more,
)
NUMBERED_POD = Launcher(
    name=TORCHRUN_ARGUMENTS.name,
    level=Scope.NODE,
    markers=("PET_NODE_RANK",),
    absent=("RANK",),
    # Not $JOB_COMPLETION_INDEX: every Job of a JobSet has its own.
    advice="RANK and WORLD_SIZE are missing; start torchrun, or ranktable run, in "
    "every pod, or, for one process per pod, export RANK=$PET_NODE_RANK and "
    "WORLD_SIZE, the number of pods",
)
LAUNCHERS = (TORCHRUN_ARGUMENTS, NUMBERED_POD)
