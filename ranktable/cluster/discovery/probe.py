"""One look at a node: the first family of chips that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.cluster.discovery import (
    amd,
    ascend,
    gaudi,
    intel,
    nvidia,
    sophgo_bm168x,
    sophgo_tpuv7,
)
from ranktable.cluster.probe_line import NodeProbe, SeenChip, Unseen
from ranktable.schema.messages import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.discovery.machine import Machine
    from ranktable.cluster.discovery.source import Sighting, Source

SOURCES: tuple[Source, ...] = (
    sophgo_tpuv7.SOURCE,
    ascend.SOURCE,
    nvidia.SOURCE,
    amd.SOURCE,
    gaudi.SOURCE,
    intel.SOURCE,
    sophgo_bm168x.SOURCE,
)
"""Every family, in the order in which they are looked for; the first one is taken.

The last one is driven by no communication library; a host may have one beside others.
"""


def probe(machine: Machine, host: str | None = None) -> NodeProbe:
    """Return what is seen of a node.

    Args:
        machine: The node.
        host: Its name in the line; by default its own.
    """
    name = host or machine.host()
    unseen: list[Unseen] = []
    absent: list[Unseen] = []
    for place, source in enumerate(SOURCES):
        seen = source.look(machine)
        unseen.extend(seen.unseen)
        if seen.chips:
            unseen.extend(_others(machine, SOURCES[place + 1 :]))
            return _line(name, source, seen, unseen)
        if not seen.unseen:
            absent.append(Unseen(source.name, f"no {source.looked_for}"))
    return NodeProbe(host=name, unseen=(*unseen, *absent))


def _line(
    host: str, source: Source, seen: Sighting, unseen: Sequence[Unseen]
) -> NodeProbe:
    models = {chip.model for chip in seen.chips}
    chips: Sequence[SeenChip] = seen.chips
    if len(models) == 1:
        chips = [structs.replace(chip, model=None) for chip in chips]
    return NodeProbe(
        host=host,
        vendor=source.vendor,
        model=models.pop() if len(models) == 1 else None,
        driver=seen.driver,
        chips=tuple(chips),
        unseen=tuple(unseen),
    )


def _others(machine: Machine, sources: Sequence[Source]) -> list[Unseen]:
    """Return the families that show as well, which a line has no room for."""
    found = []
    for source in sources:
        count = source.count_traces(machine)
        if count:
            nodes = counted(count, "device node")
            why = f"there are {nodes} of it, too; a line is about one family"
            found.append(Unseen(source.name, why))
    return found
