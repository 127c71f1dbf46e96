"""NVIDIA GPUs: nvidia-ml-py where it is installed, else nvidia-smi.

The index is the order of the PCI addresses. CUDA may count otherwise unless
CUDA_DEVICE_ORDER=PCI_BUS_ID is set.

Source: NVIDIA, ``nvidia-smi --help-query-gpu``; the reference of NVML.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ranktable.cluster.discovery.command import run_command
from ranktable.cluster.discovery.fields import (
    bus_address_of,
    device_id_of,
    read_csv,
    text_of,
)
from ranktable.cluster.discovery.source import Sighting, Source, refuse_repetition
from ranktable.cluster.discovery.unseen import UnseenError
from ranktable.cluster.probe_line import SeenChip
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.discovery.machine import Machine

NODES = ("/dev", "nvidia")
KERNEL = "/proc/driver/nvidia"
TOOL = (
    "nvidia-smi",
    "--query-gpu=index,uuid,pci.bus_id,serial,name",
    "--format=csv,noheader",
)
_COLUMNS = 5
_NONE_FOUND = "No devices were found"


def look(machine: Machine) -> Sighting:
    """Return the chips of a node."""
    seen = Sighting(driver=machine.first_line("/sys/module/nvidia/version"))
    try:
        seen.chips, messages = parse_csv(_output(machine, seen))
    except UnseenError as error:
        if machine.numbers(*NODES) or machine.find(TOOL[0]):
            seen.miss("nvidia-smi", error)
        return seen
    for message in messages:
        seen.miss("nvidia-smi", f"it says: {message}")
    _compare_with_kernel(machine, seen)
    if seen.chips:
        seen.miss("status", "nvidia-smi has no word for it")
    return seen


def _output(machine: Machine, seen: Sighting) -> str:
    """Return the rows, of the library or of the tool."""
    if machine.is_this_one and find_spec("pynvml") is not None:
        # In a process of its own: a call into a wedged driver does not come back.
        command = [sys.executable, "-m", "ranktable.cluster.discovery.nvml"]
        # What lies in the working folder is no library.
        env = {**machine.env, "PYTHONSAFEPATH": "1"}
        try:
            return run_command(command, env=env, timeout_s=machine.timeout_s)
        except UnseenError as error:
            seen.miss("nvidia-ml-py", error)
    return machine.run(*TOOL)


def _compare_with_kernel(machine: Machine, seen: Sighting) -> None:
    """Note the GPUs that the kernel's driver has and that are not listed."""
    there = map(bus_address_of, machine.names(f"{KERNEL}/gpus"))
    listed = {chip.bus_address for chip in seen.chips}
    for address in there:
        if address is not None and address not in listed:
            seen.miss(address, "the driver has this GPU, and it is not listed")


def parse_csv(text: str) -> tuple[list[SeenChip], list[str]]:
    """Return the GPUs of a CSV output, and the messages between the rows.

    Args:
        text: Rows of index, UUID, PCI address, serial number and name.

    Raises:
        UnseenError: A row is something else.
    """
    rows, messages = read_csv(text, _COLUMNS)
    chips = [_chip(row) for row in rows]
    refuse_repetition((chip.device_id for chip in chips), "index")
    messages = [line for line in messages if not line.startswith(_NONE_FOUND)]
    return sorted(chips, key=lambda chip: chip.device_id), messages


def _chip(row: list[str]) -> SeenChip:
    index, uuid, bus, serial, name = row
    bus_address = bus_address_of(bus)
    if bus_address is None:
        raise UnseenError(f"the PCI address of a GPU is {quoted(bus)}")
    return SeenChip(
        device_id=device_id_of(index),
        bus_address=bus_address,
        uuid=text_of(uuid),
        serial=text_of(serial),
        model=text_of(name),
    )


SOURCE = Source(
    name="nvidia",
    vendor="nvidia",
    looked_for="/dev/nvidiaN, nvidia-smi",
    traces=(NODES,),
    look=look,
)
