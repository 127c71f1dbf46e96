"""Ascend NPUs: device nodes, hccn.conf and a list of npu-smi.

A chip has four numbers. A rank table needs the physical one, which is the N of
``/dev/davinciN`` and of ``address_N`` in hccn.conf. ``npu-smi info -m`` prints the NPU,
the chip in it, the logic id (its index among the visible chips) and, in some releases,
the physical number; a row with ``-`` is a controller, not a chip.

Source: Huawei, npu-smi command reference; outputs of 910B and 910C hosts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.cluster.discovery.chip_family import (
    ChipFamily,
    ProbeResult,
    refuse_repetition,
)
from ranktable.cluster.discovery.machine import NotDetectedError, NotInstalledError
from ranktable.cluster.hccn_conf import addresses_in
from ranktable.cluster.probes.probe_line import ProbedChip
from ranktable.schema.text import folded, quoted
from ranktable.schema.values import is_device_address

if TYPE_CHECKING:
    from ranktable.cluster.discovery.machine import Machine

_HEAD = re.compile(
    r"NPU ID\s+Chip ID\s+Chip Logic ID(?P<physical>\s+Chip Phy-ID)?\s+Chip Name"
)

_ROW = re.compile(r"([0-9]{1,6})\s+([0-9]{1,6})\s+([0-9]{1,6}|-)\s+(.+)")
_PHYSICAL = re.compile(r"([0-9]{1,6}|-)\s+(.+)")


@dataclass(frozen=True, slots=True)
class MappedChip:
    """A row of ``npu-smi info -m``.

    Attributes:
        npu_id: The card.
        chip_id: The chip on it.
        logic_id: Its index among the visible chips.
        physical_id: Its number in the host, None if the list has no such column.
        name: Its model.
    """

    npu_id: int
    chip_id: int
    logic_id: int
    physical_id: int | None
    name: str

    @property
    def device_id(self) -> int:
        """Its physical number, as far as it is known."""
        return self.logic_id if self.physical_id is None else self.physical_id


def parse_mapping(text: str) -> list[MappedChip]:
    """Return the chips in the output of ``npu-smi info -m``, without controllers.

    Raises:
        NotDetectedError: It is another output.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    head = _HEAD.fullmatch(lines[0]) if lines else None
    if head is None:
        raise NotDetectedError(
            "npu-smi info -m begins with "
            f"{quoted(lines[0]) if lines else 'nothing'}, not with its head line"
        )
    has_physical = head["physical"] is not None
    rows = [_row(line, has_physical=has_physical) for line in lines[1:]]
    chips = [row for row in rows if row is not None]
    refuse_repetition((chip.logic_id for chip in chips), "logic id")
    return chips


def _row(line: str, *, has_physical: bool) -> MappedChip | None:
    match = _ROW.fullmatch(line)
    if match is None:
        raise NotDetectedError(f"npu-smi info -m: {quoted(line)} is not a row of it")
    logic_id, name, physical_id = match[3], match[4], None
    if has_physical:
        rest = _PHYSICAL.fullmatch(name)
        if rest is None:
            raise NotDetectedError(f"npu-smi info -m: {quoted(line)} lacks a column")
        name = rest[2]
        physical_id = None if rest[1] == "-" else int(rest[1])
    if logic_id == "-":
        return None
    return MappedChip(int(match[1]), int(match[2]), int(logic_id), physical_id, name)


NODES = ("/dev", "davinci")
HCCN = "/etc/hccn.conf"


def detect(machine: Machine) -> ProbeResult:
    """Return the chips of a node."""
    version = machine.first_line("/usr/local/Ascend/driver/version.info")
    result = ProbeResult(driver=version and version.removeprefix("Version="))
    mapped = _mapped(machine, result)
    device_ids = machine.numbers(*NODES)
    if not device_ids and mapped:
        device_ids = _without_nodes(mapped, result)
    models = _models(device_ids, mapped, result) if device_ids else {}
    addresses = _addresses(machine, device_ids, result) if device_ids else {}
    result.chips = [
        ProbedChip(
            device_id=device_id,
            model=models.get(device_id),
            address=addresses.get(device_id),
        )
        for device_id in device_ids
    ]
    if result.chips:
        result.miss(
            "bus_address and status", "npu-smi has no list of them for programs"
        )
    return result


def _mapped(machine: Machine, result: ProbeResult) -> list[MappedChip]:
    """Return the chips that npu-smi lists, none if a list is not available."""
    try:
        return parse_mapping(machine.run("npu-smi", "info", "-m"))
    except NotDetectedError as error:
        is_there = not isinstance(error, NotInstalledError)
        if is_there or machine.numbers(*NODES):
            result.miss("npu-smi", error)
        return []


def _without_nodes(mapped: list[MappedChip], result: ProbeResult) -> list[int]:
    physical = [chip.physical_id for chip in mapped]
    if None not in physical:
        return sorted(number for number in physical if number is not None)
    result.miss(
        "device_id",
        "there is no /dev/davinciN, so these are npu-smi's logic ids; they are the "
        "physical ones only where every chip of the host can be seen",
    )
    return sorted(chip.logic_id for chip in mapped)


def _models(
    device_ids: list[int], mapped: list[MappedChip], result: ProbeResult
) -> dict[int, str]:
    by_id = {chip.device_id: chip.name for chip in mapped}
    names = {chip.name for chip in mapped}
    if set(by_id) != set(device_ids) and mapped:
        result.miss(
            "npu-smi",
            f"it lists the chips {folded(sorted(by_id))}, the device nodes are "
            f"{folded(device_ids)}",
        )
        # In a container npu-smi uses other numbers; if all chips have one model, that
        # model is certain.
        return dict.fromkeys(device_ids, names.pop()) if len(names) == 1 else {}
    return by_id


def _addresses(
    machine: Machine, device_ids: list[int], result: ProbeResult
) -> dict[int, str]:
    try:
        found = parse_hccn(machine.text(HCCN))
    except NotDetectedError as error:
        result.miss("address", error)
        return {}
    without = [device_id for device_id in device_ids if device_id not in found]
    if without:
        result.miss("address", f"{HCCN} has none for chip {folded(without)}")
    return found


def parse_hccn(text: str) -> dict[int, str]:
    """Return the IP address of the network interface of every chip.

    Args:
        text: The file hccn.conf; only its keys ``address_N`` are read.

    Raises:
        NotDetectedError: An address is not valid, or a chip has two.
    """
    found: dict[int, str] = {}
    for device_id, address, (start, _) in addresses_in(text):
        place = f"{HCCN}:{text.count(chr(10), 0, start) + 1}"
        if not is_device_address(address):
            raise NotDetectedError(f"{place}: {quoted(address)} is not an IP address")
        if found.setdefault(device_id, address) != address:
            raise NotDetectedError(f"{place}: chip {device_id} has two addresses")
    return found


FAMILY = ChipFamily(
    name="ascend",
    vendor="ascend",
    looked_for="/dev/davinciN, npu-smi",
    detect=detect,
)
