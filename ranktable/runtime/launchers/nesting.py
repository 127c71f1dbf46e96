"""Which launcher can run inside which.

The inner launcher has started this process: for example torchrun inside srun, or mpirun
inside an allocation. The variables of the outer one then describe an agent or a daemon.
Launchers that are not paired here describe the same process and must agree; so must
variables that scripts set by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.runtime.launchers.platforms import PLATFORMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value

    Values = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nesting:
    """Launchers that can run inside others.

    Attributes:
        inner: Names of the launchers inside.
        outer: Names of the launchers around them.
        source: Where this is documented, or how it was tested.
        may_be_reversed: Whether the outer one may also run inside the inner one.
        one_agent_a_node: Whether the inner one has one agent on each node.
        program: (variable, name): the row counts only if the variable has this name of
            the program that the outer launcher has started.
    """

    inner: tuple[str, ...]
    outer: tuple[str, ...]
    source: str
    may_be_reversed: bool = False
    one_agent_a_node: bool = False
    program: tuple[str, str] | None = None


_WORKERS = ("torchrun", "deepspeed", "ray train", "msrun", "paddle", "horovod")
_MPI = ("open mpi", "mpich or intel mpi", "mvapich2")
_PRRTE = ("prterun",)
_MANAGERS = ("slurm", "flux", "pals", "jsrun")
_PODS = ("pytorchjob", "volcano", "pai dlc")
_PLATFORMS = (
    *("torchrun's PET_* variables", *_PODS, "kubernetes indexed job"),
    *(each.name for each in PLATFORMS),
)

NESTINGS = (
    Nesting(
        inner=("slurm",),
        outer=("open mpi",),
        program=("OMPI_COMMAND", "srun"),
        source="mpirun -n 1 srun -N2 -n4, Open MPI 4.1.4 in Slurm 22.05",
    ),
    Nesting(
        inner=("flux",),
        outer=("open mpi",),
        program=("OMPI_COMMAND", "flux"),
        source="mpirun -n 1 flux run; OMPI_COMMAND of Open MPI 4.1.4",
    ),
    Nesting(
        inner=_WORKERS,
        outer=(*_MANAGERS, *_MPI, *_PRRTE, "pmix"),
        source="srun or mpirun starts one agent per node: "
        "Lightning-AI/pytorch-lightning#18618; Cray EX: SchedMD/slurm, "
        "mpi_cray_shasta.c",
    ),
    Nesting(
        inner=(*_MPI, *_PRRTE),
        outer=("slurm", "flux"),
        may_be_reversed=True,
        one_agent_a_node=True,
        source="mpirun in an allocation has srun start one daemon per node: "
        "jax-ml/jax#13929, Open MPI's plm_slurm, MPICH's external_hosts",
    ),
    Nesting(
        inner=("open mpi", *_PRRTE),
        outer=("pals",),
        source="PALS, or srun --mpi=cray_shasta, starts one daemon per node: PRRTE's "
        "plm_pals",
    ),
    Nesting(
        inner=("flux",),
        outer=("slurm", "pals"),
        may_be_reversed=True,
        source="a site's launcher starts one broker per node: "
        "flux-framework/flux-core#5206",
    ),
    Nesting(
        inner=(*_WORKERS, *_MPI, "pmix", *_MANAGERS),
        outer=_PLATFORMS,
        source="a pod of a platform starts the launcher: kubeflow/trainer",
    ),
    Nesting(
        inner=("torchrun's PET_* variables",),
        outer=("kubernetes indexed job",),
        source="JobSet: every Job counts its own pods from 0",
    ),
)
"""The first row with a pair counts; one with a program only if that was started."""

SETS_TOO = {
    "slurm": ("mpich or intel mpi", "pals"),  # --mpi=pmi2, --mpi=cray_shasta
    "flux": ("mpich or intel mpi", "pals"),  # its shell plugins pmi and cray_pals
}
"""Launchers whose variables others set too: with equal values there is one launcher."""


def nested(
    values: Mapping[str, Values], env: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield (inner, outer) of the launchers that are present and can be nested.

    Args:
        values: The values of each launcher, by its name and the field.
        env: The environment.
    """
    seen: set[frozenset[str]] = set()
    for row in NESTINGS:
        for inner in row.inner:
            for outer in row.outer:
                pair = frozenset((inner, outer))
                if not values.keys() >= pair or pair in seen:
                    continue
                if row.program is not None and not _has_started(row.program, env):
                    continue
                seen.add(pair)
                if _is_certain(row, values[inner], values[outer], env):
                    yield inner, outer


def _has_started(program: tuple[str, str], env: Mapping[str, str]) -> bool:
    variable, name = program
    return env.get(variable, "").rpartition("/")[2] == name


def _is_certain(
    row: Nesting, inner: Values, outer: Values, env: Mapping[str, str]
) -> bool:
    """Whether the reverse nesting, and several separate jobs, are impossible."""
    if row.program is not None:
        return _number(outer, "world_size") == 1  # else each has started a job
    tasks, nodes = _number(outer, "world_size"), _number(outer, "num_nodes")
    is_crowd = tasks > nodes if nodes else _number(outer, "local_world_size") > 1
    if row.one_agent_a_node and is_crowd:
        return False
    # A job of one task in a step of several may be mpirun -n 1 srun: then srun is the
    # inner one. It is not if mpirun has started its daemons by srun, one on each node.
    is_alone = _number(inner, "world_size") == 1 < tasks
    is_of_daemons = env.get("SLURM_NTASKS_PER_NODE") == "1"
    return not (row.may_be_reversed and is_alone) or is_of_daemons


def _number(values: Values, name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) else 0
