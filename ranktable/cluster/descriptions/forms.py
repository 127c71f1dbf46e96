"""Every kind of description, in the order in which they are listed."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.descriptions.accelerate import ACCELERATE
from ranktable.cluster.descriptions.deepspeed_hostfile import DEEPSPEED_HOSTFILE
from ranktable.cluster.descriptions.jobset import JOBSET
from ranktable.cluster.descriptions.kubernetes_job import KUBERNETES_JOB
from ranktable.cluster.descriptions.mpich_machinefile import MPICH_MACHINEFILE
from ranktable.cluster.descriptions.openmpi_hostfile import OPENMPI_HOSTFILE
from ranktable.cluster.descriptions.openmpi_rankfile import OPENMPI_RANKFILE
from ranktable.cluster.descriptions.paddle import PADDLE
from ranktable.cluster.descriptions.paddle_endpoints import PADDLE_ENDPOINTS
from ranktable.cluster.descriptions.pytorchjob import PYTORCHJOB
from ranktable.cluster.descriptions.slurm_nodelist import SLURM_NODELIST
from ranktable.cluster.descriptions.srun_hostfile import SRUN_HOSTFILE
from ranktable.cluster.descriptions.torchrun import TORCHRUN
from ranktable.cluster.descriptions.trainjob import TRAINJOB
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.descriptions.form import Form

FORMS: tuple[Form, ...] = (
    OPENMPI_HOSTFILE,
    OPENMPI_RANKFILE,
    MPICH_MACHINEFILE,
    DEEPSPEED_HOSTFILE,
    SLURM_NODELIST,
    SRUN_HOSTFILE,
    TORCHRUN,
    ACCELERATE,
    PADDLE,
    PADDLE_ENDPOINTS,
    KUBERNETES_JOB,
    JOBSET,
    PYTORCHJOB,
    TRAINJOB,
)


def form_of(name: str) -> Form:
    """Return the kind of a name, or of the beginning of a name that no other has.

    Raises:
        ArgumentError: There is no such kind, or there are several.
    """
    names = [form.name for form in FORMS]
    if name in names:
        return FORMS[names.index(name)]
    begun = [form for form in FORMS if name and form.name.startswith(name)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        both = " and ".join(form.name for form in begun)
        raise ArgumentError(f"{quoted(name)} may be {both}")
    close = get_close_matches(name, names, 1)
    raise ArgumentError(
        f"there is no description {quoted(name)}",
        hint=f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}",
    )


def forms_like(text: str) -> list[Form]:
    """Return the kinds that a text looks like."""
    return [form for form in FORMS if form.is_known_by(text)]
