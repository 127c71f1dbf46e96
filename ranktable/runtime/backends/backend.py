"""A communication library as data: how it starts, what it can do, and its choice."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ranktable.runtime.errors import BootstrapError
from ranktable.runtime.torch_versions import why_too_old

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch

NAMES: Final = ("sccl", "nccl", "gloo", "hccl", "cncl", "mccl", "xccl", "mpi")
"""The backends; each is declared in the module of its name, loaded if needed."""

TABLES: Final = (
    *("gloo", "nccl", "mpi", "sccl", "sccl:doc", "hccl", "cncl", "mccl", "xccl"),
)
"""The tables of operations, in the order of a listing."""

_PROFILES: Final = {"gloo:2.1": "V2_1", "sccl:doc": "DOC"}
"""Where a backend's module has its other tables."""

_BY_DEFAULT: Final = ("sccl", "nccl", "hccl", "cncl", "mccl", "xccl", "gloo")
"""The first one that works is the default, so accelerators come before CPUs."""

REAL: Final = frozenset(
    {
        *("uint8", "int8", "int32", "int64", "bool"),
        *("float16", "bfloat16", "float32", "float64"),
    }
)
COMPLEX: Final = frozenset({"complex64", "complex128"})
"""Types that most libraries support, because torch passes their real parts."""

VIEWS: Final = (
    "complex viewed as real by torch/distributed/distributed_c10d.py cf30153c4c"
)

PRIMITIVES: Final = (
    *("all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter"),
    *("reduce_scatter", "all_to_all", "send", "recv", "barrier"),
)
"""Operations that a backend may have; all others are made from these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where one process runs.

    Attributes:
        rank: Its global rank.
        local_rank: Its index on its node, None if it is not known.
        device_id: Its chip, None if it is not known; a backend with devices needs it.
        local_chip_map: The chips of its node by local rank; empty if not known.
    """

    rank: int
    local_rank: int | None
    device_id: int | None
    local_chip_map: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of a backend.

    Attributes:
        dtypes: The types that it supports, by their names in torch.
        reductions: The reductions that are right for these types.
        unsafe_dtypes: Types that it accepts too, although the result may be wrong; a
            simulated chip accepts them like the real one.
        unsafe_reductions: The same for reductions.
        has_uneven: Whether parts may have different sizes.
        is_derived: Whether the backend makes it from slower operations, so that another
            way is better.
        source: Where this is documented, or how it was measured.
    """

    dtypes: frozenset[str]
    reductions: frozenset[str] = frozenset()
    unsafe_dtypes: frozenset[str] = frozenset()
    unsafe_reductions: frozenset[str] = frozenset()
    has_uneven: bool = False
    is_derived: bool = False
    source: str

    def takes(self, dtype: str, reduction: str | None = None) -> bool:
        """Whether it accepts a type and a reduction, with a right result or not."""
        if dtype not in self.dtypes | self.unsafe_dtypes:
            return False
        return reduction is None or reduction in (
            self.reductions | self.unsafe_reductions
        )


def grouped_operations(
    *, moving: Operation, pairwise: Operation, reducing: Operation, code: str
) -> dict[str, Operation]:
    """Return the operations of a library with the same interface as NCCL.

    Args:
        moving: Operations that send tensors.
        pairwise: Operations that are made from sends and receives.
        reducing: Operations that reduce tensors.
        code: The source for all of them.
    """
    uneven = f"{reducing.source}; uneven by grouped reduces"
    gathering = f"{moving.source}; uneven by grouped broadcasts"
    return {
        "all_reduce": reducing,
        "reduce": reducing,
        "reduce_scatter": replace(reducing, has_uneven=True, source=uneven),
        "broadcast": moving,
        "all_gather": replace(moving, has_uneven=True, source=gathering),
        "gather": pairwise,
        "scatter": pairwise,
        "all_to_all": replace(pairwise, has_uneven=True),
        "send": moving,
        "recv": moving,
        "barrier": replace(moving, source=f"{code}; by all_reduce"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCode:
    """The methods of a vendor's class of process groups, and its error messages.

    Attributes:
        title: The end of the class name, after ``ProcessGroup``.
        own_name: The backend name that a group returns.
        methods: The operations that it has, by the names of torch's C++ class.
        bad_dtype: Message for an unsupported type.
        bad_reduction: Message for an unsupported reduction.
        refusals: Message for a missing method, if it is not that of torch.
    """

    title: str
    own_name: str
    methods: frozenset[str]
    bad_dtype: str
    bad_reduction: str
    refusals: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def refusal(self, method: str) -> str | None:
        """Return the error message for a method, None if the method exists."""
        if method in self.methods:
            return None
        torchs = f"Backend {self.own_name} does not support {method}"
        return self.refusals.get(method, torchs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A communication library and the devices it serves.

    Attributes:
        name: Its name in ``torch.distributed``.
        profile: Name of one of several descriptions; empty for the usual one.
        config: The text for torch if there are several backends,
            ``cpu:gloo,cuda:nccl``.
        device_type: The type of devices whose tensors it accepts.
        package: The package to import besides torch; empty for none.
        visible_by: The variable that says which devices a process can see.
        needs_chip_map: Whether a group needs the chips of its members.
        is_coalescing: Whether it does one transfer after the other on a stream. Two
            ranks that both start with a send would then wait for each other, unless
            torch passes all of them at once.
        operations: Its operations by name, see ``PRIMITIVES``.
        refusals: Why it lacks an operation, with the source, if that is known.
        group_code: The vendor's class of groups, if it is known.
        why_unusable: Returns why it cannot be used here, None if it can; by default
            its package and its device are searched.
        select: Makes the chip of a process current and returns it; by default the
            device with that number.
        options: Returns the ``pg_options`` of a group, given the chips of its members.
    """

    name: str
    profile: str = ""
    config: str = ""
    device_type: str
    package: str = ""
    visible_by: str = ""
    needs_chip_map: bool = False
    is_coalescing: bool = False
    operations: Mapping[str, Operation]
    refusals: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    group_code: GroupCode | None = None
    why_unusable: Callable[[], str | None] | None = None
    select: Callable[[Placement], torch.device] | None = None
    options: Callable[[Sequence[int] | None], object] | None = None

    @property
    def table_name(self) -> str:
        """The name of its table: its own name, and a profile after a colon."""
        return f"{self.name}:{self.profile}" if self.profile else self.name

    @property
    def serves_cpu(self) -> bool:
        """Whether it accepts tensors on CPUs."""
        return self.device_type == "cpu"

    def has(self, operation: str, dtype: str, reduction: str | None = None) -> bool:
        """Whether it supports an operation with a type and a reduction."""
        found = self.operations.get(operation)
        return (
            found is not None
            and dtype in found.dtypes
            and (reduction is None or reduction in found.reductions)
        )

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
        count, index = module.device_count(), placement.device_id
        if count == 1:
            index = 0  # Slurm's --gpus-per-task=1 hides the other devices
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
        from ranktable.schema.diagnostic import counted

        return BootstrapError(
            "RT403",
            f"rank {placement.rank} has device {placement.device_id}, but this process "
            f"sees {counted(count, self._device_word())}; correct device_id in the "
            f"rank table, or {self.visible_by}",
            (placement.rank,),
        )


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


def backend_named(name: str) -> Backend:
    """Return a backend by its name, with a profile after a colon if it has several.

    Raises:
        KeyError: There is no such backend.
    """
    if name not in NAMES and name not in _PROFILES:
        raise KeyError(name)
    module = importlib.import_module(f"{__package__}.{name.partition(':')[0]}")
    found: Backend = getattr(module, _PROFILES.get(name, "BACKEND"))
    return found


def choose_backend(name: str | None) -> Backend:
    """Return the backend with this name, or the first that can be used here.

    Args:
        name: A backend, or one for each type of device: ``cpu:gloo,cuda:nccl``. Of
            several, the one with a device is returned; its ``config`` names all.

    Raises:
        BootstrapError: There is no such backend, or it cannot be used here.
    """
    if "torch" not in sys.modules:
        from ranktable.runtime.backends.sccl import (
            refuse_before_torch,
        )

        refuse_before_torch()
    if name is not None:
        parts = [part.rpartition(":")[2] for part in name.split(",")]
        chosen = [_usable(part) for part in parts]
        main = next((each for each in chosen if not each.serves_cpu), chosen[0])
        return replace(main, config=name)
    reasons = []
    for each in _BY_DEFAULT:
        try:
            return _usable(each)
        except BootstrapError as error:  # noqa: PERF203 - seven at most
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
