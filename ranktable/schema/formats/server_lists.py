"""Variants of Ascend's server list for other readers: MindIE and Huawei Cloud.

``mindie`` is a table 1.0 in which every server has the address of its pod; such a file
is read as ``hccl-1.0``. ``cce`` is what the Volcano of Huawei Cloud writes, with
versions that HCCL refuses. Source: MindIE-LLM, ranktable_config.cpp; volcano,
ranktable_define.go, and volcano-global, types.go.
"""

from __future__ import annotations

from dataclasses import replace

from ranktable.schema.format import Field, Kind
from ranktable.schema.formats import hccl_1_0, hccl_1_2
from ranktable.schema.formats.detection import is_cce

MINDIE = replace(
    hccl_1_0.FORMAT,
    name="mindie",
    title="MindIE's rank table (server_list with container_ip)",
    description="Which chip each rank of a service of MindIE on several hosts runs on.",
    node_fields=(
        *(f for f in hccl_1_0.NODE_FIELDS if f.key != "container_ip"),
        Field(
            key="container_ip",
            kind=Kind.ADDRESS,
            is_required=True,
            title="Address of the container",
            description="IP address of the pod, by which a process finds its server.",
            examples=("10.20.0.5",),
        ),
    ),
    matches=lambda _: False,
    example={
        **hccl_1_0.FORMAT.example,
        "server_count": "2",
        "server_list": [
            {
                "server_id": f"node-{node}",
                "container_ip": f"10.30.0.{node + 1}",
                "device": [
                    {
                        "device_id": "0",
                        "device_ip": f"10.20.{node}.5",
                        "rank_id": str(node),
                    }
                ],
            }
            for node in range(2)
        ],
    },
)
CCE = replace(
    hccl_1_2.FORMAT,
    name="cce",
    title="Rank table of Huawei Cloud's Volcano (server_list, 1.3 and 1.4)",
    description="Which chip each rank of a job in Huawei Cloud runs on.",
    table_fields=(
        replace(hccl_1_0.VERSION, values=("1.3", "1.4")),
        *hccl_1_2.FORMAT.table_fields[1:],
        Field(
            key="data_version",
            kind=Kind.INTEGER,
            title="Version of the data",
            description="Counts the changes.",
            examples=(1,),
        ),
    ),
    device_fields=(
        *hccl_1_0.DEVICE_FIELDS,
        *(
            Field(
                key=key,
                kind=Kind.ANY,
                title=title,
                description="Written by Volcano; HCCL does not read it.",
                examples=(example,),
            )
            for key, title, example in (
                ("tor_ip", "Address of the switch", "10.20.0.1"),
                ("tor_port", "Port of the switch", "0"),
                ("dpu_ip", "Address of the DPU", "10.20.0.6"),
                ("numa_id", "NUMA node", "0"),
            )
        ),
    ),
    matches=is_cce,
    example={**hccl_1_2.FORMAT.example, "version": "1.3", "data_version": 1},
)
