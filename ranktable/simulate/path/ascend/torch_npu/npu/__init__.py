"""``torch_npu.npu``, which is ``torch.npu`` too."""

from __future__ import annotations

from ranktable.simulate import device as simulated
from ranktable.simulate.device.inventory import index_of

# The functions of every torch device: streams, memory, seeds. Later ones replace them.
from ranktable.simulate.device.module import *  # noqa: F403

_selected = False


def set_device(device: object) -> None:  # type: ignore[no-redef]
    """Make a chip current.

    Raises:
        RuntimeError: There is no such chip.
    """
    global _selected  # noqa: PLW0603 - one chip a process is current
    simulated.set_device(index_of(device))
    _selected = True


def selected_chip() -> int | None:
    """Return the current chip, None if the script has selected none."""
    return simulated.current_device() if _selected else None
