"""Ascend's rank table 1.2: 1.0 with super pods.

Source: Ascend's HCCL, rank table configuration for super pods; for versions 1.3 and 1.4
volcano, ranktable_define.go, and volcano-global, types.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.declare import Kind, Record, list_of, text
from ranktable.schema.formats import hccl_1_0 as hccl
from ranktable.schema.rules import hccl_pods

if TYPE_CHECKING:
    from ranktable.schema.declare import KeyOptions

VERSIONS = ("1.2", "1.3", "1.4")
"""HCCL reads 1.2; Huawei Cloud's Volcano writes the others, which HCCL refuses."""

_NAME: KeyOptions = {"kind": Kind.HOST, "is_required": True}
_SERVER = Record(
    name="pod_server",
    description="The name of a server.",
    keys=(text("server_id", "As in server_list.", "node-a", **_NAME),),
)
_POD = Record(
    name="super_pod",
    description="A super pod and its servers.",
    keys=(
        text("super_pod_id", "Its name, once in the table.", "0", **_NAME),
        list_of(
            "server_list",
            _SERVER,
            "The server_id of each server of the super pod.",
            is_required=True,
        ),
    ),
)
DEVICE = Record(
    name=hccl.DEVICE.name,
    description=hccl.DEVICE.description,
    keys=hccl.DEVICE.keys,
    example={**hccl.DEVICE.example, "super_device_id": "33554432"},
)
TABLE = hccl.table(
    VERSIONS,
    DEVICE,
    list_of(
        "super_pod_list",
        _POD,
        "The super pods, each with super_pod_id and the server_id of its servers.",
    ),
    text(
        "data_version",
        "Counts the changes; of Huawei Cloud's Volcano.",
        1,
        kind=Kind.INTEGER,
    ),
)
_DEVICES = [
    {
        "device_id": str(chip),
        "device_ip": f"10.20.{chip}.5",
        "super_device_id": str(33554432 + chip),
        "rank_id": str(chip),
    }
    for chip in range(2)
]
FORMAT = hccl.server_list_format(
    name="hccl-1.2",
    title="HCCL rank table 1.2 (server_list, super_pod_list)",
    description="Which chip each rank of a job on Ascend's super pods runs on.",
    record=TABLE,
    matches=lambda document: (
        (document.get("version") in VERSIONS and "server_list" in document)
        or ("super_pod_list" in document and document.get("version") != "1.0")
    ),
    rules=(*hccl.RULES, *hccl_pods.RULES_OF_1_2),
    example={
        **TABLE.example,
        "server_list": [{"server_id": "node-a", "device": _DEVICES}],
        "super_pod_list": [_POD.example],
    },
)
