"""The communication backends, one declaration each."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ranktable.runtime.errors import BootstrapError

if TYPE_CHECKING:
    from ranktable.runtime.backends.backend import Backend

NAMES: Final = ("sccl", "nccl", "gloo", "hccl", "cncl", "mccl", "xccl", "mpi")
"""The backends; each is declared in the file of its name, which is read when needed."""

TABLES: Final = (
    *("gloo", "nccl", "mpi", "sccl", "sccl:doc", "hccl", "cncl", "mccl", "xccl"),
)
"""The descriptions of what they can do, in the order in which people are shown them."""

_BY_DEFAULT: Final = ("sccl", "nccl", "hccl", "cncl", "mccl", "xccl", "gloo")
"""The first that can be used is the default, so accelerators come before CPUs."""


def backend_named(name: str) -> Backend:
    """Return a backend by its name, with a profile after a colon if it has several.

    Raises:
        KeyError: There is none.
    """
    if name not in NAMES and name not in TABLES:
        raise KeyError(name)
    module = importlib.import_module(f"{__name__}.{name.partition(':')[0]}")
    found: Backend = module.DOC if name.endswith(":doc") else module.BACKEND
    return found


def choose_backend(name: str | None) -> Backend:
    """Return the backend with this name, or the first that can be used here.

    Args:
        name: A backend, or one for each type of device: ``cpu:gloo,cuda:nccl``. Of
            several the one that serves a device is returned, and its ``config`` is all.

    Raises:
        BootstrapError: There is no such backend, or it cannot be used here.
    """
    if "torch" not in sys.modules:
        from ranktable.runtime.backends.sccl import (  # noqa: PLC0415
            refuse_before_torch,
        )

        refuse_before_torch()
    if name is not None:
        parts = [part.rpartition(":")[2] for part in name.split(",")]
        chosen = [_usable(part) for part in parts]
        main = next((each for each in chosen if not each.serves_cpu), chosen[0])
        return replace(main, config=name)
    reasons = []
    for each in _BY_DEFAULT:
        try:
            return _usable(each)
        except BootstrapError as error:  # noqa: PERF203 - seven at most
            reasons.append(error.message)  # another backend may do
    raise BootstrapError("RT401", "; ".join(reasons))


def _usable(name: str) -> Backend:
    """Return a backend that can be used here.

    Raises:
        BootstrapError: There is no such backend, or it cannot be used here.
    """
    if name not in NAMES:
        raise BootstrapError(
            "RT401", f"there is no backend {name!r}; there are: {', '.join(NAMES)}"
        )
    backend = backend_named(name)
    reason = backend.why_not()
    if reason is not None:
        raise BootstrapError("RT401", f"{name} cannot be used: {reason}")
    return replace(backend, config=name)
