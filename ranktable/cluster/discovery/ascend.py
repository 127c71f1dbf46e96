"""Ascend NPUs: device nodes, hccn.conf and the two lists of npu-smi that are not drawn.

A chip has four numbers. A rank table wants the physical one, which is N of
``/dev/davinciN`` and of ``address_N`` in hccn.conf. ``npu-smi info -m`` gives the NPU,
the chip in it, the logic id (the place among those that can be seen) and, in some
releases, the physical one; a row with ``-`` is a controller, not a chip.

Source: Huawei, npu-smi command reference; outputs of 910B and 910C hosts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.discovery.npu_smi import MappedChip, parse_list, parse_mapping
from ranktable.cluster.discovery.source import Sighting, Source
from ranktable.cluster.discovery.unseen import UnseenError
from ranktable.cluster.probe_line import SeenChip
from ranktable.schema.address import is_address
from ranktable.schema.messages import counted, folded, quoted

if TYPE_CHECKING:
    from ranktable.cluster.discovery.machine import Machine

NODES = ("/dev", "davinci")
HCCN = "/etc/hccn.conf"

_ADDRESS = re.compile(r"address_(0|[1-9][0-9]{0,5})=(.*)")


def look(machine: Machine) -> Sighting:
    """Return the chips of a node."""
    version = machine.first_line("/usr/local/Ascend/driver/version.info")
    seen = Sighting(driver=version and version.removeprefix("Version="))
    mapped = _mapped(machine, seen)
    device_ids = machine.numbers(*NODES)
    if not device_ids and mapped:
        device_ids = _without_nodes(mapped, seen)
    models = _models(device_ids, mapped, seen) if device_ids else {}
    addresses = _addresses(machine, device_ids, seen) if device_ids else {}
    seen.chips = [
        SeenChip(
            device_id=device_id,
            model=models.get(device_id),
            address=addresses.get(device_id),
        )
        for device_id in device_ids
    ]
    if seen.chips:
        seen.miss("bus_address and status", "npu-smi has no list of them for programs")
    return seen


def _mapped(machine: Machine, seen: Sighting) -> list[MappedChip]:
    """Return what npu-smi lists, nothing if its two lists cannot be had."""
    try:
        mapped = parse_mapping(machine.run("npu-smi", "info", "-m"))
        count = parse_list(machine.run("npu-smi", "info", "-l"))
    except UnseenError as error:
        if machine.numbers(*NODES) or machine.find("npu-smi"):
            seen.miss("npu-smi", error)
        return []
    if count != len(mapped):
        seen.miss(
            "npu-smi",
            f"npu-smi info -l counts {counted(count, 'chip')}, npu-smi info -m lists "
            f"{len(mapped)}",
        )
        return []
    return mapped


def _without_nodes(mapped: list[MappedChip], seen: Sighting) -> list[int]:
    physical = [chip.physical_id for chip in mapped]
    if None not in physical:
        return sorted(number for number in physical if number is not None)
    seen.miss(
        "device_id",
        "there is no /dev/davinciN, so these are npu-smi's logic ids; they are the "
        "physical ones only where every chip of the host can be seen",
    )
    return sorted(chip.logic_id for chip in mapped)


def _models(
    device_ids: list[int], mapped: list[MappedChip], seen: Sighting
) -> dict[int, str]:
    by_id = {
        chip.logic_id if chip.physical_id is None else chip.physical_id: chip.name
        for chip in mapped
    }
    names = {chip.name for chip in mapped}
    if set(by_id) != set(device_ids) and mapped:
        seen.miss(
            "npu-smi",
            f"it lists the chips {folded(sorted(by_id))}, the device nodes are "
            f"{folded(device_ids)}",
        )
        # In a container it numbers anew; chips of one model are that whatever their
        # number.
        return dict.fromkeys(device_ids, names.pop()) if len(names) == 1 else {}
    return by_id


def _addresses(
    machine: Machine, device_ids: list[int], seen: Sighting
) -> dict[int, str]:
    try:
        found = parse_hccn(machine.text(HCCN))
    except UnseenError as error:
        seen.miss("address", error)
        return {}
    without = [device_id for device_id in device_ids if device_id not in found]
    if without:
        seen.miss("address", f"{HCCN} has none for chip {folded(without)}")
    return found


def parse_hccn(text: str) -> dict[int, str]:
    """Return the IP address of every chip's network interface.

    Args:
        text: The file hccn.conf; of its keys only ``address_N`` matters here.

    Raises:
        UnseenError: An address is none, or a chip has two.
    """
    found: dict[int, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _ADDRESS.fullmatch(line.strip())
        if match is None:
            continue
        device_id, address = int(match[1]), match[2].strip()
        if not is_address(address):
            raise UnseenError(
                f"{HCCN}:{number}: {quoted(address)} is not an IP address"
            )
        if found.setdefault(device_id, address) != address:
            raise UnseenError(f"{HCCN}:{number}: chip {device_id} has two addresses")
    return found


SOURCE = Source(
    name="ascend",
    vendor="ascend",
    looked_for="/dev/davinciN, npu-smi",
    traces=(NODES,),
    look=look,
)
