"""Ascend's rank table 1.0: ``server_list`` of ``device``, every number a string.

The ranks of a server may be in any order: HCCL uses ``rank_id``.

Source: the rank table configuration in Ascend's HCCL documentation, and HCCL's reader
of version 1.0.
"""

from __future__ import annotations

from functools import partial

from ranktable.schema.declare import (
    Key,
    KeyRole,
    Kind,
    Record,
    address,
    filled_list,
    node_list_format,
    numeral,
    text,
    version,
)
from ranktable.schema.formats.sccl import LAYOUT, TOPOLOGY, spares
from ranktable.schema.rules import (
    hccl,
    hccl_chips,
    hccl_pods,
    mindie,
    nodes,
    placement,
    ranks,
)


def _unread(key: str, what: str, example: str) -> Key:
    """Return a key that operators write and HCCL does not read."""
    return text(key, f"{what}; HCCL does not read it.", example, kind=Kind.ANY)


def _port(key: str, what: str, example: str) -> Key:
    """Return a key of a port."""
    return numeral(key, what, example, minimum=1, maximum=65_535)


DEVICE = Record(
    name="device",
    description="One chip and the process that runs on it.",
    example={"device_id": "0", "device_ip": "10.20.0.5", "rank_id": "0"},
    keys=(
        numeral(
            "device_id",
            "Physical index of the chip on its server: N of /dev/davinciN.",
            "0",
            "7",
            role=KeyRole.DEVICE_ID,
            is_required=True,
        ),
        numeral(
            "rank_id",
            "Global rank of the process on this chip, 0 to world_size - 1.",
            "0",
            "7",
            role=KeyRole.RANK,
            is_required=True,
            is_written=True,
        ),
        address(
            "device_ip",
            "IP address of the device's network card; some have several, with commas "
            "between them.",
            kind=Kind.ADDRESSES,
            role=KeyRole.ADDRESS,
        ),
        _port("device_port", "Port of the device.", "16666"),
        _port("device_vnic_port", "Port of the virtual card.", "16666"),
        _port("host_port", "Port of the host.", "60000"),
        address("backup_device_ip", "Addresses of the other die.", kind=Kind.ADDRESSES),
        _port("backup_device_port", "Port of the other die.", "16667"),
        text("super_device_id", "Chip in its super pod.", "33554432"),
        text("net_position", "Where the card is.", "device"),
        text("net_protocol", "Protocol of the card.", "rdma"),
    ),
)
_SECOND = {"device_id": "1", "device_ip": "10.20.1.5", "rank_id": "1"}
SERVER_KEYS = (
    text(
        "server_id",
        "Name or address of the server, once in the table.",
        "10.20.0.5",
        "node-a",
        kind=Kind.HOST,
        role=KeyRole.HOST,
        is_required=True,
        maximum=hccl.MAX_NAME,
    ),
    address("host_ip", "IP address of the host. With it, device_ip may be absent."),
    _unread("host_nic_ip", "Address of the host's network card", "reserve"),
    _unread("pod_ip", "Address of the pod", "reserve"),
    _unread("container_ip", "Address of the container", "10.30.0.5"),
    _unread("hardware_type", "Kind of hardware", "reserve"),
    _unread("super_pod_id", "Super pod", "0"),
)
TABLE_KEYS = (
    text(
        "status",
        "HCCL waits for 'completed', half an hour by default.",
        "completed",
        is_required=True,
    ),
    numeral(
        "server_count",
        "Number of entries of server_list.",
        "1",
        "2",
        role=KeyRole.COUNT,
    ),
    text(
        "cluster_list",
        "The clusters of a job across several, of MindSpore; HCCL does not read it.",
        [{"cluster_id": "0"}],
        kind=Kind.LIST,
    ),
    LAYOUT,
    TOPOLOGY,
)


def table(versions: tuple[str, ...], device: Record, *more: Key) -> Record:
    """Return the record of a table with these versions, devices and other keys."""
    devices = filled_list(
        "device", device, "The devices that the job uses, in any order."
    )
    first = {"server_id": "node-a", "device": [device.example, _SECOND]}
    node = Record(
        name="server",
        description="One host and its devices.",
        example=first,
        keys=(*SERVER_KEYS, devices),
    )
    example = {
        "status": "completed",
        "version": versions[0],
        "server_count": "1",
        "server_list": [first],
    }
    return Record(
        name="table",
        description="The servers of a job.",
        example=example,
        keys=(
            version(*versions),
            *TABLE_KEYS,
            spares(node, "device"),
            *more,
            filled_list("server_list", node, "The hosts of the job."),
        ),
    )


RULES = (
    *ranks.EACH_RANK_ONCE,
    nodes.DUPLICATE_CHIP,
    nodes.NO_SUCH_CHIP,
    nodes.WRONG_COUNT,
    nodes.BAD_ADDRESS,
    nodes.DUPLICATE_HOST,
    *nodes.SPARE_RULES,
    *hccl.RULES,
    *hccl_chips.RULES,
    *mindie.RULES,
    *placement.REMEMBERED,
)
server_list_format = partial(
    node_list_format,
    nodes_key="server_list",
    devices_key="device",
    most_chips=32,  # of 310P; A2 and A3 have 16, and 910 has 8
    is_hccl_1=True,
    has_other_keys=True,
)
FORMAT = server_list_format(
    name="hccl-1.0",
    title="HCCL rank table 1.0 (server_list)",
    description="Which chip each rank of a job on Ascend's NPUs runs on.",
    record=table(("1.0",), DEVICE),
    matches=lambda document: "server_list" in document or "server_count" in document,
    rules=(*RULES, hccl_pods.PODS_IN_1_0),
)
