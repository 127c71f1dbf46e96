"""NVIDIA GPUs, from nvidia-smi.

The index follows the order of the PCI addresses. CUDA may use another order unless
CUDA_DEVICE_ORDER=PCI_BUS_ID is set.

Source: NVIDIA, ``nvidia-smi --help-query-gpu``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.discovery.chip_family import (
    ChipFamily,
    ProbeResult,
    bus_address_of,
    device_id_of,
    refuse_repetition,
    text_of,
)
from ranktable.cluster.discovery.machine import NotDetectedError, NotInstalledError
from ranktable.cluster.probes.probe_line import MAX_CHIPS, ProbedChip
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from ranktable.cluster.discovery.machine import Machine

NODES = ("/dev", "nvidia")
TOOL = (
    "nvidia-smi",
    "--query-gpu=index,uuid,pci.bus_id,serial,name",
    "--format=csv,noheader",
)
_NONE_FOUND = "No devices were found"
NONE_LISTED = "nvidia-smi lists no chips"
_LOST = re.compile(r"\[(GPU requires reset|GPU is lost|Unknown Error)\]|(ERR!)")
"""What stands in place of a value of a GPU that no program can use."""
_NO_DRIVER = (
    "couldn't communicate with the NVIDIA driver",
    "Failed to initialize NVML",
    "Unable to determine the device handle",
)
"""What nvidia-smi prints if no program can use the GPUs; other failures are its own."""


def detect(machine: Machine) -> ProbeResult:
    """Return the chips of a node."""
    result = ProbeResult(driver=machine.first_line("/sys/module/nvidia/version"))
    try:
        result.chips, messages = parse_csv(machine.run(*TOOL))
    except NotDetectedError as error:
        is_there = not isinstance(error, NotInstalledError)
        if is_there or machine.numbers(*NODES):
            result.miss("nvidia-smi", error)
        return result
    for message in messages:
        result.miss("nvidia-smi", f"it says: {message}")
    if result.chips:
        result.miss("status", "nvidia-smi has no word for it")
    elif not messages:
        result.miss("nvidia-smi", NONE_LISTED)
    return result


def is_unreached(reason: str) -> bool:
    """Whether what nvidia-smi misses concerns every program that uses GPUs."""
    return any(words in reason for words in _NO_DRIVER)


def parse_csv(text: str) -> tuple[list[ProbedChip], list[str]]:
    """Return the GPUs of a CSV output, and the messages between the rows.

    Args:
        text: Rows of index, UUID, PCI address, serial number and name.

    Raises:
        NotDetectedError: A row has another form.
    """
    chips, messages = [], []
    for line in filter(str.strip, text.splitlines()):
        # Names may have a comma and are not quoted.
        row = [cell.strip() for cell in line.split(",", 4)]
        if row[0].isdigit():
            chips.append(_chip(row))
        elif not line.startswith(_NONE_FOUND):
            messages.append(line.strip())
    refuse_repetition((chip.device_id for chip in chips), "index")
    if len(chips) > MAX_CHIPS:
        raise NotDetectedError(f"it lists more than {MAX_CHIPS} chips")
    return sorted(chips, key=lambda chip: chip.device_id), messages


def _chip(row: list[str]) -> ProbedChip:
    if len(row) != 5:
        raise NotDetectedError(
            f"a row of its output has {len(row)} columns, not 5: {quoted(row[0])}"
        )
    index, uuid, bus, serial, name = row
    bus_address = bus_address_of(bus)
    if bus_address is None:
        raise NotDetectedError(f"the PCI address of a GPU is {quoted(bus)}")
    lost = [match for cell in row if (match := _LOST.fullmatch(cell))]
    kept = ("" if _LOST.fullmatch(cell) else cell for cell in (uuid, serial, name))
    uuid, serial, name = kept
    return ProbedChip(
        device_id=device_id_of(index),
        bus_address=bus_address,
        uuid=text_of(uuid),
        serial=text_of(serial),
        model=text_of(name),
        status=next((each[1] or each[2] for each in reversed(lost)), None),
    )


FAMILY = ChipFamily(
    name="nvidia",
    vendor="nvidia",
    looked_for="/dev/nvidiaN, nvidia-smi",
    detect=detect,
)
