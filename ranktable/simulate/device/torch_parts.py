"""Replace parts of torch's own Python code, so that it supports the device.

Storages: torch has no allocator for the device; if C++ asks for one, the interpreter
ends with a segmentation fault. So a storage is made as that of a device tensor. Files:
torch's loader refuses an index that is not below the number of devices, but chips need
not be numbered from 0. Generators: those of the CPU are used for the device too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import _C, UntypedStorage
from torch.nn import DataParallel

from ranktable.simulate.device import inventory
from ranktable.simulate.device.module import (
    current_stream,
    mem_get_info,
    set_stream,
)

if TYPE_CHECKING:
    from collections.abc import Callable


_device = torch.device  # a vendor's module may replace it by another class
_original_new: Any = UntypedStorage.__new__
_original_resize: Any = UntypedStorage.resize_


def _resize(self: UntypedStorage, size: int) -> Any:
    if self.device.type == inventory.DEVICE_TYPE:
        raise RuntimeError(
            "the storage of a simulated tpu cannot be resized, "
            "as FSDP does; tensor.resize_ gives the tensor another one"
        )
    return _original_resize(self, size)


def _new(
    cls: type[UntypedStorage],
    *args: Any,
    device: Any = None,
    **kwargs: Any,
) -> Any:
    if device is None:
        return _original_new(cls, *args, **kwargs)
    where = _device(device)
    if where.type != inventory.DEVICE_TYPE:
        return _original_new(cls, *args, device=where, **kwargs)
    return _bytes(*args).to(where).untyped_storage()


def _bytes(content: Any = 0) -> torch.Tensor:
    if isinstance(content, int):
        return torch.empty(content, dtype=torch.uint8, device="cpu")
    return torch.tensor(list(content), dtype=torch.uint8, device="cpu")


_PRIORITY = 15  # after the CPU's 10, before those of all devices from 20 on


def _tag(storage: Any) -> str | None:
    where = storage.device
    return str(where) if where.type == inventory.DEVICE_TYPE else None


def _restore(storage: Any, location: str) -> Any:
    if location.partition(":")[0] != inventory.DEVICE_TYPE:
        return None
    index: int | None = _device(location).index
    chip = inventory.current_device() if index is None else inventory.checked(index)
    return storage.to(device=_device(inventory.DEVICE_TYPE, chip))


_TorchGenerator: Any = _C.Generator  # its types do not allow another device
_Kind: Any = type(_C.Generator)


class _AnyGenerator(_Kind):  # type: ignore[misc]  # a class made in C
    def __instancecheck__(cls, instance: object) -> bool:  # noqa: N805 - of a class of classes
        return isinstance(instance, _C.Generator)


class Generator(_TorchGenerator, metaclass=_AnyGenerator):  # type: ignore[misc]  # as above
    """The class ``torch.Generator`` after the device is installed.

    A generator of the simulated device is one of the CPU with the chip as its device.
    """

    def __new__(cls, device: Any = "cpu") -> Any:
        """Return a generator; for other devices, one of torch's class."""
        where = _device(device)
        if where.type != inventory.DEVICE_TYPE:
            return _C.Generator(device=where)
        return super().__new__(cls, device="cpu")

    def __init__(self, device: Any = "cpu") -> None:
        """Store the chip."""
        self._chip = inventory.index_of(device)

    @property
    def device(self) -> torch.device:
        """The chip."""
        return _device(inventory.DEVICE_TYPE, self._chip)

    def clone_state(self) -> Generator:
        """Return another generator of the chip, in the same state."""
        clone = Generator(self.device)
        clone.set_state(self.get_state())
        return clone

    def __reduce__(self) -> tuple[object, ...]:
        """Return what pickle needs for a copy: the chip, and then the state."""
        return Generator, (str(self.device),), self.get_state()

    def __setstate__(self, state: torch.Tensor) -> None:
        """Set the state."""
        self.set_state(state)


_scatter: Any = DataParallel.scatter


def _refuse_scatter(self: Any, *args: Any) -> Any:
    if self.src_device_obj.type != inventory.DEVICE_TYPE:
        return _scatter(self, *args)
    raise RuntimeError(
        "DataParallel gives one process several chips, and on a simulated tpu a "
        "process has one; use DistributedDataParallel"
    )


_NO_CHANGE = -1  # as an index, in torch's own functions
_DTYPES = {
    getattr(torch, name)
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    )
}


def exchange_device(index: int) -> int:
    """Make a chip current and return the one that was; -1 changes nothing."""
    previous = inventory.current_device()
    if index != _NO_CHANGE:
        inventory.set_device(index)
    return previous


def _nothing(*_: object) -> None:
    pass


_OF_ACCELERATOR: dict[str, Callable[..., object]] = {
    "emptyCache": _nothing,
    "emptyHostCache": _nothing,
    "exchangeDevice": exchange_device,
    "getDeviceCapability": lambda _: {"supported_dtypes": set(_DTYPES)},
    "getDeviceIndex": inventory.current_device,
    "getMemoryInfo": mem_get_info,
    "getStream": current_stream,
    # Without an allocator torch.accelerator has no statistics: all values are 0.
    "isAllocatorInitialized": lambda: False,
    "maybeExchangeDevice": exchange_device,
    "setDeviceIndex": inventory.set_device,
    "setStream": set_stream,
    "synchronizeDevice": _nothing,
}
"""The functions that ``torch.accelerator`` calls."""


def replace() -> None:
    """Replace all of these parts, once in a process."""
    torch.serialization.register_package(_PRIORITY, _tag, _restore)
    changed: tuple[tuple[Any, str, object], ...] = (
        (UntypedStorage, "__new__", _new),
        (UntypedStorage, "resize_", _resize),
        (torch, "Generator", Generator),
        (DataParallel, "scatter", _refuse_scatter),
    )
    for owner, name, part in changed:
        setattr(owner, name, part)
    for name, function in _OF_ACCELERATOR.items():
        setattr(_C, f"_accelerator_{name}", function)
