"""Rank tables of any size, written in the layouts of the field."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RING = (0, 2, 6, 7, 3, 1, 5, 4)
"""Chips of every node, in the order of the ring of the published box."""

GENERATED = ("device_id", "local_rank", "rank", "world_rank")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a table is spelt; four blanks a level, no blank after a colon.

    Attributes:
        keys: Keys of a device.
        rank_key: The key that the vendor's loop reads.
        has_hosts: Whether every node names its host.
        orders: Orders of chips, which the nodes have in turn.
        nodes: Key of the list of nodes.
        devices: Key of a node's list of devices.
        host: Key of a node's host.
        head: What stands before the nodes; a number of nodes is filled in.
    """

    keys: tuple[str, ...] = GENERATED
    rank_key: str = "world_rank"
    has_hosts: bool = True
    orders: tuple[tuple[int, ...], ...] = (RING,)
    nodes: str = "node_list"
    devices: str = "device_list"
    host: str = "host"
    head: str = '"version":"1.0"'


LAYOUTS = {
    # The template of SOPHGO's manual.
    "manual": Layout(keys=("device_id", "rank"), rank_key="rank", has_hosts=False),
    "generated": Layout(has_hosts=False),
    # What gen --spec, gen --hosts and merge write.
    "hosts": Layout(),
    "addresses": Layout(keys=("device_id", "device_ip", *GENERATED[1:])),
    "orders": Layout(orders=(RING, (*RING[1:], RING[0]))),
    "hccl": Layout(
        keys=("device_id", "device_ip", "rank_id"),
        rank_key="rank_id",
        nodes="server_list",
        devices="device",
        host="server_id",
        head='"status":"completed",\n    "version":"1.0",\n    "server_count":"{}"',
    ),
}
"""The layouts of tables that are read."""


class Defect(str, Enum):
    """What is wrong with a table."""

    NONE = "none"
    LAST_SHAPE = "the last device_id is no number"
    LAST_MEANING = "the last rank is taken"
    ALL_SHAPE = "no device_id is a number"
    ALL_MEANING = "every rank is 0"
    ALL_GAPS = "every rank is doubled, so that every second one is missing"


def write_table(
    path: Path, ranks: int, *, layout: str = "manual", defect: Defect = Defect.NONE
) -> None:
    """Write a table of nodes with eight chips each.

    The text is built directly and streamed: a model of a million ranks would take
    longer than what is measured, and its memory would count as that of the children.

    Args:
        path: The file.
        ranks: Number of ranks, a multiple of eight.
        layout: A key of ``LAYOUTS``.
        defect: What to get wrong.
    """
    with path.open("w", encoding="utf-8") as file:
        file.writelines(_pieces(ranks, LAYOUTS[layout], defect))


def _pieces(ranks: int, layout: Layout, defect: Defect) -> Iterator[str]:
    head = layout.head.replace("{}", str(ranks // len(RING)))
    yield f'{{\n    {head},\n    "{layout.nodes}":[\n'
    for first in range(0, ranks, len(RING)):
        node = first // len(RING)
        chips = layout.orders[node % len(layout.orders)]
        devices = ",\n".join(
            _device(rank, first, chips, layout, _defect(rank == ranks - 1, defect))
            for rank in range(first, first + len(RING))
        )
        comma = "," if first + len(RING) < ranks else ""
        host = f'            "{layout.host}":"n{node:06}",\n' * layout.has_hosts
        yield (
            f'        {{\n{host}            "{layout.devices}":[\n'
            f"{devices}\n            ]\n        }}{comma}\n"
        )
    yield "    ]\n}\n"


def _defect(is_last: bool, defect: Defect) -> Defect:
    """Return what is wrong with one device, as a defect of all of them."""
    if not is_last:
        return defect
    return {
        Defect.LAST_SHAPE: Defect.ALL_SHAPE,
        Defect.LAST_MEANING: Defect.ALL_MEANING,
    }.get(defect, defect)


def _device(
    rank: int, first: int, chips: tuple[int, ...], layout: Layout, defect: Defect
) -> str:
    factor = {Defect.ALL_MEANING: 0, Defect.ALL_GAPS: 2}.get(defect, 1)
    node = first // len(RING)
    values = {
        "device_id": f'"{chips[rank - first]}"',
        "device_ip": f'"10.{node >> 13}.{node >> 5 & 255}.{rank % 256}"',
        "local_rank": f'"{rank - first}"',
        **dict.fromkeys(("rank", "world_rank", "rank_id"), f'"{rank * factor}"'),
    }
    if defect is Defect.ALL_SHAPE:
        values["device_id"] = "true"
    members = ",\n".join(
        f'                    "{key}":{values[key]}' for key in layout.keys
    )
    return f"                {{\n{members}\n                }}"
