"""CNCL: Cambricon's chips, according to the code of torch_mlu.

``float64`` is left out, because the code passes it to CNCL as a float of 32 bits. So is
mean, which the code makes from a division and a sum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ranktable.runtime.backends.backend import (
    REAL,
    Backend,
    Operation,
    grouped_operations,
)

_FOLDER: Final = "Cambricon/torch_mlu torch_mlu/csrc/framework/distributed"
_CODE: Final = f"{_FOLDER}/process_group_cncl.cpp 036a1a7bdf"
_PAIRS: Final = f"{_FOLDER}/cncl_utils.cpp 17f8951733, by sends and receives"

_DTYPES: Final = REAL - {"float64"}
_REDUCES: Final = frozenset({"sum", "product", "min", "max"})
"""Of bool, sum is max."""

_moving = Operation(dtypes=_DTYPES, source=_CODE)
_pairwise = Operation(dtypes=_DTYPES, source=f"{_CODE}; {_PAIRS}")
_reducing = Operation(dtypes=_DTYPES, reductions=_REDUCES, source=_CODE)

BACKEND: Final = Backend(
    name="cncl",
    device_type="mlu",
    package="torch_mlu",
    visible_by="MLU_VISIBLE_DEVICES",
    is_coalescing=True,
    operations=grouped_operations(
        moving=_moving, pairwise=_pairwise, reducing=_reducing, code=_CODE
    )
    | {
        "all_to_all": replace(
            _pairwise, has_uneven=True, source=f"{_CODE}; with split sizes: {_PAIRS}"
        )
    },
)
