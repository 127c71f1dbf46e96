"""The backends and what they have, one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ranktable.dist.capability.cncl import CNCL
from ranktable.dist.capability.gloo import GLOO
from ranktable.dist.capability.hccl import HCCL
from ranktable.dist.capability.mccl import MCCL
from ranktable.dist.capability.mpi import MPI
from ranktable.dist.capability.nccl import NCCL
from ranktable.dist.capability.sccl import SCCL, SCCL_BY_MANUAL
from ranktable.dist.capability.xccl import XCCL
from ranktable.dist.errors import UnsupportedError

if TYPE_CHECKING:
    from ranktable.dist.capability.capability import Capability

TABLES: Final = (GLOO, NCCL, MPI, SCCL, SCCL_BY_MANUAL, HCCL, CNCL, MCCL, XCCL)

_BY_NAME: Final = {table.name: table for table in TABLES}


def capability_of(name: str) -> Capability:
    """Return the table of a backend.

    Raises:
        UnsupportedError: There is none.
    """
    if name not in _BY_NAME:
        raise UnsupportedError(
            f"nothing is known of the backend {name!r}; there are tables of "
            f"{', '.join(_BY_NAME)}"
        )
    return _BY_NAME[name]
