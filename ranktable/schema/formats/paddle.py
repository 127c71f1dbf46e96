"""Two files of PaddlePaddle's launcher: which rank runs where, and the cluster.

Source: options ``--rank_mapping_path`` and ``--cluster_topo_path``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.schema.format import Kind, NotExpressibleError, Role, plain_number
from ranktable.schema.record import (
    Member,
    Record,
    RecordFormat,
    list_of,
    number,
    text,
)
from ranktable.schema.record_reader import RecordReader, objects, text_of
from ranktable.schema.rules import ranks, shape
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from ranktable.schema.document import Path
    from ranktable.schema.model import RankTable

PORT = "6170"
_HOST = (
    text(
        "hostname",
        "Host",
        "Name of the host.",
        "node-a",
        kind=Kind.HOST,
        role=Role.HOST,
        is_required=True,
    ),
    text("addr", "Address", "Address of the host.", "10.20.0.5", kind=Kind.HOST),
    number("port", "Port", "Port of the launcher.", PORT, minimum=1, maximum=65_535),
)
_HOST_EXAMPLE = {"hostname": "node-a", "addr": "10.20.0.5", "port": PORT}
_MAPPED = Record(
    name="host",
    title="Host",
    description="A host and its ranks.",
    example={**_HOST_EXAMPLE, "ranks": {"0": [0], "1": [1]}},
    members=(
        *_HOST,
        Member(
            key="ranks",
            kind=Kind.OBJECT,
            is_required=True,
            title="Ranks",
            description="By rank the devices of the host that it has.",
            examples=({"0": [0]},),
        ),
    ),
)
_MAPPING = list_of("hosts", _MAPPED, "Hosts", "The hosts of the job.")


def fill_mapping(reader: RecordReader, data: Any) -> None:
    """Put hosts and ranks into columns; a rank's first device is used."""
    for index, host in objects(data):
        path: Path = (index, "ranks")
        listed = host.get("ranks")
        reader.add_node((index,), text_of(host.get("hostname")))
        for key, devices in (listed if isinstance(listed, dict) else {}).items():
            first = devices[0] if isinstance(devices, list) and devices else None
            if plain_number(key) is None or not _is_device(first):
                message = f"rank {quoted(key)} has no list of devices"
                if plain_number(key) is None:
                    message = f"{quoted(key)} is not a rank"
                reader.report(shape.WRONG_TYPE, (*path, key), message)
            reader.add_device((*path, key), {}, rank=key, device_id=first)


def _is_device(value: object) -> bool:
    """Whether a value is a valid number of a device."""
    return type(value) is int and plain_number(value) is not None


def make_mapping(table: RankTable) -> list[object]:
    """Return the plain data of a table: hosts, ranks and chips.

    Raises:
        NotExpressibleError: A host has no name.
    """
    if None in table.hosts:
        raise NotExpressibleError("paddle-mapping needs the name of every host")
    return [
        {
            "hostname": node.host,
            "addr": node.host,
            "port": PORT,
            **node.extra,
            "ranks": {str(one.rank): [one.device_id] for one in node.devices},
        }
        for node in table.nodes
    ]


MAPPING = RecordFormat(
    name="paddle-mapping",
    title="Paddle rank mapping (list of ranks)",
    description="Which devices each rank of a job of PaddlePaddle has.",
    record=_MAPPING,
    fill=fill_mapping,
    make=make_mapping,
    node_fields=_MAPPED.members[:1],
    devices=_MAPPED.members[-1],
    rules=ranks.EACH_RANK_ONCE,
)
_DEVICE = Record(
    name="device",
    title="Device",
    description="A chip or a processor.",
    example={"global_id": 0, "local_id": 0, "type": "GPU"},
    members=(
        number(
            "global_id",
            "Global index",
            "Of the cluster.",
            0,
            is_required=True,
            minimum=0,
            role=Role.RANK,
        ),
        number(
            "local_id",
            "Local index",
            "Of the machine.",
            0,
            is_required=True,
            minimum=0,
            role=Role.DEVICE_ID,
        ),
        text("type", "Kind", "GPU, CPU and so on.", "GPU"),
    ),
)
_LINK = Record(
    name="link",
    title="Link",
    description="A link of two devices.",
    example={"source_global_id": 0, "target_global_id": 1, "type": "NVL"},
    members=(
        number("source_global_id", "Source", "Global index.", 0, minimum=0),
        number("target_global_id", "Target", "Global index.", 0, minimum=0),
        text("type", "Kind", "NVL, PHB and so on.", "NVL"),
    ),
)
_MACHINE = Record(
    name="machine",
    title="Machine",
    description="A machine, its devices and their links.",
    example={**_HOST_EXAMPLE, "devices": [_DEVICE.example]},
    members=(
        *_HOST,
        list_of("devices", _DEVICE, "Devices", "Its devices.", is_required=True),
        list_of("links", _LINK, "Links", "Between its devices."),
    ),
)
_TOPOLOGY = Record(
    name="topology",
    title="Cluster topology",
    description="The machines of a cluster.",
    members=(
        list_of("machines", _MACHINE, "Machines", "The machines.", is_required=True),
    ),
)
TOPOLOGY = RecordFormat(
    name="paddle-topology",
    title="Paddle cluster topology (machines)",
    description="The machines of a cluster, for PaddlePaddle's automatic mapping.",
    record=_TOPOLOGY,
    fill=RecordReader.add_nodes,
    nodes=_TOPOLOGY.members[0],
    node_fields=_MACHINE.members[:1],
    devices=_MACHINE.members[3],
    device_fields=_DEVICE.members,
    has_global_ranks=False,
    rules=(),
)
