"""NCCL: NVIDIA's chips, according to torch's code.

Two types of eight bits are left out, because torch passes them to NCCL as they are:
``float8_e4m3fn`` and ``float8_e5m2`` are in torch's table since NCCL 2.24, also for
sums. But chips before sm90 refuse them ("FP8 reduction support begins with sm90 capable
devices"), in NCCL 2.27 even for an all-gather (pytorch/pytorch#151594). A view of them
as ``uint8`` can be sent on every chip.
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

_CODE: Final = (
    "pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp 0007e752d5"
)
_TYPES: Final = (
    "pytorch/pytorch torch/csrc/distributed/c10d/NCCLUtils.hpp cf30153c4c (2.13.0)"
)
_PAIRS: Final = "pytorch/pytorch torch/csrc/cuda/nccl.cpp 0033e7747d"

_BYTES: Final = frozenset({"float8_e4m3fnuz", "float8_e5m2fnuz"})
"""Types that torch's table has as ``uint8``, only to be sent."""

_PAIR_BYTES: Final = _BYTES | {"float8_e4m3fn", "float8_e5m2"}
"""Types that are ``uint8`` if torch makes an operation from sends and receives."""

_REDUCES: Final = frozenset({"sum", "mean", "product", "min", "max"})
"""For bool, sum is max, and mean raises; for integers, mean loses the fraction."""

_moving = Operation(
    dtypes=REAL | COMPLEX | _BYTES, source=f"{_CODE}; types: {_TYPES}; {VIEWS}"
)
_pairwise = Operation(
    dtypes=REAL | COMPLEX | _PAIR_BYTES,
    source=f"{_CODE}, by sends and receives; types: {_PAIRS}; {VIEWS}",
)
_reducing = Operation(
    dtypes=REAL, reductions=_REDUCES, source=f"{_CODE}; types: {_TYPES}"
)

BACKEND: Final = Backend(
    name="nccl",
    device_type="cuda",
    visible_by="CUDA_VISIBLE_DEVICES",
    is_coalescing=True,
    operations=grouped_operations(
        moving=_moving, pairwise=_pairwise, reducing=_reducing, code=_CODE
    )
    | {
        "gather": replace(
            _pairwise,
            dtypes=REAL | _PAIR_BYTES,
            source=f"{_CODE}, by sends and receives; types: {_PAIRS}",
        )
    },
)
