"""Probe a node: use the first family of chips that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.cluster.discovery import ascend, nvidia, sophgo
from ranktable.cluster.probes.probe_line import NodeProbe, NotDetected, ProbedChip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.discovery.chip_family import ChipFamily, ProbeResult
    from ranktable.cluster.discovery.machine import Machine

CHIP_FAMILIES: tuple[ChipFamily, ...] = (
    sophgo.TPUV7,
    ascend.FAMILY,
    nvidia.FAMILY,
)
"""Every family, in the order in which they are tried; the first found is used."""


def probe(machine: Machine, host: str | None = None) -> NodeProbe:
    """Return what is found on a node.

    Args:
        machine: The node.
        host: Its name in the line; by default its host name.
    """
    name = host or machine.host()
    unseen: list[NotDetected] = []
    absent: list[NotDetected] = []
    for family in CHIP_FAMILIES:
        result = family.detect(machine)
        unseen.extend(result.unseen)
        if result.chips:
            return _line(name, family, result, unseen)
        if not result.unseen:
            absent.append(NotDetected(family.name, f"no {family.looked_for}"))
    return NodeProbe(host=name, unseen=(*unseen, *absent))


def _line(
    host: str, family: ChipFamily, result: ProbeResult, unseen: Sequence[NotDetected]
) -> NodeProbe:
    models = {chip.model for chip in result.chips}
    chips: Sequence[ProbedChip] = result.chips
    if len(models) == 1:
        chips = [structs.replace(chip, model=None) for chip in chips]
    return NodeProbe(
        host=host,
        vendor=family.vendor,
        model=models.pop() if len(models) == 1 else None,
        driver=result.driver,
        chips=tuple(chips),
        unseen=tuple(unseen),
    )
