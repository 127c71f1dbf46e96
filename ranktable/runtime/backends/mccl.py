"""MCCL: Moore Threads' chips, according to the code of torch_musa.

``bfloat16`` is in builds for architecture 220 and later. ``float8_e4m3fn`` and
``float8_e5m2`` are in builds for 310 and later, and left out here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ranktable.runtime.backends.backend import (
    COMPLEX,
    REAL,
    Backend,
    Operation,
    grouped_operations,
)

_CODE: Final = (
    "MooreThreads/torch_musa torch_musa/csrc/distributed/ProcessGroupMCCL.cpp "
    "101c1311f3"
)

_REDUCES: Final = frozenset({"sum", "mean", "product", "min", "max"})
"""For bool, sum is max, and mean raises."""

_moving = Operation(dtypes=REAL, source=_CODE)
_pairwise = Operation(dtypes=REAL, source=f"{_CODE}, by sends and receives")
_reducing = Operation(dtypes=REAL, reductions=_REDUCES, source=_CODE)

BACKEND: Final = Backend(
    name="mccl",
    device_type="musa",
    package="torch_musa",
    visible_by="MUSA_VISIBLE_DEVICES",
    is_coalescing=True,
    operations=grouped_operations(
        moving=_moving, pairwise=_pairwise, reducing=_reducing, code=_CODE
    )
    | {
        "broadcast": replace(
            _moving,
            dtypes=REAL | COMPLEX,
            source=f"{_CODE}; complex viewed as real",
        )
    },
)
