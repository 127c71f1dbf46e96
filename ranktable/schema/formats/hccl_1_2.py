"""Ascend's rank table 1.2: 1.0 with super pods.

Source: Ascend's HCCL, rank table configuration for super pods.
"""

from __future__ import annotations

from dataclasses import replace

from ranktable.schema.format import Field, Format, Kind
from ranktable.schema.formats import hccl_1_0 as hccl

FORMAT = Format(
    name="hccl-1.2",
    title="HCCL rank table 1.2 (server_list, super_pod_list)",
    description="Which chip each rank of a job on Ascend's super pods runs on.",
    nodes=hccl.NODES,
    devices=hccl.DEVICES,
    table_fields=(
        replace(hccl.VERSION, values=("1.2",)),
        *hccl.TABLE_FIELDS,
        Field(
            key="super_pod_list",
            kind=Kind.LIST,
            title="Super pods",
            description="The super pods, each with super_pod_id and the server_id of "
            "its servers.",
            examples=(
                [{"super_pod_id": "0", "server_list": [{"server_id": "node-a"}]}],
            ),
        ),
    ),
    node_fields=hccl.NODE_FIELDS,
    device_fields=hccl.DEVICE_FIELDS,
    node_title="Server",
    matches=lambda document: (
        hccl.is_hccl(document)
        and (document.get("version") == "1.2" or "super_pod_list" in document)
    ),
    rules=hccl.RULES,
    keeps_file_order=False,
    has_blank_addresses=True,
    example={
        **hccl.FORMAT.example,
        "version": "1.2",
        "super_pod_list": [
            {"super_pod_id": "0", "server_list": [{"server_id": "node-a"}]}
        ],
    },
)
