"""The SCCL rank table of July and August 2024: ``server_list`` of ``device``.

The first generator wrote it; its sample has blank addresses. Only the torch_tpu of
that time reads it, and compares ``server_count`` (an integer) with the list.
"""

from __future__ import annotations

from dataclasses import replace

from ranktable.schema.format import Field, Format, Kind, Role
from ranktable.schema.formats import sccl
from ranktable.schema.rules import nodes

FORMAT = Format(
    name="sccl-2024",
    title="SCCL rank table of 2024 (server_list)",
    description="Which chip each rank of a SOPHGO SCCL job runs on, in the layout of "
    "server_list and device (July and August 2024). Later libraries do not read it; "
    "ranktable.dump(table, path, format='sccl-1.0') writes the new layout.",
    nodes=Field(
        key="server_list",
        kind=Kind.LIST,
        is_required=True,
        title="Servers",
        description="The hosts of the job. The reader of 2024 accepts its own host "
        "only.",
    ),
    devices=Field(
        key="device",
        kind=Kind.LIST,
        is_required=True,
        title="Devices",
        description="The devices of the host that the job uses, in the order of their "
        "local ranks.",
    ),
    table_fields=(
        sccl.VERSION,
        Field(
            key="status",
            kind=Kind.TEXT,
            title="Status",
            description="Taken over from Ascend's format; no library of SOPHGO reads "
            "it.",
            examples=("completed",),
        ),
        Field(
            key="server_count",
            kind=Kind.INTEGER,
            role=Role.COUNT,
            is_required=True,
            title="Number of servers",
            description="Number of entries of server_list, as an integer: the reader "
            "of 2024 compares the two and fails on a string.",
            examples=(1,),
        ),
        *sccl.OWN_FIELDS,
        sccl.spares_field("server_ip", "device"),
    ),
    node_fields=(
        Field(
            key="server_ip",
            kind=Kind.HOST,
            role=Role.HOST,
            is_required=True,
            title="Host",
            description="Address of the host; the reader of 2024 compares it with the "
            "first address that ifconfig shows.",
            examples=("10.20.0.5",),
        ),
        Field(
            key="host_nic_ip",
            kind=Kind.ANY,
            title="Address of the host's network card",
            description="Taken over from Ascend's format; no library of SOPHGO reads "
            "it, and any value is accepted.",
            examples=("reserve",),
        ),
        sccl.STANDS_IN,
        sccl.NUMBER,
    ),
    device_fields=(
        sccl.DEVICE_ID,
        replace(sccl.LOCAL_RANK, is_written=False),
        replace(sccl.RANK, is_written=False),
        replace(sccl.WORLD_RANK, is_written=False),
        replace(sccl.RANK_ID, is_written=True),
        replace(sccl.DEVICE_IP, is_written=True),
        sccl.DEVICE_IP_EMULATOR,
    ),
    node_title="Server",
    device_description="One chip and the process that runs on it. At least one of the "
    "keys rank, world_rank and rank_id gives the rank; where several do, they agree.",
    matches=lambda document: "server_list" in document,
    rules=(*sccl.RULES, nodes.WRONG_COUNT),
    has_blank_addresses=True,
    example={
        "status": "completed",
        "version": "1.0",
        "server_count": 1,
        "server_list": [
            {
                "server_ip": "10.20.0.5",
                "device": [{"device_id": "0", "device_ip": "", "rank_id": "0"}],
                "host_nic_ip": "reserve",
            }
        ],
    },
)
