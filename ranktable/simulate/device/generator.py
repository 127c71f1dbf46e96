"""Random generators: those of the CPU serve the device too."""

from __future__ import annotations

from typing import Any

import torch
from torch import _C

from ranktable.simulate.device import inventory

_device = torch.device  # a vendor's module may put another class in its place


_Kind: Any = type(_C.Generator)


class _AnyGenerator(_Kind):  # type: ignore[misc]  # a class made in C
    def __instancecheck__(cls, instance: object) -> bool:  # noqa: N805 - of a class of classes
        return isinstance(instance, _C.Generator)


class Generator(_C.Generator, metaclass=_AnyGenerator):
    """What ``torch.Generator`` is once the device is installed."""

    def __new__(cls, device: Any = "cpu") -> Any:  # noqa: ANN401 - not of its own class
        """Return a generator of torch's; refuse one on the simulated device.

        Raises:
            RuntimeError: The device is the simulated one.
        """
        name = inventory.device_name()
        if _device(device).type == name:
            raise RuntimeError(
                f"a simulated {name} has no generator of its own; use "
                'torch.Generator(device="cpu"), which its operators take too'
            )
        return _C.Generator(device=device)


def register() -> None:
    """Replace ``torch.Generator``."""
    setattr(torch, "Generator", Generator)  # noqa: B010 - mypy sees a class
