"""AMD GPUs, from ``amd-smi list --json``.

AMD calls the tool example code and recommends its library, which has to match the
installation of ROCm; so the tool is asked, and only for what its list has had in every
release.

Source: ROCm, AMD SMI CLI tool.
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

TOOL = ("amd-smi", "list", "--json")
NODES = ("/dev/dri", "renderD")
KFD = "/dev/kfd"


def look(machine: Machine) -> Sighting:
    """Return the chips of a node."""
    seen = Sighting(driver=machine.first_line("/sys/module/amdgpu/version"))
    try:
        seen.chips = parse_list(machine.run(*TOOL, folders=("/opt/rocm/bin",)))
    except UnseenError as error:
        if machine.exists(KFD) or machine.find(TOOL[0], ("/opt/rocm/bin",)):
            seen.miss("amd-smi", error)
        return seen
    if seen.chips:
        seen.miss("model and status", "amd-smi list does not have them")
    return seen


def parse_list(text: str) -> list[SeenChip]:
    """Return the GPUs of ``amd-smi list --json``.

    Raises:
        UnseenError: It is something else.
    """
    document = read_json(text)
    if not isinstance(document, list) or len(document) > MAX_CHIPS:
        raise UnseenError(f"amd-smi prints {quoted(document)}, not a list of GPUs")
    chips = [_chip(item) for item in document]
    refuse_repetition((chip.device_id for chip in chips), "gpu")
    return sorted(chips, key=lambda chip: chip.device_id)


def _chip(item: object) -> SeenChip:
    if not isinstance(item, dict) or "gpu" not in item:
        raise UnseenError(f"amd-smi: {quoted(item)} of the list has no key gpu")
    bus_address = bus_address_of(item.get("bdf"))
    if bus_address is None:
        raise UnseenError(f"amd-smi: the bdf of a GPU is {quoted(item.get('bdf'))}")
    return SeenChip(
        device_id=device_id_of(item["gpu"]),
        bus_address=bus_address,
        uuid=text_of(item.get("uuid")),
    )


SOURCE = Source(
    name="amd",
    vendor="amd",
    looked_for="amd-smi",
    traces=(),
    look=look,
)
