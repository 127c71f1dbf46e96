"""``torch.save`` and ``torch.load(map_location="tpu:4")``.

Torch's own loader refuses an index that is not below the number of devices. Chips need
not be numbered from 0.
"""

from __future__ import annotations

from typing import Any

import torch

from ranktable.simulate.device import inventory

_device = torch.device  # a vendor's module may put another class in its place
_PRIORITY = 15  # after the CPU's 10, before all devices' from 20 on


def register() -> None:
    """Register how storages of the device are named in a file, and put back."""
    torch.serialization.register_package(_PRIORITY, _tag, _restore)


def _tag(storage: Any) -> str | None:  # noqa: ANN401 - typed or untyped
    where = storage.device
    return str(where) if where.type == inventory.device_name() else None


def _restore(storage: Any, location: str) -> Any:  # noqa: ANN401 - typed or untyped
    name = inventory.device_name()
    if location != name and not location.startswith(f"{name}:"):
        return None
    index: int | None = _device(location).index
    chip = inventory.current_device() if index is None else inventory.checked(index)
    return storage.to(device=_device(name, chip))
