"""Ascend's rank table before 1.0, in the cloud form that ModelArts writes.

The table has no ranks: HCCL sorts the servers by ``server_id`` as text, and the chips
of each by number, and then counts. It is read and converted, but not written. Source:
HCCL's reader of tables without a version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.schema.declare import (
    Format,
    KeyRole,
    Kind,
    Record,
    address,
    filled_list,
    numeral,
    text,
)
from ranktable.schema.reader import Reader, objects, text_of
from ranktable.schema.rules import hccl, hccl_chips, nodes
from ranktable.schema.rules import hccl_cloud as rules
from ranktable.schema.text import quoted
from ranktable.schema.values import plain_number

if TYPE_CHECKING:
    from ranktable.schema.document import Path

GROUPS, INSTANCES, DEVICES = "group_list", "instance_list", "devices"

_DEVICE = Record(
    name="device",
    description="One chip.",
    example={"device_id": "0", "device_ip": "10.20.0.5"},
    keys=(
        numeral(
            "device_id",
            "Physical index of the chip, 0 to 7.",
            role=KeyRole.DEVICE_ID,
            is_required=True,
        ),
        address(
            "device_ip",
            "IP address of its network card; one instance alone needs none.",
            role=KeyRole.ADDRESS,
            kind=Kind.ADDRESSES,
        ),
    ),
)
_SERVER = text(
    "server_id",
    "Name or address of the server.",
    "node-a",
    kind=Kind.HOST,
    role=KeyRole.HOST,
    is_required=True,
    maximum=hccl.MAX_NAME,
)
_POD = Record(
    name="instance",
    description="One pod and its chips.",
    keys=(
        text(
            "pod_name",
            "Its name, by which a process finds its own entry.",
            "job-0",
            is_required=True,
            minimum=1,
            maximum=hccl.MAX_NAME,
        ),
        _SERVER,
        filled_list(DEVICES, _DEVICE, "Its chips."),
    ),
)
_COUNTS = tuple(
    numeral(key, "A count.", "1", minimum=0, is_required=True)
    for key in ("group_count", "device_count", "instance_count")
)
_GROUP = Record(
    name="group",
    description="A group of instances; there is one, as a rule.",
    keys=(
        text("group_name", "Its name.", "hccl_world_group", is_required=True),
        *_COUNTS[1:],
        filled_list(INSTANCES, _POD, "Its instances."),
    ),
)
CLOUD = Record(
    name="table",
    description="The pods of a job.",
    keys=(
        text(
            "status",
            "HCCL waits for 'completed', half an hour by default.",
            "completed",
            is_required=True,
        ),
        _COUNTS[0],
        filled_list(GROUPS, _GROUP, "The groups."),
    ),
)

Instance = tuple["Path", dict[str, Any]]


def _instances(data: dict[str, Any]) -> list[Instance]:
    """Return every instance with its path."""
    return [
        ((GROUPS, group, INSTANCES, place), instance)
        for group, members in objects(data.get(GROUPS))
        for place, instance in objects(members.get(INSTANCES))
    ]


def fill(reader: Reader, data: Any) -> None:
    """Put the pods into columns, and number the chips as HCCL does."""
    servers: dict[str, list[Instance]] = {}
    for path, instance in _instances(data):
        server = text_of(instance.get("server_id")) or ""
        servers.setdefault(server, []).append((path, instance))
    rank = 0
    for server in sorted(servers):
        reader.add_node(servers[server][0][0], server or None)
        found = [
            ((*path, DEVICES, place), device)
            for path, instance in servers[server]
            for place, device in objects(instance.get(DEVICES))
        ]
        found.sort(key=lambda one: reader.read_number(one[1].get("device_id")) or 0)
        for path, device in found:
            reader.add_device(path, device, rank=rank)
            rank += 1
    _note_text_order(reader, servers)
    _judge_groups(reader, data)
    _judge_pods(reader, _instances(data))


def _note_text_order(reader: Reader, servers: dict[str, list[Instance]]) -> None:
    """Note that HCCL counts the servers in another order than the file has."""
    in_file, in_text = list(servers), sorted(servers)
    if in_file == in_text:
        return
    at = next(i for i, server in enumerate(in_text) if server != in_file[i])
    path = (*servers[in_text[at]][0][0], "server_id")
    message = (
        f"HCCL counts the ranks of {quoted(in_text[at])} before those of "
        f"{quoted(in_file[at])}: it sorts server_id as text"
    )
    reader.report(rules.TEXT_ORDER, path, message)


def _judge_groups(reader: Reader, data: dict[str, Any]) -> None:
    """Report counts that differ from the number of entries, and names used twice."""
    groups = objects(data.get(GROUPS))
    _judge_count(reader, ("group_count",), data, len(groups), "groups")
    names: dict[str, Path] = {}
    for index, group in groups:
        path: Path = (GROUPS, index)
        name, name_path = group.get("group_name"), (*path, "group_name")
        first = names.setdefault(str(name), name_path)
        if isinstance(name, str) and first != name_path:
            message = f"the group_name {quoted(name)} is listed twice"
            reader.report(rules.DUPLICATE_GROUP, name_path, message, related=(first,))
        instances = [one for _, one in objects(group.get(INSTANCES))]
        if not instances:
            continue
        devices = sum(len(objects(one.get(DEVICES))) for one in instances)
        _judge_count(reader, (*path, "device_count"), group, devices, "devices")
        key = (*path, "instance_count")
        _judge_count(reader, key, group, len(instances), "instances")


def _judge_count(
    reader: Reader, path: Path, members: dict[str, Any], number: int, what: str
) -> None:
    written = plain_number(members.get(str(path[-1])))
    if written is not None and written != number:
        message = f"{path[-1]} is {written}, and the number of {what} is {number}"
        reader.report(rules.GROUP_COUNTS, path, message, hint=f"write {number}")


def _judge_pods(reader: Reader, instances: list[Instance]) -> None:
    """Report pods that have the same name."""
    first_use: dict[str, Path] = {}
    for path, instance in instances:
        name, at = instance.get("pod_name"), (*path, "pod_name")
        if not isinstance(name, str) or not name:
            continue
        first = first_use.setdefault(name, at)
        if first != at:
            message = f"the pod_name {quoted(name)} is listed twice"
            reader.report(rules.DUPLICATE_POD_NAME, at, message, related=(first,))


FORMAT = Format(
    name="hccl-cloud",
    title="HCCL cloud table (group_list)",
    description="Which chips each pod of a job on the first 910 has; HCCL numbers "
    "them.",
    record=CLOUD,
    fill=fill,
    nodes_key=GROUPS,
    devices_key=DEVICES,
    node=_POD,
    device=_DEVICE,
    example=CLOUD.example,
    matches=lambda document: GROUPS in document,
    rules=(
        nodes.DUPLICATE_CHIP,
        nodes.NO_SUCH_CHIP,
        nodes.BAD_ADDRESS,
        hccl.NOT_COMPLETED,
        hccl.DUPLICATE_ADDRESS,
        hccl.MISSING_ADDRESS,
        hccl.UNEQUAL_ADDRESSES,
        hccl.MIXED_FAMILIES,
        hccl.LONG_NAME,
        hccl.LOOPBACK,
        *hccl_chips.RULES,
    ),
    is_hccl_1=True,
    has_other_keys=True,
)
