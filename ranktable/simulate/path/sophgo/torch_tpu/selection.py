"""The chip that the script has selected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.simulate import device as simulated
from torch_tpu._run import RUN
from torch_tpu.chip_map import mapped
from torch_tpu.device_class import REAL

if TYPE_CHECKING:
    import torch

_selected = False


def set_device(device: int | str | torch.device) -> None:
    """Make a chip current: the one of a local rank if ``CHIP_MAP`` is set.

    Args:
        device: A local rank, or a chip without ``CHIP_MAP``; a device has its chip
            already.

    Raises:
        RuntimeError: There is no such chip.
        TypeError: It is no number, which a device is not either in a strict run.
    """
    global _selected  # noqa: PLW0603 - one chip a process is current
    if isinstance(device, REAL) and not RUN.is_strict:
        index: object = device.index
    elif isinstance(device, str) and device.startswith("tpu:") and not RUN.is_strict:
        index = mapped(device.removeprefix("tpu:"))
    else:
        index = mapped(device)
    if isinstance(index, str) and index.isdecimal():
        index = int(index)
    if index >= 0:  # type: ignore[operator]  # the TypeError is the vendor's answer
        simulated.set_device(index)  # type: ignore[arg-type]
        _selected = True


def selected_chip() -> int | None:
    """Return the current chip, None if the script has selected none."""
    return simulated.current_device() if _selected else None
