"""Gloo: processes on CPUs.

Measured with torch 2.13, and with 2.1 (``tests/test_dist_capability.py`` repeats this).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ranktable.runtime.backends.backend import COMPLEX, REAL, Backend, Operation

_MEASURED: Final = "measured with torch 2.13"
_REDUCES: Final = frozenset({"sum", "product", "min", "max", "band", "bor", "bxor"})


BACKEND: Final = Backend(
    name="gloo",
    device_type="cpu",
    operations={
        "all_reduce": Operation(dtypes=REAL, reductions=_REDUCES, source=_MEASURED),
        "reduce": Operation(
            dtypes=REAL,
            reductions=_REDUCES,
            source=f"{_MEASURED}; it leaves partial sums on the other ranks "
            "(pytorch/pytorch#76527), so they send a copy",
        ),
        "reduce_scatter": Operation(
            dtypes=REAL,
            reductions=_REDUCES,
            is_derived=True,
            source="made of all_reduce (pytorch/pytorch#149869)",
        ),
        # Complex numbers go as bytes: torch sends their real parts since 2.10 only.
        "broadcast": Operation(dtypes=REAL, source=_MEASURED),
        "all_gather": Operation(
            dtypes=REAL | COMPLEX,
            source=f"{_MEASURED}; equal shapes only (pytorch/pytorch#156627)",
        ),
        "gather": Operation(dtypes=REAL, source=_MEASURED),
        "scatter": Operation(dtypes=REAL | COMPLEX, source=_MEASURED),
        "all_to_all": Operation(
            dtypes=REAL | COMPLEX, has_uneven=True, source=_MEASURED
        ),
        "send": Operation(dtypes=REAL | COMPLEX, source=_MEASURED),
        "recv": Operation(dtypes=REAL | COMPLEX, source=_MEASURED),
        "barrier": Operation(dtypes=REAL | COMPLEX, source=_MEASURED),
    },
)

V2_1: Final = replace(
    BACKEND,
    profile="2.1",
    operations={
        name: replace(
            native,
            dtypes=native.dtypes - {"bfloat16"},
            source=native.source.replace("2.13", "2.1"),
        )
        for name, native in BACKEND.operations.items()
        if name != "reduce_scatter"
    },
)
"""Gloo of torch 2.1, which has neither bfloat16 nor a reduce_scatter of its own."""
