"""NVIDIA GPUs, from nvidia-smi.

The index follows the order of the PCI addresses. CUDA may use another order unless
CUDA_DEVICE_ORDER=PCI_BUS_ID is set.

Source: NVIDIA, ``nvidia-smi --help-query-gpu``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.discovery.chip_family import (
    ChipFamily,
    ProbeResult,
    bus_address_of,
    chips_of_csv,
)
from ranktable.cluster.discovery.machine import NotDetectedError

if TYPE_CHECKING:
    from ranktable.cluster.discovery.machine import Machine
    from ranktable.cluster.probes.probe_line import ProbedChip

NODES = ("/dev", "nvidia")
KERNEL = "/proc/driver/nvidia"
TOOL = (
    "nvidia-smi",
    "--query-gpu=index,uuid,pci.bus_id,serial,name",
    "--format=csv,noheader",
)
_NONE_FOUND = "No devices were found"


def detect(machine: Machine) -> ProbeResult:
    """Return the chips of a node."""
    result = ProbeResult(driver=machine.first_line("/sys/module/nvidia/version"))
    try:
        result.chips, messages = parse_csv(machine.run(*TOOL))
    except NotDetectedError as error:
        if machine.numbers(*NODES) or machine.find(TOOL[0]):
            result.miss("nvidia-smi", error)
        return result
    for message in messages:
        result.miss("nvidia-smi", f"it says: {message}")
    _compare_with_kernel(machine, result)
    if result.chips:
        result.miss("status", "nvidia-smi has no word for it")
    result.miss_chips("nvidia-smi")
    return result


def _compare_with_kernel(machine: Machine, result: ProbeResult) -> None:
    """Record the GPUs that the driver has but the tool does not list."""
    there = map(bus_address_of, machine.names(f"{KERNEL}/gpus"))
    listed = {chip.bus_address for chip in result.chips}
    for address in there:
        if address is not None and address not in listed:
            result.miss(address, "the driver has this GPU, and it is not listed")


def parse_csv(text: str) -> tuple[list[ProbedChip], list[str]]:
    """Return the GPUs of a CSV output, and the messages between the rows.

    Args:
        text: Rows of index, UUID, PCI address, serial number and name.

    Raises:
        NotDetectedError: A row has another form.
    """
    chips, messages = chips_of_csv(text, "the PCI address of a GPU")
    return chips, [line for line in messages if not line.startswith(_NONE_FOUND)]


FAMILY = ChipFamily(
    name="nvidia",
    vendor="nvidia",
    looked_for="/dev/nvidiaN, nvidia-smi",
    traces=(NODES,),
    detect=detect,
)
