"""Intel's Gaudi accelerators, from the CSV of hl-smi.

Source: docs.habana.ai, System Management Interface Tool: the queries of ``-Q``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.discovery.chip_family import (
    ChipFamily,
    ProbeResult,
    bus_address_of,
    device_id_of,
    read_csv,
    refuse_repetition,
    text_of,
)
from ranktable.cluster.discovery.machine import NotDetectedError
from ranktable.cluster.probes.probe_line import ProbedChip
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.discovery.machine import Machine

TOOL = ("hl-smi", "-Q", "index,uuid,bus_id,serial,name", "-f", "csv,noheader")
NODES = ("/dev/accel", "accel")
_COLUMNS = 5


def detect(machine: Machine) -> ProbeResult:
    """Return the chips of a node."""
    result = ProbeResult(driver=machine.first_line("/sys/module/habanalabs/version"))
    try:
        result.chips, messages = parse_csv(machine.run(*TOOL))
    except NotDetectedError as error:
        if machine.exists("/sys/module/habanalabs") or machine.find(TOOL[0]):
            result.miss("hl-smi", error)
        return result
    for message in messages:
        result.miss("hl-smi", f"it says: {message}")
    if result.chips:
        result.miss("status", "hl-smi -Q does not have it")
    return result


def parse_csv(text: str) -> tuple[list[ProbedChip], list[str]]:
    """Return the accelerators of a CSV output, and the messages between the rows.

    Args:
        text: Rows of index, UUID, PCI address, serial number and name.

    Raises:
        NotDetectedError: A row is something else.
    """
    rows, messages = read_csv(text, _COLUMNS)
    chips = [_chip(row) for row in rows]
    refuse_repetition((chip.device_id for chip in chips), "index")
    return sorted(chips, key=lambda chip: chip.device_id), messages


def _chip(row: list[str]) -> ProbedChip:
    index, uuid, bus, serial, name = row
    bus_address = bus_address_of(bus)
    if bus_address is None:
        raise NotDetectedError(f"hl-smi: the PCI address of a chip is {quoted(bus)}")
    return ProbedChip(
        device_id=device_id_of(index),
        bus_address=bus_address,
        uuid=text_of(uuid),
        serial=text_of(serial),
        model=text_of(name),
    )


FAMILY = ChipFamily(
    name="gaudi",
    vendor="gaudi",
    looked_for="hl-smi",
    traces=(),
    detect=detect,
)
