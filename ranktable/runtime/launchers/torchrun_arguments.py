"""torchrun's arguments given as variables, ``PET_*``, which speak of the agent.

JobSet and TrainJob set them in every pod. A value may be ``auto``, ``gpu`` or ``2:4``;
then nothing is known.

Source: pytorch/pytorch, torch/distributed/argparse_util.py; kubeflow/trainer,
pkg/runtime/framework/plugins/torch/torch.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.launchers.launcher import Launcher, Level, Tier
from ranktable.runtime.values import is_plain, read_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NUMBERS = {
    "node_rank": "PET_NODE_RANK",
    "num_nodes": "PET_NNODES",
    "local_world_size": "PET_NPROC_PER_NODE",
    "master_port": "PET_MASTER_PORT",
}


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, int | str, str]]:
    for name, variable in _NUMBERS.items():
        text = env.get(variable, "")
        if is_plain(text):
            yield name, read_number(name, variable, text), variable


TORCHRUN_ARGUMENTS = Launcher(
    name="torchrun's PET_* variables",
    tier=Tier.PLATFORM,
    level=Level.NODE,
    markers=("PET_NNODES",),
    fields={"master_addr": "PET_MASTER_ADDR"},
    more=_more,
)
