"""The communication backends: one value each, and the choice among them.

A value says how a backend starts and what it can do. Its table says which operations
give the right result for which types; ``ranktable.dist`` does the others itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ranktable.runtime.backends import sccl
from ranktable.runtime.errors import BootstrapError
from ranktable.runtime.process_chip import ASCEND_LIST, read_ascend_list, read_gpu_list
from ranktable.runtime.torch_versions import why_too_old

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

OPERATIONS: Final = (
    *("all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter"),
    *("reduce_scatter", "all_to_all", "send", "recv", "barrier"),
)
"""The operations that a backend may have."""

REDUCING: Final = frozenset({"all_reduce", "reduce", "reduce_scatter"})
"""Those of them that reduce."""

_TYPES: Final = frozenset(
    {
        *("uint8", "int8", "int32", "int64", "bool"),
        *("float16", "bfloat16", "float32", "float64"),
    }
)
"""The types that most libraries have."""

_REDUCTIONS: Final = frozenset({"sum", "product", "min", "max"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The place of one process in its job.

    Attributes:
        rank: Its global rank.
        world_size: Number of processes of the job.
        local_rank: Its index on its node, None if it is not known.
        device_id: Its chip, None if it is not known; a backend with devices needs it.
        local_chip_map: The chips of its node by local rank; empty if not known.
        is_of_host: Whether chips have numbers of the host, as in a rank table, and not
            of what this process sees.
        digest: Digest of the rank table, None without one.
    """

    rank: int
    world_size: int
    local_rank: int | None
    device_id: int | None
    local_chip_map: tuple[int, ...]
    is_of_host: bool = False
    digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A communication library and the devices it serves.

    Attributes:
        name: Its name in ``torch.distributed``.
        config: The text for torch if there are several backends,
            ``cpu:gloo,cuda:nccl``.
        device_type: The type of devices whose tensors it accepts.
        package: The package to import besides torch; empty for none.
        visible_by: The variable that says which devices a process can see.
        needs_chip_map: Whether a group needs the chips of its members.
        moves: The types that it can send, by their names in torch.
        adds: The types that it reduces rightly.
        reductions: The reductions that are right for all of these types.
        lacks: The operations that it does not have.
        source: Where this is documented, or how it was measured.
        why_unusable: Returns why it cannot be used here, None if it can; by default
            its package and its device are searched.
        select: Makes the chip of a process current and returns it; by default the
            device with that number.
        options: Returns the ``pg_options`` of a group, given the chips of its members.
    """

    name: str
    config: str = ""
    device_type: str
    package: str = ""
    visible_by: str = ""
    needs_chip_map: bool = False
    moves: frozenset[str] = _TYPES
    adds: frozenset[str] = _TYPES
    reductions: frozenset[str] = _REDUCTIONS
    lacks: frozenset[str] = frozenset()
    source: str
    why_unusable: Callable[[], str | None] | None = None
    select: Callable[[Placement], torch.device] | None = None
    options: Callable[[Sequence[int] | None], object] | None = None

    @property
    def serves_cpu(self) -> bool:
        """Whether it accepts tensors on CPUs."""
        return self.device_type == "cpu"

    def has(self, operation: str, dtype: str, reduction: str | None = None) -> bool:
        """Whether an operation gives the right result for a type and a reduction."""
        if operation in self.lacks:
            return False
        if reduction is None:
            return dtype in (self.adds if operation in REDUCING else self.moves)
        return dtype in self.adds and reduction in self.reductions

    def why_not(self) -> str | None:  # noqa: PLR0911 - one for each reason
        """Return why it cannot be used here, None if it can.

        Raises:
            BootstrapError: A package is installed that must not be imported.
        """
        if self.why_unusable is not None:
            return self.why_unusable()
        reason = why_no_torch()
        if reason is not None:
            return reason
        if self.package and importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed"
        import torch.distributed as dist

        # Torch does not know a vendor's backend before its package is imported.
        is_built = getattr(dist, f"is_{self.name}_available", lambda: True)
        if not (dist.is_available() and is_built()):
            return f"this build of torch has no {self.name}"
        if self.serves_cpu:
            return None
        module = self._device_module()
        if module is None or not module.is_available():
            return f"there is no {self._device_word()} here"
        return None

    def select_device(self, placement: Placement) -> torch.device:
        """Make the device of this process current and return it.

        Raises:
            BootstrapError: The host has no such device.
            ConflictingVariablesError: The environment names another one.
        """
        if self.select is not None:
            return self.select(placement)
        import torch

        if self.serves_cpu:
            return torch.device("cpu")
        assert placement.device_id is not None
        module = self._device_module()
        assert module is not None
        count = module.device_count()
        listed = os.environ.get(self.visible_by, "") if placement.is_of_host else ""
        read = read_ascend_list if self.visible_by == ASCEND_LIST else read_gpu_list
        index = visible_index(placement, count, read(listed, None).entries)
        if index >= count:
            raise self._no_device(placement, count)
        module.set_device(index)
        return torch.device(self.device_type, index)

    def group_options(self, chip_map: Sequence[int] | None) -> object | None:
        """Return ``pg_options`` of a group.

        Args:
            chip_map: The chip of each member, in the order of the group.
        """
        return None if self.options is None else self.options(chip_map)

    def _device_module(self) -> Any:
        if self.package:
            try:
                importlib.import_module(self.package)
            except (ImportError, OSError, RuntimeError) as error:
                raise BootstrapError(
                    "RT401", f"{self.package} cannot be imported: {error}"
                ) from error
        import torch

        return getattr(torch, self.device_type, None)

    def _device_word(self) -> str:
        return f"{self.device_type.upper()} device"

    def _no_device(self, placement: Placement, count: int) -> BootstrapError:
        from ranktable.schema.text import counted

        return BootstrapError(
            "RT403",
            f"rank {placement.rank} has device {placement.device_id}, but this process "
            f"sees {counted(count, self._device_word())}; correct device_id in the "
            f"rank table, or {self.visible_by}",
            (placement.rank,),
        )


def visible_index(
    placement: Placement, count: int, listed: Sequence[int | str] = ()
) -> int:
    """Return the index of a process's chip among those that it sees.

    It is the same chip for all processes of a node, whichever way they see it: the
    answer follows from the chips of the node, never from this one alone.

    Args:
        placement: The place of the process; it has a chip.
        count: How many chips the process sees.
        listed: The numbers in its list of visible chips.
    """
    number, chips = placement.device_id, placement.local_chip_map
    assert number is not None
    if count == 1:
        return 0  # Slurm's --gpus-per-task=1 hides the other devices
    if placement.is_of_host and set(chips) <= set(listed):
        return listed.index(number)
    if placement.is_of_host and max(chips) >= count == len(chips):
        return sorted(chips).index(number)  # a container shows these chips alone
    return number


def why_no_torch() -> str | None:
    """Return why torch cannot be imported, None if it can."""
    try:
        torch = importlib.import_module("torch")
        importlib.import_module("torch.distributed")
    except ModuleNotFoundError as error:
        if error.name == "torch":
            return "torch is not installed"
        return f"torch cannot be imported: {error}"
    except (ImportError, OSError, RuntimeError) as error:
        return f"torch cannot be imported: {error}"  # a library that it needs
    return why_too_old(str(torch.__version__))


SCCL: Final = Backend(
    name="sccl",
    device_type="tpu",
    needs_chip_map=True,
    moves=_TYPES - {"float64"},
    # The vendor's adaptor narrows bool, int8, uint8 and int64 to int32 around sums; a
    # type is here if it is right both with and without the adaptor.
    adds=frozenset({"float32", "float16", "bfloat16", "int32"}),
    lacks=frozenset({"reduce_scatter"}),
    source=(
        "sophgo/torch-tpu torch_tpu/csrc/distributed/c10d/ProcessGroupSCCL.cpp "
        "fe9b478b: reduce_scatter always raises, all_to_all ignores split sizes"
    ),
    why_unusable=sccl.why_not,
    select=sccl.select_device,
    options=sccl.group_options,
)
"""SOPHGO's chips."""

# Two types of eight bits are in torch's table since NCCL 2.24, but chips before sm90
# refuse them (pytorch/pytorch#151594); as uint8 they can be sent on every chip.
NCCL: Final = Backend(
    name="nccl",
    device_type="cuda",
    visible_by="CUDA_VISIBLE_DEVICES",
    source=(
        "pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp 0007e752d5 "
        "and NCCLUtils.hpp cf30153c4c"
    ),
)
"""NVIDIA's chips."""

_HCCL_ADDS: Final = frozenset(
    {"int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"}
)
# The code passes products on, but Atlas A2 and A3 refuse them for int16 and bfloat16.
HCCL: Final = Backend(
    name="hccl",
    device_type="npu",
    package="torch_npu",
    visible_by="ASCEND_RT_VISIBLE_DEVICES",
    moves=_HCCL_ADDS | {"uint8", "bool", "float64"},
    adds=_HCCL_ADDS,
    reductions=_REDUCTIONS - {"product"},
    source=(
        "Ascend/pytorch torch_npu/csrc/distributed/ProcessGroupHCCL.cpp 0017cdfc8d; "
        "gather by torch_npu/distributed/distributed_c10d.py 1ea51d26f2; CANN 8.5.0 "
        "manual, HcclReduce (hcclcpp_07_0025)"
    ),
)
"""Huawei's Ascend chips."""

# The code passes float64 to CNCL as a float of 32 bits.
CNCL: Final = Backend(
    name="cncl",
    device_type="mlu",
    package="torch_mlu",
    visible_by="MLU_VISIBLE_DEVICES",
    moves=_TYPES - {"float64"},
    adds=_TYPES - {"float64"},
    source=(
        "Cambricon/torch_mlu torch_mlu/csrc/framework/distributed/"
        "process_group_cncl.cpp 036a1a7bdf"
    ),
)
"""Cambricon's chips."""

MCCL: Final = Backend(
    name="mccl",
    device_type="musa",
    package="torch_musa",
    visible_by="MUSA_VISIBLE_DEVICES",
    source=(
        "MooreThreads/torch_musa torch_musa/csrc/distributed/ProcessGroupMCCL.cpp "
        "101c1311f3"
    ),
)
"""Moore Threads' chips."""

XCCL: Final = Backend(
    name="xccl",
    device_type="xpu",
    visible_by="ZE_AFFINITY_MASK",
    source="intel/torch-xpu-ops src/xccl/ProcessGroupXCCL.cpp 0029c2c232",
)
"""Intel's chips."""

GLOO: Final = Backend(
    name="gloo",
    device_type="cpu",
    reductions=_REDUCTIONS | {"band", "bor", "bxor"},
    source="measured with torch 2.13",
)
"""Processes on CPUs."""

# int8 is MPI_CHAR, which the standard does not reduce, but Open MPI 4.1.4 does.
_MPI_TYPES: Final = (_TYPES | {"int16"}) - {"bool", "float16", "bfloat16"}
MPI: Final = Backend(
    name="mpi",
    device_type="cpu",
    moves=_MPI_TYPES,
    adds=_MPI_TYPES,
    lacks=frozenset({"reduce_scatter"}),
    source=(
        "pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupMPI.cpp 8845674172; "
        "reduce_scatter exists since pytorch/pytorch#150162"
    ),
)
"""Processes on CPUs, in torch built with MPI."""

BACKENDS: Final = (SCCL, NCCL, HCCL, CNCL, MCCL, XCCL, GLOO, MPI)
"""All backends. Without a choice, the first that works is taken, but never MPI."""

NAMES: Final = tuple(each.name for each in BACKENDS)


def backend_named(name: str) -> Backend:
    """Return a backend by its name.

    Raises:
        KeyError: There is no such backend.
    """
    for each in BACKENDS:
        if each.name == name:
            return each
    raise KeyError(name)


def choose_backend(name: str | None) -> Backend:
    """Return the backend with this name, or the first that can be used here.

    Args:
        name: A backend, or one for each type of device: ``cpu:gloo,cuda:nccl``. Of
            several, the one with a device is returned; its ``config`` names all.

    Raises:
        BootstrapError: There is no such backend, or it cannot be used here.
    """
    if "torch" not in sys.modules:
        sccl.refuse_before_torch()
    if name is not None:
        parts = [part.rpartition(":")[2] for part in name.split(",")]
        chosen = [_usable(part) for part in parts]
        main = next((each for each in chosen if not each.serves_cpu), chosen[0])
        return replace(main, config=name)
    reasons = []
    for each in BACKENDS:
        if each is MPI:
            continue
        try:
            return _usable(each.name)
        except BootstrapError as error:
            reasons.append(error.message)  # another backend may work
    raise BootstrapError("RT401", "; ".join(reasons))


def _usable(name: str) -> Backend:
    """Return a backend that can be used here.

    Raises:
        BootstrapError: There is no such backend, or it cannot be used here.
    """
    if name not in NAMES:
        raise BootstrapError(
            "RT401", f"there is no backend {name!r}; there are: {', '.join(NAMES)}"
        )
    backend = backend_named(name)
    reason = backend.why_not()
    if reason is not None:
        raise BootstrapError("RT401", f"{name} cannot be used: {reason}")
    return replace(backend, config=name)
