"""Properties of a chip; the vendor lacks some of them too.

Source: sophgo/torch-tpu, torch_tpu/tpu/utils.py, with its values.
"""

from __future__ import annotations

from dataclasses import dataclass

from ranktable.schema.topology import SOPHGO_8
from ranktable.simulate import device as simulated
from ranktable.simulate.device.inventory import index_of


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a chip; like the vendor's, they do not include the memory."""

    name: str = "SG2260"
    total_memory: int = 0


def get_device_properties(device: object = None) -> Properties:
    """Return the properties of a chip.

    Raises:
        AssertionError: There is no such chip.
    """
    try:
        index_of(device)
    except RuntimeError as error:
        raise AssertionError("Invalid device id") from error
    return Properties()


def get_device_name(device: object = None) -> str:
    """Return the name of a chip."""
    return get_device_properties(device).name


def can_device_access_peer(device: int, peer: int) -> bool:
    """Whether two chips of the published box have a direct link.

    Raises:
        AssertionError: One of them does not exist.
    """
    if device not in simulated.chips():
        raise AssertionError("Invalid devide id")  # the vendor's spelling
    if peer not in simulated.chips():
        raise AssertionError("Invalid peer devide id")
    return SOPHGO_8.is_linked(device, peer)


def flush() -> None:
    """Return at once: every operator is done when it returns."""
