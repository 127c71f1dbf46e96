"""What a vendor's backend can do, as data, and how it refuses the rest.

Sources, by profile: ``doc`` is the vendor's manual, ``source`` its code. A message is
the vendor's own, word by word, where the code has one.

SCCL
    sophgo/torch-tpu, torch_tpu/csrc/distributed/c10d/ProcessGroupSCCL.cpp, fe9b478b
    (2025-12-09): operations, types and reductions. The manual's chapter on distributed
    communication has the same table, but neither send nor recv.
HCCL
    Ascend/pytorch, torch_npu/csrc/distributed/ProcessGroupHCCL.cpp: types and
    reductions. What it does beyond the operations below is not imitated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.simulate.run import Run

_NOT_OVERRIDDEN = "Backend {backend} does not support {name}"  # torch's c10d::Backend


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of a process group.

    Attributes:
        name: What the code of c10d calls it.
        refusal: Message of the error; None if it is supported.
        dtypes: Types of tensors that it takes.
        bad_dtype: Message for another type.
        device_gap: What stands between ``unsupported device type`` and the type.
    """

    name: str
    refusal: str | None = None
    dtypes: frozenset[str]
    bad_dtype: str
    device_gap: str = " "


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A backend and its limits.

    Attributes:
        backend: What ``init_process_group`` knows it by.
        title: What it is called in messages.
        own_name: What a group says it is.
        device: The type of its tensors.
        operations: By the name that this package gives them, see ``OPERATIONS``.
        reductions: Names of the members of ``ReduceOp`` that it has.
        bad_reduction: Message for another reduction.
        needs_chip_map: Whether a group is told the chips of its members.
        short_chip_map: Message for a chip map that is shorter than the group.
        has_splits: Whether ``all_to_all_single`` knows parts of different sizes.
    """

    backend: str
    title: str
    own_name: str
    device: str
    operations: Mapping[str, Operation]
    reductions: frozenset[str]
    bad_reduction: str
    needs_chip_map: bool
    short_chip_map: str = ""
    has_splits: bool

    def unsupported_device(self, operation: str, device: str) -> str:
        """Return the message for a tensor on another device."""
        known = self.operations[operation]
        return (
            f"ProcessGroup{self.title}::{known.name}: unsupported device type"
            f"{known.device_gap}{device}"
        )


AT_NAMES: Final = {
    "uint8": "at::kByte/at::kBool",
    "bool": "at::kByte/at::kBool",
    "float64": "at::kDouble",
}
"""What HCCL calls the types that it can move, but not add."""

OPERATIONS: Final = {
    "all_reduce": "allreduce",
    "all_reduce_coalesced": "allreduce_coalesced",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "all_gather": "allgather",
    "all_gather_coalesced": "allgather_coalesced",
    "all_gather_into_tensor": "_allgather_base",
    "all_gather_into_tensor_coalesced": "allgather_into_tensor_coalesced",
    "gather": "gather",
    "scatter": "scatter",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor": "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all": "alltoall",
    "all_to_all_single": "alltoall_base",
    "send": "send",
    "recv": "recv",
    "recv_any_source": "recvAnysource",
    "barrier": "barrier",
    "coalescing": "startCoalescing",
}
"""What ``torch.distributed`` calls an operation, and what c10d does."""

_SCCL_DTYPES = frozenset(
    {"float32", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool"}
)
_SCCL_HAS = frozenset(
    {
        *("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor"),
        *("gather", "scatter", "all_to_all_single", "send", "recv", "barrier"),
    }
)
_SCCL_REFUSALS = {
    "reduce_scatter": "ProcessGroupSCCL does not support reduce_scatter",
    "coalescing": "Backend SCCL does not implement startCoalescing",
}
_NO_GAP = ("broadcast", "send", "recv")  # the code forgot the blank in these

SCCL = Profile(
    backend="sccl",
    title="SCCL",
    own_name="SCCL",
    device="tpu",
    operations={
        name: Operation(
            name=c10d_name,
            refusal=None
            if name in _SCCL_HAS
            else _SCCL_REFUSALS.get(
                name, _NOT_OVERRIDDEN.format(backend="SCCL", name=c10d_name)
            ),
            dtypes=_SCCL_DTYPES,
            bad_dtype="Invalid scalar type",
            device_gap="" if name in _NO_GAP else " ",
        )
        for name, c10d_name in OPERATIONS.items()
    },
    reductions=frozenset({"SUM", "PRODUCT", "MIN", "MAX"}),
    bad_reduction="Cannot use ReduceOp.{reduction} with SCCL",
    needs_chip_map=True,
    short_chip_map="chip map size must be same with the nranks\n",
    has_splits=False,
)
"""SCCL as its code has it."""

SCCL_BY_MANUAL = replace(
    SCCL,
    operations={
        **SCCL.operations,
        **{
            name: replace(
                SCCL.operations[name],
                refusal=_NOT_OVERRIDDEN.format(backend="SCCL", name=name),
            )
            for name in ("send", "recv")
        },
    },
)
"""SCCL as its manual has it."""

_HCCL_DTYPES = frozenset(
    {
        *("uint8", "int8", "int16", "int32", "int64", "bool"),
        *("float16", "float32", "float64", "bfloat16"),
    }
)
_HCCL_ADDS = _HCCL_DTYPES - {"uint8", "bool", "float64"}
_HCCL_REDUCES = {
    "all_reduce": "AllReduce",
    "reduce": "Reduce",
    "reduce_scatter": "ReduceScatter",
    "reduce_scatter_tensor": "_ReduceScatterBase",
}
_HCCL_HAS = frozenset(set(OPERATIONS) - {"recv_any_source"})


def _hccl_bad_dtype(operation: str) -> str:
    function = _HCCL_REDUCES.get(operation)
    if function is None:
        return "Unsupported data type for HCCL process group"
    return f"HCCL {function}: Unsupported data type {{at_name}}"


HCCL = Profile(
    backend="hccl",
    title="HCCL",
    own_name="hccl",
    device="npu",
    operations={
        name: Operation(
            name=c10d_name,
            refusal=None
            if name in _HCCL_HAS
            else _NOT_OVERRIDDEN.format(backend="hccl", name=c10d_name),
            dtypes=_HCCL_ADDS if name in _HCCL_REDUCES else _HCCL_DTYPES,
            bad_dtype=_hccl_bad_dtype(name),
        )
        for name, c10d_name in OPERATIONS.items()
    },
    reductions=frozenset({"SUM", "PRODUCT", "MIN", "MAX"}),
    bad_reduction="HCCL has no ReduceOp.{reduction}",  # its code takes it for another
    needs_chip_map=False,
    has_splits=True,
)
"""HCCL, for tests of launches."""


def profile_of(run: Run) -> Profile:
    """Return the limits that a run has."""
    if run.vendor == "ascend":
        return HCCL
    return SCCL if run.profile == "source" else SCCL_BY_MANUAL
