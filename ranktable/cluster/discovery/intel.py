"""Intel GPUs, from ``xpu-smi discovery -j``, and Gaudi, from the CSV of hl-smi.

Sources: intel.github.io/xpumanager, the user guide of xpu-smi (release 2.0 names the
UUID soc_uuid); docs.habana.ai, System Management Interface Tool: the queries of ``-Q``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.discovery.chip_family import (
    ChipFamily,
    ProbeResult,
    bus_address_of,
    chips_of_csv,
    device_id_of,
    read_json,
    refuse_repetition,
    text_of,
)
from ranktable.cluster.discovery.machine import NotDetectedError
from ranktable.cluster.probes.probe_line import MAX_CHIPS, ProbedChip
from ranktable.schema.diagnostic import quoted

if TYPE_CHECKING:
    from ranktable.cluster.discovery.machine import Machine

XPU_SMI = ("xpu-smi", "discovery", "-j")


def detect_gpus(machine: Machine) -> ProbeResult:
    """Return the chips of a node."""
    result = ProbeResult()
    try:
        result.chips = parse_discovery(machine.run(*XPU_SMI))
    except NotDetectedError as error:
        if machine.find(XPU_SMI[0]):
            result.miss("xpu-smi", error)
        return result
    if result.chips:
        result.miss("status", "xpu-smi discovery does not have it")
    result.miss_chips("xpu-smi")
    return result


def parse_discovery(text: str) -> list[ProbedChip]:
    """Return the GPUs in the output of ``xpu-smi discovery -j``.

    Raises:
        NotDetectedError: It is another output, or xpu-smi reports an error.
    """
    document = read_json(text)
    if not isinstance(document, dict):
        raise NotDetectedError(f"xpu-smi prints {quoted(document)}, not an object")
    if "error" in document:
        raise NotDetectedError(f"xpu-smi says {quoted(document['error'])}")
    devices = document.get("device_list")
    if not isinstance(devices, list) or len(devices) > MAX_CHIPS:
        raise NotDetectedError(f"xpu-smi: device_list is {quoted(devices)}")
    chips = [_chip(item) for item in devices if _is_gpu(item)]
    refuse_repetition((chip.device_id for chip in chips), "device_id")
    return sorted(chips, key=lambda chip: chip.device_id)


def _is_gpu(item: object) -> bool:
    if not isinstance(item, dict) or "device_id" not in item:
        raise NotDetectedError(
            f"xpu-smi: {quoted(item)} of device_list has no device_id"
        )
    virtual = item.get("device_function_type") == "virtual"
    return item.get("device_type", "GPU") == "GPU" and not virtual


def _chip(item: dict[str, object]) -> ProbedChip:
    bus_address = bus_address_of(item.get("pci_bdf_address"))
    if bus_address is None:
        raise NotDetectedError(
            "xpu-smi: the pci_bdf_address of a GPU is "
            f"{quoted(item.get('pci_bdf_address'))}"
        )
    return ProbedChip(
        device_id=device_id_of(item["device_id"]),
        bus_address=bus_address,
        uuid=text_of(item.get("uuid", item.get("soc_uuid"))),
        model=text_of(item.get("device_name")),
    )


INTEL = ChipFamily(
    name="intel",
    vendor="intel",
    looked_for="xpu-smi",
    traces=(),
    detect=detect_gpus,
)


HL_SMI = ("hl-smi", "-Q", "index,uuid,bus_id,serial,name", "-f", "csv,noheader")


def detect_gaudi(machine: Machine) -> ProbeResult:
    """Return the chips of a node."""
    result = ProbeResult(driver=machine.first_line("/sys/module/habanalabs/version"))
    try:
        result.chips, messages = parse_csv(machine.run(*HL_SMI))
    except NotDetectedError as error:
        if machine.exists("/sys/module/habanalabs") or machine.find(HL_SMI[0]):
            result.miss("hl-smi", error)
        return result
    for message in messages:
        result.miss("hl-smi", f"it says: {message}")
    if result.chips:
        result.miss("status", "hl-smi -Q does not have it")
    result.miss_chips("hl-smi")
    return result


def parse_csv(text: str) -> tuple[list[ProbedChip], list[str]]:
    """Return the accelerators of a CSV output, and the messages between the rows.

    Args:
        text: Rows of index, UUID, PCI address, serial number and name.

    Raises:
        NotDetectedError: A row has another form.
    """
    return chips_of_csv(text, "hl-smi: the PCI address of a chip")


GAUDI = ChipFamily(
    name="gaudi",
    vendor="gaudi",
    looked_for="hl-smi",
    traces=(),
    detect=detect_gaudi,
)
