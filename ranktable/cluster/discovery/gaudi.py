"""Intel's Gaudi accelerators, from the CSV of hl-smi.

Source: docs.habana.ai, System Management Interface Tool: the queries of ``-Q``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.discovery.chip_family import (
    ChipFamily,
    ProbeResult,
    chips_of_csv,
)
from ranktable.cluster.discovery.machine import NotDetectedError

if TYPE_CHECKING:
    from ranktable.cluster.discovery.machine import Machine
    from ranktable.cluster.probes.probe_line import ProbedChip

TOOL = ("hl-smi", "-Q", "index,uuid,bus_id,serial,name", "-f", "csv,noheader")
NODES = ("/dev/accel", "accel")


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
    return chips_of_csv(text, "hl-smi: the PCI address of a chip")


FAMILY = ChipFamily(
    name="gaudi",
    vendor="gaudi",
    looked_for="hl-smi",
    traces=(),
    detect=detect,
)
