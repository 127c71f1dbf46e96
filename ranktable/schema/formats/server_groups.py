"""Groups of servers, each with its own ranks: ClusterD, MindIE and Omni-Infer.

Group 0 is the coordinator and group 1 the controller, whose servers may have no
devices. Source: ClusterD's ``epranktable``, MindIE Motor's loader, Omni-Infer's tools.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ranktable.schema.format import Kind, Role, plain_number
from ranktable.schema.record import (
    Record,
    RecordFormat,
    address,
    filled_list,
    list_of,
    number,
    text,
)
from ranktable.schema.record_reader import RecordReader, objects, text_of
from ranktable.schema.rules import groups_of_servers as rules
from ranktable.schema.rules import nodes
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from ranktable.schema.document import Path

KEY = "server_group_list"
_DEVICE_EXAMPLE = {"device_id": "0", "device_ip": "10.20.0.5", "rank_id": "0"}
DEVICE = Record(
    name="device",
    title="Device",
    description="One chip and the process that runs on it.",
    example=_DEVICE_EXAMPLE,
    members=(
        number(
            "device_id",
            "Chip",
            "Physical index of the chip on its server.",
            minimum=0,
            maximum=2048,
            is_required=True,
            role=Role.DEVICE_ID,
        ),
        number(
            "rank_id",
            "Rank in the group",
            "From 0 in each group, or in each server of one node.",
            minimum=0,
            is_required=True,
            role=Role.RANK,
        ),
        address(
            "device_ip",
            "Address of the device",
            "IP address of the device's network card.",
            role=Role.ADDRESS,
            kind=Kind.ADDRESSES,
            has_blanks=True,
        ),
        number(
            "device_logical_id",
            "Logical index",
            "Within the pod.",
            minimum=0,
            maximum=2048,
        ),
        text("super_device_id", "Chip in its super pod", "On A3.", "8388608"),
    ),
)
_SERVER_EXAMPLE = {
    "server_id": "10.30.0.5",
    "server_ip": "10.40.0.5",
    "device": [_DEVICE_EXAMPLE],
}
SERVER = Record(
    name="server",
    title="Server",
    description="One host, or one pod on it.",
    example=_SERVER_EXAMPLE,
    one_of=("server_id", "server_ip"),
    members=(
        text("server_id", "Host", "Address of the host.", "10.30.0.5", role=Role.HOST),
        address("server_ip", "Pod", "Address of the pod.", "10.40.0.5"),
        text("hardware_type", "Kind of hardware", "Of MindIE.", "800I A2(64G)"),
        *(
            number(key, title, "Of MindIE.", "1024", minimum=1024, maximum=65_535)
            for key, title in (
                ("predict_port", "Port of requests"),
                ("mgmt_port", "Port of management"),
                ("metric_port", "Port of metrics"),
                ("inter_comm_port", "Port between instances"),
            )
        ),
        list_of("device", DEVICE, "Devices", "Devices of the server, if it has any."),
    ),
)
_POD_EXAMPLE = {"super_pod_id": "0", "server_list": [{"server_id": "10.30.0.5"}]}
POD = Record(
    name="pod",
    title="Super pod",
    description="Servers of one super pod.",
    example=_POD_EXAMPLE,
    members=(
        text("super_pod_id", "Super pod", "Its name.", "0", kind=Kind.ANY),
        list_of(
            "server_list",
            Record(
                name="pod_server",
                title="Server",
                description="A server of the group.",
                example={"server_id": "10.30.0.5"},
                members=(text("server_id", "Host", "As in the group.", "10.30.0.5"),),
            ),
            "Servers",
            "The servers of the super pod.",
        ),
    ),
)
_GROUP_EXAMPLE = {
    "group_id": "2",
    "server_count": "1",
    "server_list": [_SERVER_EXAMPLE],
}
GROUP = Record(
    name="group",
    title="Group",
    description="An instance, or the coordinator (0) and the controller (1).",
    example=_GROUP_EXAMPLE,
    members=(
        text("group_id", "Group", "Its number.", "2", kind=Kind.ANY, is_required=True),
        text("deploy_server", "Deployment", "Of ClusterD.", "0", kind=Kind.ANY),
        number(
            "server_count", "Number of servers", "Entries of server_list.", minimum=0
        ),
        list_of(
            "server_list", SERVER, "Servers", "Servers of the group.", is_required=True
        ),
        list_of("super_pod_list", POD, "Super pods", "On A3."),
    ),
)
TABLE = Record(
    name="table",
    title="Group table",
    description="Groups of servers.",
    example={"version": "1.0", "status": "completed", KEY: [_GROUP_EXAMPLE]},
    members=(
        text("version", "Version", "1.0, or 1.2 with super pods.", "1.0"),
        text("status", "Status", "completed when it is ready.", "completed"),
        filled_list(KEY, GROUP, "Groups", "The groups."),
    ),
)


def fill(reader: RecordReader, data: Any) -> None:
    """Put every server of every group into columns."""
    for index, group in objects(data.get(KEY)):
        name, first = str(group.get("group_id")), reader.columns.num_nodes
        for place, server in objects(group.get("server_list")):
            path = (KEY, index, "server_list", place)
            host = text_of(server.get("server_id")) or text_of(server.get("server_ip"))
            reader.add_node(path, host, name)
            reader.add_devices(path, server)
        _judge_count(reader, (KEY, index), group)
        _judge_ranks(reader, first, name)


def _judge_count(reader: RecordReader, path: Path, group: dict[str, Any]) -> None:
    count, listed = plain_number(group.get("server_count")), group.get("server_list")
    if count is None or not isinstance(listed, list) or count == len(listed):
        return
    entries = counted(len(listed), "entry", "entries")
    message = f"server_count is {count}, but server_list has {entries}"
    reader.report(rules.GROUP_COUNT, (*path, "server_count"), message)


def _judge_ranks(reader: RecordReader, first: int, group: str) -> None:
    """Report the first rank of a group that is repeated, or not in 0 to n - 1."""
    columns = reader.columns
    starts = columns.starts[first:]
    servers = [
        list(range(start, end)) for start, end in pairwise(starts) if end > start
    ]
    indices = [index for server in servers for index in server]
    ranks = [columns.ranks[index] for index in indices]
    if any(rank is None or rank < 0 for rank in ranks):
        return  # already reported
    if _odd_rank(reader, indices) is None:
        return
    if all(_odd_rank(reader, server) is None for server in servers):
        return  # MindIE on one node
    odd = _odd_rank(reader, indices)
    assert odd is not None
    rank = columns.ranks[odd]
    message = (
        f"rank_id {rank} of group {group} is repeated or beyond its "
        f"{counted(len(indices), 'device')}"
    )
    hint = f"number the devices of the group 0 to {len(indices) - 1}"
    path = (*columns.device_path(odd), "rank_id")
    reader.report(rules.GROUP_RANKS, path, message, hint=hint)


def _odd_rank(reader: RecordReader, indices: list[int]) -> int | None:
    """Return the first device whose rank is repeated or out of range."""
    seen: set[int] = set()
    for index in indices:
        rank = reader.columns.ranks[index]
        if rank is None or rank in seen or not 0 <= rank < len(indices):
            return index
        seen.add(rank)
    return None


FORMAT = RecordFormat(
    name="server-groups",
    title="Groups of servers (server_group_list)",
    description="Which chips the instances of a service have: tables of ClusterD, "
    "MindIE and Omni-Infer.",
    record=TABLE,
    fill=fill,
    nodes=TABLE.members[-1],
    devices=SERVER.members[-1],
    node_fields=SERVER.members[:1],
    device_fields=DEVICE.members,
    has_global_ranks=False,
    rules=(nodes.DUPLICATE_CHIP,),
)
