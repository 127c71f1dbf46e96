"""The chip that the script has selected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.simulate import device as simulated
from ranktable.simulate.errors import repaired
from torch_tpu._run import FOLDER, RUN
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
    is_named = isinstance(device, str) and device.startswith("tpu:")
    if RUN.is_strict or not (isinstance(device, REAL) or is_named):
        index = mapped(device)
    else:
        kind = "str" if isinstance(device, str) else "torch.device"
        repaired(
            FOLDER,
            f"set_device with a {kind}",
            f"TypeError: '>=' not supported between instances of '{kind}' and 'int'",
        )
        index = _index(device)
    if isinstance(index, str) and index.isdecimal():
        index = int(index)
    if index >= 0:  # type: ignore[operator]  # the TypeError is the vendor's answer
        simulated.set_device(index)  # type: ignore[arg-type]
        _selected = True


def _index(device: Any) -> object:  # noqa: ANN401 - str, torch.device
    if isinstance(device, REAL):
        return device.index
    return mapped(device.removeprefix("tpu:"))


def selected_chip() -> int | None:
    """Return the current chip, None if the script has selected none."""
    return simulated.current_device() if _selected else None
