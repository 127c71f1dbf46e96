"""``torch.device``, whose index is a local rank where ``CHIP_MAP`` is set.

The vendor puts a class in the place of torch's. It maps the index of ``tpu:N``, of a
bare number, and of the form with two arguments, whether the user's code or torch's own
says it: ``DistributedDataParallel(device_ids=[LOCAL_RANK])`` and DTensor give a local
rank. But it maps ``cpu`` too, and what was mapped before, such as the index of a tensor
in ``tensor.tpu(device)``. Here an index is mapped once, and only that of a chip; unless
the run is strict.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import torch
from torch import _utils
from torch.nn.parallel import data_parallel, distributed
from torch.utils import backend_registration

from ranktable.simulate import device as simulated
from torch_tpu._run import RUN
from torch_tpu.chip_map import VARIABLE, mapped

REAL = torch.device
_NAME = "tpu"
_NAMED = re.compile(rf"{_NAME}:(\d+)", re.IGNORECASE)
# Modules that say which chip a tensor is on, or was on.
_CALLERS_WITH_CHIPS = (
    *("ranktable.simulate.", "copy.", "torch._", "torch.fx."),
    *("torch.serialization.", "torch.utils."),
)


class Chip(int):
    """The index of a chip, which is mapped already."""


def current_device() -> int:
    """Return the current chip."""
    index = simulated.current_device()
    return index if RUN.is_strict else Chip(index)


class _DeviceClass(type):
    """Makes instances of torch's class instances of this one."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, REAL)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is Device or issubclass(subclass, REAL)

    def __eq__(cls, other: object) -> bool:
        return other is REAL or other is Device

    def __hash__(cls) -> int:
        return hash(REAL)

    def __getattr__(cls, name: str) -> object:
        return getattr(REAL, name)


class Device(metaclass=_DeviceClass):
    """torch.device."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as torch's
        """Return a device of torch's own class."""
        caller = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001
        if not RUN.is_strict and f"{caller}.".startswith(_CALLERS_WITH_CHIPS):
            return REAL(*args, **kwargs)
        if args:
            args = _mapped_arguments(*args)
        elif "device" in kwargs:
            kwargs["device"] = _mapped_argument(kwargs["device"])
        return REAL(*args, **kwargs)


def _mapped_arguments(first: object, *rest: object) -> tuple[object, ...]:
    if not rest:
        return (_mapped_argument(first),)
    if first != _NAME and not RUN.is_strict:
        return (first, *rest)
    return (first, _chip(rest[0]), *rest[1:])


def _mapped_argument(argument: object) -> object:
    if isinstance(argument, int):
        return f"{_NAME}:{_chip(argument)}"
    if isinstance(argument, str) and (named := _NAMED.fullmatch(argument)):
        return f"{_NAME}:{_chip(int(named[1]))}"
    return argument


def _chip(index: object) -> object:
    if isinstance(index, Chip):
        return int(index)
    text = os.environ.get(VARIABLE)
    if text and RUN.is_strict and isinstance(index, int):
        # Beyond the end the vendor begins anew (e793a3f5, 2025-10-29).
        index %= text.count(",") + 1
    return mapped(index)


def _index_for_method(name: str, device: Any = None) -> object:  # noqa: ANN401 - int, str, torch.device
    """Return the chip for ``tensor.tpu(device)`` and ``module.tpu(device)``."""
    if isinstance(device, str):
        device = Device(device)
    if not isinstance(device, REAL):
        return simulated.current_device() if device is None else _chip(device)
    if device.type != name:
        raise RuntimeError(f"Invalid device, must be {name} device")
    return simulated.current_device() if device.index is None else device.index


_index_of_ids = _utils._get_device_index  # noqa: SLF001 - torch's


def _index_for_ids(device: Any, *args: Any, **kwargs: Any) -> int:  # noqa: ANN401 - as torch's
    """Return the index of a member of ``device_ids``; a device has its chip already."""
    index = _index_of_ids(device, *args, **kwargs)
    return index if isinstance(device, int) else Chip(index)


def put_in_place() -> None:
    """Make it what ``torch.device`` is."""
    torch.device = Device  # type: ignore[misc]
    if not RUN.is_strict:
        backend_registration._normalization_device = _index_for_method  # type: ignore[assignment]  # noqa: SLF001
        for module in (_utils, data_parallel, distributed):
            module._get_device_index = _index_for_ids  # noqa: SLF001
