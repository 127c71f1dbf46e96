"""SOPHGO's BM1684 and BM1684X. SCCL does not drive them; they are found all the same.

Source: sophgo/libsophon, ``driver/bm_proc.c`` (what each file holds) and the guide's
chapter on the proc file system; a SoC has the device node and no proc files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.discovery.chip_family import (
    ChipFamily,
    ProbeResult,
    bus_address_of,
    text_of,
)
from ranktable.cluster.probes.probe_line import ProbedChip

if TYPE_CHECKING:
    from ranktable.cluster.discovery.machine import Machine

PROC = "/proc/bmsophon"
PCIE = ("/dev", "bm-sophon")
SOC = ("/dev", "bm-tpu")

_CHIP_ID = re.compile(r"(?:0x)?(168[0-9])(x?)", re.IGNORECASE)
_MODELS = {"1686": "BM1684X"}
"""Other chip ids are the number of the model."""


def detect(machine: Machine) -> ProbeResult:
    """Return the chips of a node."""
    result = ProbeResult(driver=machine.first_line(f"{PROC}/driver_version"))
    homes = _homes(machine)
    device_ids = machine.numbers(*PCIE) or machine.numbers(*SOC)
    result.chips = [
        _chip(machine, device_id, homes.get(device_id)) for device_id in device_ids
    ]
    homeless = [str(i) for i in device_ids if i not in homes]
    if homeless:
        result.miss(
            "bus_address, status and model",
            f"{PROC} has nothing of chip {', '.join(homeless)}; a SoC has none",
        )
    for device_id in sorted(homes.keys() - set(device_ids)):
        result.miss(
            f"/dev/bm-sophon{device_id}",
            "the driver has this chip, but there is no device node; a container needs "
            "to be given it",
        )
    return result


def _homes(machine: Machine) -> dict[int, tuple[str, str]]:
    """Return the folders of the card and of the chip, for every chip."""
    return {
        number: (f"{PROC}/card{card}", f"{PROC}/card{card}/bmsophon{number}")
        for card in machine.numbers(PROC, "card")
        for number in machine.numbers(f"{PROC}/card{card}", "bmsophon")
    }


def _chip(machine: Machine, device_id: int, home: tuple[str, str] | None) -> ProbedChip:
    if home is None:
        return ProbedChip(device_id=device_id)
    card, chip = home
    return ProbedChip(
        device_id=device_id,
        bus_address=bus_address_of(machine.first_line(f"{chip}/dbdf")),
        serial=text_of(machine.first_line(f"{card}/sn")),
        status=text_of(machine.first_line(f"{chip}/status")),
        model=parse_chip_id(machine.first_line(f"{card}/chipid")),
    )


def parse_chip_id(text: str | None) -> str | None:
    """Return the model of a card from its file chipid, None if it says none.

    >>> parse_chip_id("0x1684x"), parse_chip_id("0x1686"), parse_chip_id("1684")
    ('BM1684X', 'BM1684X', 'BM1684')
    """
    match = _CHIP_ID.fullmatch(text.strip()) if text else None
    if match is None:
        return None
    return _MODELS.get(match[1], f"BM{match[1]}{match[2].upper()}")


FAMILY = ChipFamily(
    name="sophgo-bm168x",
    vendor="sophgo",
    looked_for="/dev/bm-sophonN, /dev/bm-tpuN",
    traces=(PCIE, SOC),
    detect=detect,
)
