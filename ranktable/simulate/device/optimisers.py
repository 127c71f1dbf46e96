"""Optimisers that do by default what they do on the CPU.

Where the user does not choose, ``torch.optim`` updates the parameters one by one on the
CPU, and all of them at once (``foreach``) on other devices, where ASGD, NAdam and RAdam
then round differently. Here the choice is the CPU's; an explicit one stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.optim import optimizer, swa_utils

from ranktable.simulate.device import inventory

if TYPE_CHECKING:
    from collections.abc import Callable

_DEVICES = "_get_foreach_kernels_supported_devices"


def register() -> None:
    """Take the device from the devices on which ``foreach`` is the default."""
    for module in (optimizer, swa_utils):
        setattr(module, _DEVICES, _without_device(getattr(module, _DEVICES)))


def _without_device(devices: Callable[[], list[str]]) -> Callable[[], list[str]]:
    def others() -> list[str]:
        return [name for name in devices() if name != inventory.device_name()]

    return others
