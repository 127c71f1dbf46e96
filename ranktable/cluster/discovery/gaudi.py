"""Intel's Gaudi accelerators, from the CSV of hl-smi.

Source: docs.habana.ai, System Management Interface Tool: the queries of ``-Q``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

TOOL = ("hl-smi", "-Q", "index,uuid,bus_id,serial,name", "-f", "csv,noheader")
NODES = ("/dev/accel", "accel")
_COLUMNS = 5


def look(machine: Machine) -> Sighting:
    """Return the chips of a node."""
    seen = Sighting(driver=machine.first_line("/sys/module/habanalabs/version"))
    try:
        seen.chips, messages = parse_csv(machine.run(*TOOL))
    except UnseenError as error:
        if machine.exists("/sys/module/habanalabs") or machine.find(TOOL[0]):
            seen.miss("hl-smi", error)
        return seen
    for message in messages:
        seen.miss("hl-smi", f"it says: {message}")
    if seen.chips:
        seen.miss("status", "hl-smi -Q does not have it")
    return seen


def parse_csv(text: str) -> tuple[list[SeenChip], list[str]]:
    """Return the accelerators of a CSV output, and the messages between the rows.

    Args:
        text: Rows of index, UUID, PCI address, serial number and name.

    Raises:
        UnseenError: A row is something else.
    """
    rows, messages = read_csv(text, _COLUMNS)
    chips = [_chip(row) for row in rows]
    refuse_repetition((chip.device_id for chip in chips), "index")
    return sorted(chips, key=lambda chip: chip.device_id), messages


def _chip(row: list[str]) -> SeenChip:
    index, uuid, bus, serial, name = row
    bus_address = bus_address_of(bus)
    if bus_address is None:
        raise UnseenError(f"hl-smi: the PCI address of a chip is {quoted(bus)}")
    return SeenChip(
        device_id=device_id_of(index),
        bus_address=bus_address,
        uuid=text_of(uuid),
        serial=text_of(serial),
        model=text_of(name),
    )


SOURCE = Source(
    name="gaudi",
    vendor="gaudi",
    looked_for="hl-smi",
    traces=(),
    look=look,
)
