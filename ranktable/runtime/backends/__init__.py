"""The communication backends, one file each, in the order in which one is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.backends.gloo import Gloo
from ranktable.runtime.backends.nccl import Nccl
from ranktable.runtime.backends.sccl import Sccl, refuse_before_torch
from ranktable.runtime.errors import BootstrapError

if TYPE_CHECKING:
    from ranktable.runtime.backends.backend import Backend

BACKENDS: tuple[Backend, ...] = (Sccl(), Nccl(), Gloo())
"""The first that can be used is the default, so accelerators come before CPUs."""


def choose_backend(name: str | None) -> Backend:
    """Return the backend with this name, or the first that can be used here.

    Raises:
        BootstrapError: There is no such backend, or it cannot be used here.
    """
    refuse_before_torch()
    reasons = []
    for backend in BACKENDS:
        if name not in (None, backend.name):
            continue
        try:
            reason = backend.why_not()
        except BootstrapError as error:
            if name is not None:
                raise
            reason = str(error)  # another backend may do
        if reason is None:
            return backend
        reasons.append(f"{backend.name} cannot be used: {reason}")
    if not reasons:
        known = ", ".join(backend.name for backend in BACKENDS)
        reasons.append(f"there is no backend {name!r}; there are: {known}")
    raise BootstrapError("RT401", "; ".join(reasons))
