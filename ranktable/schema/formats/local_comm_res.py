"""The device of one process of LLM-DataDist, HIXL or vLLM, without ranks.

Source: hixl, docs/zh/api/python/LLMConfig.md (``local_comm_res``).
"""

from __future__ import annotations

from typing import Any

from ranktable.schema.addresses import is_address
from ranktable.schema.record import (
    Record,
    RecordFormat,
    address,
    filled_list,
    is_eid,
    list_of,
    numeral,
    text,
    version,
)
from ranktable.schema.record_reader import RecordReader, objects
from ranktable.schema.rules import nodes
from ranktable.schema.text import quoted

_ENDPOINT = Record(
    name="endpoint",
    title="Endpoint",
    description="An address by which the device is reached.",
    example={"protocol": "roce", "comm_id": "10.20.0.5", "placement": "device"},
    members=(
        text(
            "protocol",
            "Protocol",
            "How it connects.",
            is_required=True,
            values=("roce", "ub_ctp", "uboe", "ub_rtp"),
        ),
        text(
            "comm_id",
            "Address",
            "An EID of 32 hexadecimal digits, or an IP address.",
            "10.20.0.5",
            is_required=True,
        ),
        text(
            "placement",
            "Placement",
            "Whose card it is.",
            is_required=True,
            values=("host", "device"),
        ),
        text("plane", "Plane", "Plane of the network.", "plane-a"),
        text("dst_eid", "Other end", "EID of the other end.", "0" * 32),
        text("server_id", "Server", "Name of the server.", "node-a"),
    ),
)
_DEVICE = Record(
    name="device",
    title="Device",
    description="The device of this process.",
    example={"device_id": "0", "device_ip": "10.20.0.5"},
    members=(
        numeral("device_id", "Chip", "Physical index of the chip.", is_required=True),
        address(
            "device_ip", "Address", "IP address of its network card.", has_blanks=True
        ),
        text("super_device_id", "Chip in its super pod", "On A3.", "33554432"),
    ),
)
_SERVER = Record(
    name="server",
    title="Server",
    description="The host of this process.",
    members=(
        text("server_id", "Server", "Name or address.", "node-a", is_required=True),
        filled_list("device", _DEVICE, "Device", "One."),
    ),
)
_POD = Record(
    name="super_pod",
    title="Super pod",
    description="The super pod of this process.",
    members=(
        text("super_pod_id", "Super pod", "Its name.", "0", is_required=True),
        list_of(
            "server_list",
            Record(
                name="pod_server",
                title="Server",
                description="A server of the super pod.",
                members=_SERVER.members[:1],
            ),
            "Servers",
            "Its servers.",
            is_required=True,
        ),
    ),
)
RESOURCE = Record(
    name="resource",
    title="Local communication resource",
    description="The device of one process.",
    example={
        "version": "1.3",
        "net_instance_id": "pod-0",
        "endpoint_list": [_ENDPOINT.example],
    },
    members=(
        version(
            "1.3",
            "1.0",
            "1.2",
            description="1.3, or 1.0 of A2 and 1.2 of A3 with server_list.",
        ),
        text("status", "Status", "Of 1.0 and 1.2.", "completed"),
        text("net_instance_id", "Network", "Its name.", "pod-0"),
        list_of("endpoint_list", _ENDPOINT, "Endpoints", "Its addresses."),
        list_of("server_list", _SERVER, "Servers", "One, of 1.0 and 1.2."),
        list_of("super_pod_list", _POD, "Super pods", "One, on A3."),
    ),
)


def fill(reader: RecordReader, data: Any) -> None:
    """Judge the addresses; the file has no ranks."""
    for index, endpoint in objects(data.get("endpoint_list")):
        comm_id = endpoint.get("comm_id")
        if not isinstance(comm_id, str) or is_address(comm_id) or is_eid(comm_id):
            continue
        message = f"comm_id {quoted(comm_id)} is neither an EID nor an IP address"
        path = ("endpoint_list", index, "comm_id")
        reader.report(nodes.BAD_ADDRESS, path, message)


FORMAT = RecordFormat(
    name="local-comm-res",
    title="Local communication resource (endpoint_list)",
    description="What one process says of its own device to LLM-DataDist, HIXL or "
    "vLLM.",
    record=RESOURCE,
    fill=fill,
    has_global_ranks=False,
    rules=(),
    keeps_last_key=True,
)
