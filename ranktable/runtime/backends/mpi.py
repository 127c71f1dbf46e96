"""MPI: processes on CPUs, according to torch's code.

A type that is missing in torch's table gives an out-of-range error. A later revision
than the one below has two more types, if MPI defines them: float16 by
``MPIX_C_FLOAT16``, and bfloat16 by ``MPIX_C_BF16`` or ``MPIX_BFLOAT16``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ranktable.runtime.backends.backend import COMPLEX, VIEWS, Backend, Operation

_CODE: Final = (
    "pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupMPI.cpp 8845674172"
)
_INT8: Final = (
    "int8 is MPI_CHAR, which the standard does not reduce, but Open MPI 4.1.4 does "
    "(measured)"
)

_REAL: Final = frozenset(
    {"uint8", "int8", "int16", "int32", "int64", "float32", "float64"}
)
_REDUCES: Final = frozenset({"sum", "product", "min", "max"})

_moving = Operation(dtypes=_REAL | COMPLEX, source=f"{_CODE}; {VIEWS}")
_reducing = Operation(dtypes=_REAL, reductions=_REDUCES, source=f"{_CODE}; {_INT8}")

BACKEND: Final = Backend(
    name="mpi",
    device_type="cpu",
    operations={
        "all_reduce": _reducing,
        "reduce": _reducing,
        "broadcast": _moving,
        "all_gather": _moving,
        "gather": replace(_moving, dtypes=_REAL, source=_CODE),
        "scatter": _moving,
        "all_to_all": replace(_moving, has_uneven=True),
        "send": _moving,
        "recv": _moving,
        "barrier": replace(_moving, source=_CODE),
    },
    refusals={
        "reduce_scatter": (
            f"always raises in {_CODE}; there since pytorch/pytorch#150162"
        ),
    },
)
