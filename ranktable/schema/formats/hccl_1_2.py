"""Ascend's rank table 1.2: 1.0 with super pods.

Source: Ascend's HCCL, rank table configuration for super pods; for versions 1.3 and 1.4
volcano, ranktable_define.go, and volcano-global, types.go.
"""

from __future__ import annotations

from dataclasses import replace

from ranktable.schema.format import Field, Kind
from ranktable.schema.formats import hccl_1_0 as hccl
from ranktable.schema.rules import hccl_pods

VERSIONS = ("1.2", "1.3", "1.4")
"""HCCL reads 1.2; Huawei Cloud's Volcano writes the others, which HCCL refuses."""

SUPER_POD_LIST = Field(
    key="super_pod_list",
    kind=Kind.LIST,
    title="Super pods",
    description="The super pods, each with super_pod_id and the server_id of its "
    "servers.",
    examples=([{"super_pod_id": "0", "server_list": [{"server_id": "node-a"}]}],),
    items=(
        Field(
            key="super_pod_id",
            kind=Kind.HOST,
            is_required=True,
            title="Super pod",
            description="Name of the super pod, once in the table.",
            examples=("0",),
        ),
        Field(
            key="server_list",
            kind=Kind.LIST,
            is_required=True,
            title="Servers of the super pod",
            description="The server_id of each server of the super pod.",
            examples=([{"server_id": "node-a"}],),
            items=(
                Field(
                    key="server_id",
                    kind=Kind.HOST,
                    is_required=True,
                    title="Server",
                    description="The server_id of an entry of server_list.",
                    examples=("node-a",),
                ),
            ),
        ),
    ),
)

FORMAT = replace(
    hccl.FORMAT,
    name="hccl-1.2",
    title="HCCL rank table 1.2 (server_list, super_pod_list)",
    description="Which chip each rank of a job on Ascend's super pods runs on.",
    table_fields=(
        replace(hccl.VERSION, values=VERSIONS),
        *hccl.TABLE_FIELDS,
        SUPER_POD_LIST,
        Field(
            key="data_version",
            kind=Kind.INTEGER,
            title="Version of the data",
            description="Counts the changes; of Huawei Cloud's Volcano.",
            examples=(1,),
        ),
    ),
    matches=lambda document: (
        (document.get("version") in VERSIONS and "server_list" in document)
        or ("super_pod_list" in document and document.get("version") != "1.0")
    ),
    rules=(*hccl.RULES, *hccl_pods.RULES_OF_1_2),
    example={
        **hccl.FORMAT.example,
        "version": "1.2",
        "server_list": [
            {
                "server_id": "node-a",
                "device": [
                    {
                        "device_id": str(chip),
                        "device_ip": f"10.20.{chip}.5",
                        "super_device_id": str(33554432 + chip),
                        "rank_id": str(chip),
                    }
                    for chip in range(2)
                ],
            }
        ],
        "super_pod_list": [
            {"super_pod_id": "0", "server_list": [{"server_id": "node-a"}]}
        ],
    },
)
