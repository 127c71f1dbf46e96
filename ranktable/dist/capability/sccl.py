"""SCCL: SOPHGO's chips, as its code has it and as its manual has it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ranktable.dist.capability.capability import Capability, Native

_CODE: Final = (
    "sophgo/torch-tpu torch_tpu/csrc/distributed/c10d/ProcessGroupSCCL.cpp fe9b478b"
)
_MANUAL: Final = "SOPHGO's manual, chapter on distributed communication"
_ADAPTOR: Final = (
    "accelerator/adaptor/torch_adaptor/distributed.py, which narrows bool, int8, uint8 "
    "and int64 to int32 around these"
)

_MOVES: Final = frozenset(
    {"float32", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool"}
)
_ADDS: Final = frozenset({"float32", "float16", "bfloat16", "int32"})
"""What is right with the vendor's adaptor and without it."""

_REDUCES: Final = frozenset({"sum", "product", "min", "max"})

_moving = Native(dtypes=_MOVES, source=_CODE)
_reducing = Native(dtypes=_ADDS, reductions=_REDUCES, source=f"{_CODE}; {_ADAPTOR}")

SCCL: Final = Capability(
    name="sccl",
    backend="sccl",
    device="tpu",
    operations={
        "all_reduce": _reducing,
        "reduce": _reducing,
        "broadcast": _moving,
        "all_gather": _moving,
        "gather": _moving,
        "scatter": _moving,
        "all_to_all": replace(_moving, source=f"{_CODE}; split sizes are ignored"),
        "send": _moving,
        "recv": _moving,
        "barrier": replace(_moving, source=f"{_CODE}; by all_reduce"),
    },
    refusals={
        "reduce_scatter": f"always raises ({_CODE})",
    },
)

SCCL_BY_MANUAL: Final = replace(
    SCCL,
    name="sccl:doc",
    operations={
        name: replace(native, source=f"{_MANUAL}; types: {native.source}")
        for name, native in SCCL.operations.items()
        if name not in ("send", "recv")
    },
    refusals={
        **SCCL.refusals,
        "send": f"not listed ({_MANUAL})",
        "recv": f"not listed ({_MANUAL})",
    },
)
