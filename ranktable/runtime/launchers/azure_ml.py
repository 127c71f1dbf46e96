"""Azure ML: its PyTorch jobs set torch's names, its MPI jobs the master's address.

DeepSpeed ignores the port in ``AZ_BATCH_MASTER_NODE`` on purpose, and so does this.

Source: microsoft/DeepSpeed, deepspeed/comm/comm.py; learn.microsoft.com, "Distributed
GPU training guide".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.launchers.launcher import Launcher, Scope
from ranktable.runtime.values import read_host

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value

_MASTER = "AZ_BATCH_MASTER_NODE"


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    yield "master_addr", read_host("master_addr", _MASTER, env[_MASTER]), _MASTER


AZURE_ML = Launcher(
    name="azure ml",
    level=Scope.NODE,
    markers=(_MASTER,),
    more=_more,
)
AZURE_ML_ONE_NODE = Launcher(
    name="azure ml",
    level=Scope.NODE,
    markers=("AZ_BATCHAI_MPI_MASTER_NODE",),
    absent=(_MASTER,),
    fields={"master_addr": "AZ_BATCHAI_MPI_MASTER_NODE"},
)
LAUNCHERS = (AZURE_ML, AZURE_ML_ONE_NODE)
