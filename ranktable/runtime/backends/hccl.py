"""HCCL: Huawei's Ascend chips, according to the code of torch_npu.

Product is left out: the code passes it on, but Atlas A2 and A3 refuse it for int16 and
bfloat16. So is mean: the code refuses it, and later revisions make it from a sum and a
division.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ranktable.runtime.backends.backend import Backend, GroupCode, Operation

_CODE: Final = (
    "Ascend/pytorch torch_npu/csrc/distributed/ProcessGroupHCCL.cpp 0017cdfc8d"
)
_TYPES: Final = "Ascend/pytorch torch_npu/csrc/distributed/HCCLUtils.cpp 00f1d60554"
_PYTHON: Final = "Ascend/pytorch torch_npu/distributed/distributed_c10d.py 1ea51d26f2"
_MANUAL: Final = "CANN 8.5.0 manual, HcclReduce (hcclcpp_07_0025)"

_ADDS: Final = frozenset(
    {
        *("int8", "int16", "int32", "int64"),
        *("float16", "bfloat16", "float32"),
    }
)
"""Types that HCCL itself reduces; the code refuses all others."""

_CASTS: Final = frozenset({"uint8", "bool"})
"""Types that the code reduces as int32, and converts back."""

_MOVES: Final = _ADDS | _CASTS | {"float64"}
"""Types that can be sent; two types of eight bits exist too, on some chips."""

_REDUCES: Final = frozenset({"sum", "min", "max"})
_PRODUCT: Final = frozenset({"product"})

_moving = Operation(dtypes=_MOVES, source=f"{_CODE}; types: {_TYPES}")
_reducing = Operation(
    dtypes=_ADDS | _CASTS,
    reductions=_REDUCES,
    unsafe_reductions=_PRODUCT,
    source=f"{_CODE}; uint8 and bool by way of int32; {_MANUAL}",
)

BACKEND: Final = Backend(
    name="hccl",
    device_type="npu",
    package="torch_npu",
    visible_by="ASCEND_RT_VISIBLE_DEVICES",
    is_coalescing=True,
    operations={
        "all_reduce": _reducing,
        "reduce": _reducing,
        "reduce_scatter": Operation(
            dtypes=_ADDS,
            reductions=_REDUCES,
            unsafe_reductions=_PRODUCT,
            has_uneven=True,
            source=f"{_CODE}; uneven by reduces; {_MANUAL}",
        ),
        "broadcast": _moving,
        "all_gather": replace(
            _moving, has_uneven=True, source=f"{_moving.source}; uneven by broadcasts"
        ),
        "gather": replace(
            _moving,
            has_uneven=True,
            is_derived=True,
            source=f"{_PYTHON}: shapes by broadcast_object_list, then all_gather; "
            f"the group itself refuses ({_CODE})",
        ),
        "scatter": _moving,
        "all_to_all": replace(_moving, has_uneven=True),
        "send": _moving,
        "recv": _moving,
        "barrier": replace(_moving, source=f"{_CODE}; by all_reduce"),
    },
    group_code=GroupCode(
        title="HCCL",
        own_name="hccl",
        methods=frozenset(
            {
                *("allreduce", "allreduce_coalesced", "broadcast", "reduce"),
                *("allgather", "allgather_coalesced", "_allgather_base"),
                *("allgather_into_tensor_coalesced", "gather", "scatter"),
                *("reduce_scatter", "_reduce_scatter_base", "alltoall"),
                *("reduce_scatter_tensor_coalesced", "alltoall_base", "send"),
                *("recv", "barrier", "startCoalescing"),
            }
        ),
        bad_dtype="Unsupported data type for HCCL process group",
        bad_reduction="HCCL has no ReduceOp.{reduction}",
    ),
)
