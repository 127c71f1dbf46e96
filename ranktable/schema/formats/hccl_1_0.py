"""Ascend's rank table 1.0: ``server_list`` of ``device``, every number a string.

The ranks of a server may be in any order: HCCL uses ``rank_id``.

Source: the rank table configuration in Ascend's HCCL documentation, and HCCL's reader
of version 1.0.
"""

from __future__ import annotations

from ranktable.schema.format import Field, Format, Kind, Role
from ranktable.schema.formats.sccl import LAYOUT, TOPOLOGY, spares_field
from ranktable.schema.rules import (
    hccl,
    hccl_chips,
    hccl_pods,
    mindie,
    nodes,
    placement,
    ranks,
)

VERSION = Field(
    key="version",
    kind=Kind.TEXT,
    role=Role.VERSION,
    is_required=True,
    values=("1.0",),
    title="Version",
    description="Version of the format.",
)
TABLE_FIELDS = (
    Field(
        key="status",
        kind=Kind.TEXT,
        is_required=True,
        title="Status",
        description="HCCL waits for 'completed', half an hour by default.",
        examples=("completed",),
    ),
    Field(
        key="server_count",
        kind=Kind.NUMERAL,
        role=Role.COUNT,
        title="Number of servers",
        description="Number of entries of server_list.",
        examples=("1", "2"),
    ),
    Field(
        key="cluster_list",
        kind=Kind.LIST,
        title="Clusters",
        description="The clusters of a job across several, of MindSpore; HCCL does "
        "not read it.",
        examples=([{"cluster_id": "0"}],),
    ),
    LAYOUT,
    TOPOLOGY,
    spares_field("server_id", "device"),
)
NODES = Field(
    key="server_list",
    kind=Kind.LIST,
    is_required=True,
    title="Servers",
    description="The hosts of the job.",
)
DEVICES = Field(
    key="device",
    kind=Kind.LIST,
    is_required=True,
    title="Devices",
    description="The devices of the server that the job uses, in any order.",
)
NODE_FIELDS = (
    Field(
        key="server_id",
        kind=Kind.HOST,
        role=Role.HOST,
        is_required=True,
        title="Server",
        description="Name or address of the server, once in the table.",
        examples=("10.20.0.5", "node-a"),
    ),
    Field(
        key="host_ip",
        kind=Kind.ADDRESS,
        title="Address of the host",
        description="IP address of the host. With it, device_ip may be absent.",
        examples=("10.20.0.5",),
    ),
    *(
        Field(
            key=key,
            kind=Kind.ANY,
            title=title,
            description="Written by operators; HCCL does not read it.",
            examples=("reserve",),
        )
        for key, title in (
            ("host_nic_ip", "Address of the host's network card"),
            ("pod_ip", "Address of the pod"),
            ("container_ip", "Address of the container"),
            ("hardware_type", "Kind of hardware"),
            ("super_pod_id", "Super pod"),
        )
    ),
)
DEVICE_FIELDS = (
    Field(
        key="device_id",
        kind=Kind.NUMERAL,
        role=Role.DEVICE_ID,
        is_required=True,
        title="Chip",
        description="Physical index of the chip on its server: N of /dev/davinciN.",
        examples=("0", "7"),
    ),
    Field(
        key="rank_id",
        kind=Kind.NUMERAL,
        role=Role.RANK,
        is_required=True,
        is_written=True,
        title="Global rank",
        description="Global rank of the process on this chip, 0 to world_size - 1.",
        examples=("0", "7"),
    ),
    Field(
        key="device_ip",
        kind=Kind.ADDRESSES,
        role=Role.ADDRESS,
        title="Address of the device",
        description="IP address of the device's network card; some have several, "
        "with commas between them.",
        examples=("10.20.0.5",),
    ),
    *(
        Field(
            key=key,
            kind=kind,
            title=title,
            description="Optional in tables of HCCL.",
            examples=(example,),
        )
        for key, kind, title, example in (
            ("device_port", Kind.NUMERAL, "Port of the device", "16666"),
            ("device_vnic_port", Kind.NUMERAL, "Port of the virtual card", "16666"),
            ("host_port", Kind.NUMERAL, "Port of the host", "60000"),
            ("backup_device_ip", Kind.ADDRESSES, "Other die", "10.20.0.6"),
            ("backup_device_port", Kind.NUMERAL, "Port of the other die", "16667"),
            ("super_device_id", Kind.TEXT, "Chip in its super pod", "33554432"),
            ("net_position", Kind.TEXT, "Where the card is", "device"),
            ("net_protocol", Kind.TEXT, "Protocol", "rdma"),
            ("tor_ip", Kind.ANY, "Address of the switch, of Volcano", "10.20.0.1"),
            ("tor_port", Kind.ANY, "Port of the switch, of Volcano", "0"),
            ("dpu_ip", Kind.ANY, "Address of the DPU, of Volcano", "10.20.0.6"),
            ("numa_id", Kind.ANY, "NUMA node, of Volcano", "0"),
        )
    ),
)
RULES = (
    *ranks.EACH_RANK_ONCE,
    nodes.DUPLICATE_CHIP,
    nodes.NO_SUCH_CHIP,
    nodes.WRONG_COUNT,
    nodes.BAD_ADDRESS,
    nodes.DUPLICATE_HOST,
    *hccl.RULES,
    *hccl_chips.RULES,
    *mindie.RULES,
    *placement.REMEMBERED,
)


FORMAT = Format(
    name="hccl-1.0",
    title="HCCL rank table 1.0 (server_list)",
    description="Which chip each rank of a job on Ascend's NPUs runs on.",
    nodes=NODES,
    devices=DEVICES,
    table_fields=(VERSION, *TABLE_FIELDS),
    node_fields=NODE_FIELDS,
    device_fields=DEVICE_FIELDS,
    node_title="Server",
    most_chips=32,  # of 310P; A2 and A3 have 16, and 910 has 8
    matches=lambda document: "server_list" in document or "server_count" in document,
    rules=(*RULES, hccl_pods.PODS_IN_1_0),
    keeps_file_order=False,
    has_blank_addresses=True,
    has_other_keys=True,
    reads_leading_digits=True,
    keeps_last_key=True,
    example={
        "status": "completed",
        "version": "1.0",
        "server_count": "1",
        "server_list": [
            {
                "server_id": "node-a",
                "device": [
                    {"device_id": "0", "device_ip": "10.20.0.5", "rank_id": "0"},
                    {"device_id": "1", "device_ip": "10.20.1.5", "rank_id": "1"},
                ],
            }
        ],
    },
)
