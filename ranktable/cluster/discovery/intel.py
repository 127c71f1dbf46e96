"""Intel GPUs, from ``xpu-smi discovery -j``.

Source: intel.github.io/xpumanager, the user guide of xpu-smi. Release 2.0 names the
UUID soc_uuid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.discovery.fields import (
    bus_address_of,
    device_id_of,
    read_json,
    text_of,
)
from ranktable.cluster.discovery.source import Sighting, Source, refuse_repetition
from ranktable.cluster.discovery.unseen import UnseenError
from ranktable.cluster.probe_line import SeenChip
from ranktable.cluster.probe_shape import MAX_CHIPS
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.discovery.machine import Machine

TOOL = ("xpu-smi", "discovery", "-j")


def look(machine: Machine) -> Sighting:
    """Return the chips of a node."""
    seen = Sighting()
    try:
        seen.chips = parse_discovery(machine.run(*TOOL))
    except UnseenError as error:
        if machine.find(TOOL[0]):
            seen.miss("xpu-smi", error)
        return seen
    if seen.chips:
        seen.miss("status", "xpu-smi discovery does not have it")
    return seen


def parse_discovery(text: str) -> list[SeenChip]:
    """Return the GPUs of ``xpu-smi discovery -j``.

    Raises:
        UnseenError: It is something else, or xpu-smi says why it found none.
    """
    document = read_json(text)
    if not isinstance(document, dict):
        raise UnseenError(f"xpu-smi prints {quoted(document)}, not an object")
    if "error" in document:
        raise UnseenError(f"xpu-smi says {quoted(document['error'])}")
    devices = document.get("device_list")
    if not isinstance(devices, list) or len(devices) > MAX_CHIPS:
        raise UnseenError(f"xpu-smi: device_list is {quoted(devices)}")
    chips = [_chip(item) for item in devices if _is_gpu(item)]
    refuse_repetition((chip.device_id for chip in chips), "device_id")
    return sorted(chips, key=lambda chip: chip.device_id)


def _is_gpu(item: object) -> bool:
    if not isinstance(item, dict) or "device_id" not in item:
        raise UnseenError(f"xpu-smi: {quoted(item)} of device_list has no device_id")
    virtual = item.get("device_function_type") == "virtual"
    return item.get("device_type", "GPU") == "GPU" and not virtual


def _chip(item: dict[str, object]) -> SeenChip:
    bus_address = bus_address_of(item.get("pci_bdf_address"))
    if bus_address is None:
        raise UnseenError(
            "xpu-smi: the pci_bdf_address of a GPU is "
            f"{quoted(item.get('pci_bdf_address'))}"
        )
    return SeenChip(
        device_id=device_id_of(item["device_id"]),
        bus_address=bus_address,
        uuid=text_of(item.get("uuid", item.get("soc_uuid"))),
        model=text_of(item.get("device_name")),
    )


SOURCE = Source(
    name="intel",
    vendor="intel",
    looked_for="xpu-smi",
    traces=(),
    look=look,
)
