"""SOPHGO's TPUv7 family (BM1690, SG2260), which SCCL drives.

The driver ``sg-host-drv`` creates one ``/dev/sg-host-drv-N`` for each chip; N is the
device_id. ``tpu-smi`` lists cards and their chips in the same order, with a status.

Sources: sophgo/torch-tpu (``torch_tpu/tpu/versions.py``), the README of
sophgo/vllm-tpu, and ``tpu_demo_ops_matrix.py`` of tilelang-tpu for the shape of the
JSON.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.cluster.discovery.chip_family import (
    ChipFamily,
    ProbeResult,
    bus_address_of,
    read_json,
)
from ranktable.cluster.discovery.machine import NotDetectedError
from ranktable.cluster.probes.probe_line import ProbedChip
from ranktable.schema.text import counted, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cluster.discovery.machine import Machine

DRIVER = "/sys/bus/pci/drivers/sg-host-drv"
NODES = ("/dev", "sg-host-drv-")
INSTALLED = "/opt/tpuv7/tpuv7-current"
TOOL = ("tpu-smi", "--noloop", "--json_format")

_MODELS = {("0x1f1c", "0x1690"): "BM1690"}
"""Model by PCI vendor and device."""


def detect(machine: Machine) -> ProbeResult:
    """Return the chips of a node."""
    result = ProbeResult(driver=machine.first_line("/proc/sgdrv/driver_date"))
    functions = [n for n in machine.names(DRIVER) if bus_address_of(n) is not None]
    device_ids = machine.numbers(*NODES)
    if functions and not device_ids:
        result.miss(
            "/dev/sg-host-drv-*",
            f"{counted(len(functions), 'PCI function')} of the driver, but no device "
            "node; a container needs to be given them",
        )
    result.chips = [ProbedChip(device_id=device_id) for device_id in device_ids]
    if result.chips:
        _add_bus_addresses(machine, functions, result)
        _add_status(machine, result)
        _check_access(machine, result)
    return result


def _add_bus_addresses(
    machine: Machine, functions: list[str], result: ProbeResult
) -> None:
    known = {
        device_id: name
        for name in functions
        for device_id in machine.numbers(f"{DRIVER}/{name}/sg-host-drv", NODES[1])
    }
    if not known and len(functions) == len(result.chips) == 1:
        known = {result.chips[0].device_id: functions[0]}
    unknown = [chip for chip in result.chips if chip.device_id not in known]
    if unknown:
        result.miss("bus_address", _unknown(len(functions), len(unknown)))
    result.chips = [
        structs.replace(
            chip,
            bus_address=bus_address_of(known.get(chip.device_id)),
            model=_model(machine, known.get(chip.device_id) or (functions or [""])[0]),
        )
        for chip in result.chips
    ]


def _unknown(functions: int, chips: int) -> str:
    if not functions:
        return f"{DRIVER} lists no PCI function"
    return (
        f"{DRIVER} lists {counted(functions, 'PCI function')}, and does not say which "
        f"{'is the chip' if chips == 1 else 'are the chips'}"
    )


def _model(machine: Machine, function: str) -> str | None:
    vendor, device = (
        machine.first_line(f"{DRIVER}/{function}/{name}")
        for name in ("vendor", "device")
    )
    if vendor is None or device is None:
        return None
    return _MODELS.get((vendor, device), f"{vendor}:{device}")


def _add_status(machine: Machine, result: ProbeResult) -> None:
    try:
        output = machine.run(
            *TOOL, folders=(f"{INSTALLED}/bin",), libraries=f"{INSTALLED}/lib"
        )
        statuses = parse_tpu_smi(output)
    except NotDetectedError as error:
        result.miss("status", error)
        return
    if len(statuses) != len(result.chips):
        result.miss(
            "status",
            f"tpu-smi lists {counted(len(statuses), 'chip')}, there are "
            f"{counted(len(result.chips), 'device node')}",
        )
        return
    result.chips = [
        structs.replace(chip, status=status)
        for chip, status in zip(result.chips, statuses, strict=True)
    ]


def _check_access(machine: Machine, result: ProbeResult) -> None:
    """Record the chips that this user cannot open."""
    for chip in result.chips:
        node = f"/dev/sg-host-drv-{chip.device_id}"
        if not os.access(machine.path(node), os.R_OK | os.W_OK):
            result.miss(node, "this user may not open it")


def parse_tpu_smi(text: str) -> list[str | None]:
    """Return the status of every chip, ordered by card and by chip of the card.

    Args:
        text: Output of ``tpu-smi --noloop --json_format``.

    Raises:
        NotDetectedError: It is another output.
    """
    document = read_json(text)
    if not isinstance(document, dict):
        raise NotDetectedError(f"tpu-smi prints {quoted(document)}, not an object")
    statuses = [
        _status(chip)
        for card in _numbered(document, "card", "card_idx", "card_num")
        for chip in _numbered(card, "chip", "chip_index_of_card", "chip_num_of_card")
    ]
    if document.get("chip_num", len(statuses)) != len(statuses):
        raise NotDetectedError(
            f"tpu-smi counts {quoted(document['chip_num'])} chips and lists "
            f"{len(statuses)}"
        )
    return statuses


def _numbered(
    holder: dict[str, object], prefix: str, index_key: str, count_key: str
) -> Iterator[dict[str, object]]:
    """Yield ``card0``, ``card1`` and so on in order; each repeats its number."""
    pattern = re.compile(prefix + r"(0|[1-9][0-9]{0,3})")
    found = {int(match[1]): key for key in holder if (match := pattern.fullmatch(key))}
    if holder.get(count_key) != len(found):
        raise NotDetectedError(
            f"tpu-smi: {count_key} is {quoted(holder.get(count_key))}, and it lists "
            f"{counted(len(found), prefix)}"
        )
    for number in sorted(found):
        item = holder[found[number]]
        if not isinstance(item, dict) or item.get(index_key, number) != number:
            raise NotDetectedError(f"tpu-smi: {found[number]} is not {prefix} {number}")
        yield item


def _status(chip: dict[str, object]) -> str | None:
    status = chip.get("status")
    if status is not None and not (isinstance(status, str) and status.isprintable()):
        raise NotDetectedError(f"tpu-smi: the status of a chip is {quoted(status)}")
    return status.strip() if status else None


TPUV7 = ChipFamily(
    name="sophgo-tpuv7",
    vendor="sophgo",
    looked_for="/dev/sg-host-drv-N",
    detect=detect,
)
