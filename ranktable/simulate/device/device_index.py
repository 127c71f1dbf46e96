"""Whatever names a chip, as its index."""

from __future__ import annotations

from typing import Any

import torch

from ranktable.simulate.device import inventory

_device = torch.device  # a vendor's module may put another class in its place


def index_of(device: Any = None) -> int:  # noqa: ANN401 - None, int, str, torch.device
    """Return the index of a chip; of the current one if none is named.

    Raises:
        ValueError: It names another kind of device.
        RuntimeError: The chip does not exist.
    """
    if device is None:
        return inventory.current_device()
    if isinstance(device, int):
        return inventory.checked(device)
    found: Any = _device(device)
    if found.type != inventory.device_name():
        raise ValueError(f"expected a {inventory.device_name()} device, not {found}")
    if found.index is None:
        return inventory.current_device()
    return inventory.checked(found.index)
