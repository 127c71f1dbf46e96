"""Gloo: processes on CPUs.

Measured with torch 2.13 (``tests/test_dist_capability.py`` does it again).
"""

from __future__ import annotations

from typing import Final

from ranktable.dist.capability.capability import Capability, Native

_REAL: Final = frozenset(
    {
        *("uint8", "int8", "int32", "int64", "bool"),
        *("float16", "bfloat16", "float32", "float64"),
    }
)
_COMPLEX: Final = frozenset({"complex64", "complex128"})
_MEASURED: Final = "measured with torch 2.13"
_REDUCES: Final = frozenset({"sum", "product", "min", "max", "band", "bor", "bxor"})


GLOO: Final = Capability(
    name="gloo",
    backend="gloo",
    device="cpu",
    operations={
        "all_reduce": Native(dtypes=_REAL, reductions=_REDUCES, source=_MEASURED),
        "reduce": Native(
            dtypes=_REAL,
            reductions=_REDUCES,
            source=f"{_MEASURED}; it leaves partial sums on the other ranks "
            "(pytorch/pytorch#76527), so they send a copy",
        ),
        "reduce_scatter": Native(
            dtypes=_REAL,
            reductions=_REDUCES,
            is_derived=True,
            source="made of all_reduce (pytorch/pytorch#149869)",
        ),
        "broadcast": Native(dtypes=_REAL | _COMPLEX, source=_MEASURED),
        "all_gather": Native(
            dtypes=_REAL | _COMPLEX,
            source=f"{_MEASURED}; equal shapes only (pytorch/pytorch#156627)",
        ),
        "gather": Native(dtypes=_REAL, source=_MEASURED),
        "scatter": Native(dtypes=_REAL | _COMPLEX, source=_MEASURED),
        "all_to_all": Native(
            dtypes=_REAL | _COMPLEX, has_uneven=True, source=_MEASURED
        ),
        "send": Native(dtypes=_REAL | _COMPLEX, source=_MEASURED),
        "recv": Native(dtypes=_REAL | _COMPLEX, source=_MEASURED),
        "barrier": Native(dtypes=_REAL | _COMPLEX, source=_MEASURED),
    },
)
