"""AMD GPUs, from ``amd-smi list --json``.

AMD calls the tool example code and recommends its library, but the library must match
the installed ROCm. So the tool is used, and only for values that its list has had in
every release.

Source: ROCm, AMD SMI CLI tool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.discovery.chip_family import (
    ChipFamily,
    ProbeResult,
    bus_address_of,
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

TOOL = ("amd-smi", "list", "--json")
KFD = "/dev/kfd"


def detect(machine: Machine) -> ProbeResult:
    """Return the chips of a node."""
    result = ProbeResult(driver=machine.first_line("/sys/module/amdgpu/version"))
    try:
        result.chips = parse_list(machine.run(*TOOL, folders=("/opt/rocm/bin",)))
    except NotDetectedError as error:
        if machine.exists(KFD) or machine.find(TOOL[0], ("/opt/rocm/bin",)):
            result.miss("amd-smi", error)
        return result
    if result.chips:
        result.miss("model and status", "amd-smi list does not have them")
    result.miss_chips("amd-smi")
    return result


def parse_list(text: str) -> list[ProbedChip]:
    """Return the GPUs in the output of ``amd-smi list --json``.

    Raises:
        NotDetectedError: It is another output.
    """
    document = read_json(text)
    if not isinstance(document, list) or len(document) > MAX_CHIPS:
        raise NotDetectedError(f"amd-smi prints {quoted(document)}, not a list of GPUs")
    chips = [_chip(item) for item in document]
    refuse_repetition((chip.device_id for chip in chips), "gpu")
    return sorted(chips, key=lambda chip: chip.device_id)


def _chip(item: object) -> ProbedChip:
    if not isinstance(item, dict) or "gpu" not in item:
        raise NotDetectedError(f"amd-smi: {quoted(item)} of the list has no key gpu")
    bus_address = bus_address_of(item.get("bdf"))
    if bus_address is None:
        raise NotDetectedError(
            f"amd-smi: the bdf of a GPU is {quoted(item.get('bdf'))}"
        )
    return ProbedChip(
        device_id=device_id_of(item["gpu"]),
        bus_address=bus_address,
        uuid=text_of(item.get("uuid")),
    )


FAMILY = ChipFamily(
    name="amd",
    vendor="amd",
    looked_for="amd-smi",
    traces=(),
    detect=detect,
)
