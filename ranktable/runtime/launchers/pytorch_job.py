"""Kubeflow's PyTorchJob, whose ``RANK`` counts pods.

Its variables have the same names as torchrun's. Since kubeflow/trainer#1840,
``WORLD_SIZE`` counts processes, but ``RANK`` is still that of the pod. With one process
in each pod they are those of the process, as torch's ``env://`` reads them.

Source: kubeflow/training-operator, pkg/controller.v1/pytorch/envvar.go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.runtime.errors import ConflictingVariablesError
from ranktable.runtime.launchers.launcher import Launcher, Scope
from ranktable.runtime.values import is_plain, said

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value


def _refuse_other_size(
    env: Mapping[str, str],
) -> Iterator[tuple[str, Value, str]]:
    """Yield nothing; raise unless there are as many processes as pods."""
    pods, size = env.get("PET_NNODES", ""), env.get("WORLD_SIZE", "")
    if is_plain(pods) and is_plain(size) and pods != size:
        raise ConflictingVariablesError(
            "RT303",
            f"{said('WORLD_SIZE', size)} is not {said('PET_NNODES', pods)}, with one "
            "process per pod; unset the one that is left over",
            {"WORLD_SIZE": size, "PET_NNODES": pods},
        )
    yield from ()


PYTORCH_JOB = Launcher(
    name="pytorchjob",
    level=Scope.NODE,
    markers=("RANK",),
    # torchrun reads the first; operators before kubeflow/trainer#1840 set the second.
    any_of=("PET_NPROC_PER_NODE", "PET_N_PROC_PER_NODE"),
    absent=("LOCAL_RANK",),
    fields={
        "node_rank": "RANK",
        "master_addr": "MASTER_ADDR",
        "master_port": "MASTER_PORT",
    },
    advice="start torchrun, or ranktable run, in every pod",
)
ONE_PROCESS = replace(
    PYTORCH_JOB,
    level=Scope.PROCESS,
    only_where=(
        ("PET_NPROC_PER_NODE", "1"),
        ("PET_N_PROC_PER_NODE", "1"),
    ),
    fields={"rank": "RANK", "world_size": "WORLD_SIZE"},
    more=_refuse_other_size,
    advice=None,
)
LAUNCHERS = (PYTORCH_JOB, ONE_PROCESS)
