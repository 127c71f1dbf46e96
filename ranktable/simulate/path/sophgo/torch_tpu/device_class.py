"""``torch.device``, whose index is a local rank where ``CHIP_MAP`` is set.

The vendor puts a class in the place of torch's. It maps the index of ``tpu:N`` and of a
bare number, and of the form with two arguments whatever the type, ``cpu`` included.
Torch's own code calls it too, with chips that were mapped before. Here the index is
mapped once, and only in what the user's code says; unless the run is strict.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import torch

from torch_tpu._run import RUN
from torch_tpu.chip_map import VARIABLE, mapped

REAL = torch.device
_NAME = "tpu"
_NAMED = re.compile(rf"{_NAME}:(\d+)", re.IGNORECASE)
_CALLERS_WITH_CHIPS = ("torch.", "ranktable.simulate.")


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
    if not RUN.is_strict or not os.environ.get(VARIABLE):
        return (first, *rest)
    return (first, _chip(rest[0]), *rest[1:])


def _mapped_argument(argument: object) -> object:
    if isinstance(argument, int):
        return f"{_NAME}:{_chip(argument)}"
    if isinstance(argument, str) and (named := _NAMED.fullmatch(argument)):
        return f"{_NAME}:{_chip(int(named[1]))}"
    return argument


def _chip(index: object) -> object:
    text = os.environ.get(VARIABLE)
    if text and RUN.is_strict and isinstance(index, int):
        # Beyond the end the vendor begins anew (e793a3f5, 2025-10-29).
        index %= text.count(",") + 1
    return mapped(index)


def put_in_place() -> None:
    """Make it what ``torch.device`` is."""
    torch.device = Device  # type: ignore[misc]
