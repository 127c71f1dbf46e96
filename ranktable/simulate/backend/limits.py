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

import torch
from torch._C._distributed_c10d import ReduceOp

from ranktable.simulate.errors import repaired, reported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.simulate.backend.joining import World
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


def name_of(reduction: ReduceOp) -> str:
    """Return the name of a reduction: ``SUM``."""
    name: str = reduction.op.name  # type: ignore[attr-defined]
    return name


def of_memory(reduction: ReduceOp, tensor: torch.Tensor) -> ReduceOp:
    """Return the reduction of a tensor's bytes; booleans add up to 1."""
    is_sum = tensor.dtype is torch.bool and name_of(reduction) == "SUM"
    return ReduceOp(ReduceOp.MAX) if is_sum else reduction


class Limits:
    """The limits of one group.

    Attributes:
        profile: The backend.
        is_strict: Whether the vendor's defects are limits too.
    """

    def __init__(self, world: World, chip: int | None) -> None:
        """Take what tensors are held against.

        Args:
            world: This process, and the backend.
            chip: The chip that the group has for it, None if any will do.
        """
        self.profile = world.profile
        self.is_strict = world.run.is_strict
        self._world = world
        self._chip = chip

    def refuse(self, operation: str) -> None:
        """Raise if the backend does not have an operation at all.

        Raises:
            RuntimeError: It has not, in the vendor's words.
        """
        refusal = self.profile.operations[operation].refusal
        if refusal is not None:
            raise RuntimeError(refusal)

    def refuse_coalesced(self, operation: str, count: int) -> None:
        """Raise if the backend does not have an operation for several tensors at once.

        Torch's functional collectives, and so DTensor, come this way with one tensor.
        The vendor refuses that too; there is no reason but that nobody wrote it.

        Args:
            operation: The operation for one tensor.
            count: Number of tensors.

        Raises:
            RuntimeError: It has not, in the vendor's words.
        """
        coalesced = f"{operation}_coalesced"
        if count > 1 or self.is_strict:
            self.refuse(coalesced)
        refusal = self.profile.operations[coalesced].refusal
        self.refuse(operation)
        if refusal is not None:
            what = f"{operation} by way of {coalesced}, as of DTensor"
            repaired(self._world.folder, what, f"RuntimeError: {refusal}")

    def check(
        self, operation: str, tensor: torch.Tensor, reduction: ReduceOp | None = None
    ) -> None:
        """Raise if the backend does not have an operation for a tensor.

        Args:
            operation: What ``torch.distributed`` calls it.
            tensor: One of its tensors.
            reduction: How it reduces, if it does.

        Raises:
            RuntimeError: It has not, in the vendor's words.
            SimulationError: The tensor is on another chip than the group has for this
                rank, or lies in memory in a way that the vendor would ignore.
        """
        self.refuse(operation)
        profile, device = self.profile, tensor.device
        if device.type != profile.device:
            raise RuntimeError(profile.unsupported_device(operation, device.type))
        if tensor.layout is not torch.strided:
            raise RuntimeError(f"ProcessGroup{profile.title}: unsupported layout")
        if reduction is not None and name_of(reduction) not in profile.reductions:
            name = name_of(reduction)
            raise RuntimeError(profile.bad_reduction.format(reduction=name))
        dtype = str(tensor.dtype).removeprefix("torch.")
        known = profile.operations[operation]
        if dtype not in known.dtypes:
            raise RuntimeError(known.bad_dtype.format(at_name=AT_NAMES.get(dtype)))
        if device.index != self._chip and self._chip is not None:
            selected = self._world.selected_chip()
            why = " because it has never called set_device" if selected is None else ""
            raise self._error(
                f"gives {operation} a tensor on chip {device.index}{why}, but the chip "
                f"map of the group gives it chip {self._chip}"
            )

    def repair_cpu(self) -> None:
        """Warn of tensors on the CPU in a group for both."""
        repaired(
            self._world.folder,
            f"a tensor on the CPU in a group with cpu:gloo and {self.profile.backend}",
            "RuntimeError: No backend type associated with device type cpu",
        )

    def check_contiguous(self, operation: str, tensor: torch.Tensor) -> None:
        """Raise if a tensor has gaps, or another order in memory than its elements.

        Raises:
            SimulationError: It has.
        """
        if not tensor.is_contiguous():
            raise self._error(
                f"gives {operation} a tensor that is not contiguous; "
                f"{self.profile.title} takes its memory as if it were, so the values "
                "would be others; pass tensor.contiguous()"
            )

    def check_size(self, operation: str, tensor: torch.Tensor, size: int) -> None:
        """Raise if an output has another number of elements than is written to it.

        Raises:
            SimulationError: It has.
        """
        if tensor.numel() != size:
            raise self._error(
                f"gives {operation} an output of {tensor.numel()} elements, but "
                f"{self.profile.title} writes {size}, wherever they end"
            )

    def check_splits(self, operation: str, sizes: list[int]) -> None:
        """Raise if parts are of different sizes where the vendor makes them equal.

        Raises:
            SimulationError: They are.
        """
        if not self.profile.has_splits and len(set(sizes)) > 1:
            raise self._error(
                f"gives {operation} parts of {sizes} elements; "
                f"{self.profile.title} ignores this and makes all parts equal"
            )

    def _error(self, does: str) -> RuntimeError:
        rank = self._world.rank
        return reported(self._world.folder, f"rank {rank} {does}", (rank,))
