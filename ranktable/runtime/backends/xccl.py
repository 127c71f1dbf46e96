"""XCCL: Intel's chips, according to the code of torch-xpu-ops.

oneCCL itself has mean since 2021.15; before, the code makes it from sum and division.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ranktable.runtime.backends.backend import (
    COMPLEX,
    REAL,
    VIEWS,
    Backend,
    Operation,
    grouped_operations,
)

_CODE: Final = "intel/torch-xpu-ops src/xccl/ProcessGroupXCCL.cpp 0029c2c232"

_BYTES: Final = frozenset(
    {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"}
)
"""Types that the table has as ``uint8``, and refuses to reduce."""

_REDUCES: Final = frozenset({"sum", "mean", "product", "min", "max"})
"""For bool, sum is max, and mean raises."""

_moving = Operation(dtypes=REAL | COMPLEX | _BYTES, source=f"{_CODE}; {VIEWS}")
_reducing = Operation(dtypes=REAL, reductions=_REDUCES, source=_CODE)

BACKEND: Final = Backend(
    name="xccl",
    device_type="xpu",
    visible_by="ZE_AFFINITY_MASK",
    is_coalescing=True,
    operations=grouped_operations(
        moving=_moving, pairwise=_moving, reducing=_reducing, code=_CODE
    )
    | {
        "gather": replace(
            _moving,
            dtypes=REAL | _BYTES,
            source=f"{_CODE}, by sends and receives",
        ),
        "scatter": replace(_moving, source=f"{_CODE}, by sends and receives; {VIEWS}"),
    },
)
