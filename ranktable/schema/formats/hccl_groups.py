"""Ascend's rank tables before 1.0: ``group_list``, in a lab or a cloud form.

A cloud table has no ranks: HCCL sorts the servers by ``server_id`` as text, and the
chips of each by number, and then counts. Source: HCCL's reader of tables without a
version.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ranktable.schema.format import Kind, NotExpressibleError, Role, plain_number
from ranktable.schema.formats.hccl_1_1 import STATUS
from ranktable.schema.record import (
    Member,
    Record,
    RecordFormat,
    address,
    filled_list,
    list_of,
    numeral,
    text,
    written_device,
)
from ranktable.schema.record_reader import (
    RecordReader,
    build_record_parts,
    objects,
    text_of,
)
from ranktable.schema.rules import hccl, hccl_chips, nodes, ranks
from ranktable.schema.rules import hccl_groups as rules
from ranktable.schema.text import counted, quoted

if TYPE_CHECKING:
    from ranktable.schema.columns import Columns
    from ranktable.schema.document import Path
    from ranktable.schema.model import Device, Node, Parts, RankTable

GROUPS, INSTANCES, DEVICES = "group_list", "instance_list", "devices"
LEGAL_SIZES = (1, 2, 4, 8, 16)
MAX_NAME = 127

_DEVICE = Record(
    name="device",
    title="Device",
    description="One chip.",
    example={"device_id": "0", "device_ip": "10.20.0.5"},
    members=(
        numeral(
            "device_id",
            "Chip",
            "Physical index of the chip, 0 to 7.",
            role=Role.DEVICE_ID,
            is_required=True,
        ),
        address(
            "device_ip",
            "Address of the device",
            "IP address of its network card; one instance alone needs none.",
            role=Role.ADDRESS,
            kind=Kind.ADDRESSES,
            has_blanks=True,
        ),
    ),
)
_SERVER = text(
    "server_id",
    "Server",
    "Name or address of the server.",
    "node-a",
    kind=Kind.HOST,
    role=Role.HOST,
    is_required=True,
)
_POD = Record(
    name="instance",
    title="Instance",
    description="One pod and its chips.",
    members=(
        text(
            "pod_name",
            "Pod",
            "Its name, by which a process finds its own entry.",
            "job-0",
            is_required=True,
            minimum=1,
            maximum=MAX_NAME,
        ),
        _SERVER,
        filled_list(DEVICES, _DEVICE, "Devices", "Its chips."),
    ),
)
_RANK = Record(
    name="instance",
    title="Instance",
    description="One rank and its chip.",
    members=(
        numeral("rank_id", "Global rank", "From 0.", role=Role.RANK, is_required=True),
        _SERVER,
        filled_list(DEVICES, _DEVICE, "Device", "Its chip.", maximum=1),
    ),
)
_NAME = text("group_name", "Group", "Its name.", "hccl_world_group", is_required=True)


def _count(key: str, title: str, description: str) -> Member:
    return numeral(key, title, description, "1", minimum=0, is_required=True)


_GROUP_COUNT = _count("group_count", "Number of groups", "Entries.")


def _group(each: Record, *counts: str) -> Record:
    return Record(
        name="group",
        title="Group",
        description="A group of instances; there is one, as a rule.",
        members=(
            _NAME,
            *(
                _count(key, key.replace("_", " ").capitalize(), "A count.")
                for key in counts
            ),
            filled_list(INSTANCES, each, "Instances", "Its instances."),
        ),
    )


CLOUD_GROUP = _group(_POD, "device_count", "instance_count")
LAB_GROUP = _group(_RANK, "device_num", "server_num", "instance_count")
CLOUD = Record(
    name="table",
    title="Cloud table",
    description="The pods of a job.",
    members=(
        STATUS,
        _GROUP_COUNT,
        filled_list(GROUPS, CLOUD_GROUP, "Groups", "The groups."),
    ),
)
_LAB_KEYS = {
    "board_id": "0x0020",
    "chip_info": "910",
    "deploy_mode": "lab",
    "para_plane_nic_location": "device",
    "para_plane_nic_num": "1",
}
LAB = Record(
    name="table",
    title="Lab table",
    description="The ranks of a job.",
    example={**CLOUD.example, **_LAB_KEYS, GROUPS: [LAB_GROUP.example]},
    members=(
        STATUS,
        *(
            text(
                key,
                key.replace("_", " ").capitalize(),
                "Of the network of the 910.",
                example,
                values=("device",) if example == "device" else (),
            )
            for key, example in _LAB_KEYS.items()
        ),
        list_of(
            "para_plane_nic_name",
            text("name", "Card", "Name of a network card.", "eth0"),
            "Network cards",
            "Their names.",
        ),
        _GROUP_COUNT,
        filled_list(GROUPS, LAB_GROUP, "Groups", "The groups."),
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


def _by_server(data: dict[str, Any]) -> dict[str, list[Instance]]:
    """Return the instances of each server, in the order of the file."""
    servers: dict[str, list[Instance]] = {}
    for path, instance in _instances(data):
        server = text_of(instance.get("server_id")) or ""
        servers.setdefault(server, []).append((path, instance))
    return servers


def fill_cloud(reader: RecordReader, data: Any) -> None:
    """Put the pods into columns, and number the chips as HCCL does."""
    servers = _by_server(data)
    rank = 0
    for server in sorted(servers):
        reader.add_node(servers[server][0][0], server or None)
        found = [
            ((*path, DEVICES, place), device)
            for path, instance in servers[server]
            for place, device in objects(instance.get(DEVICES))
        ]
        found.sort(key=lambda one: reader.number(one[1].get("device_id")) or 0)
        for path, device in found:
            reader.add_device(path, device, rank=rank)
            rank += 1
    _note_text_order(reader, servers)
    _judge_counts(reader, data)
    _judge_pods(reader, _instances(data))


def _note_text_order(reader: RecordReader, servers: dict[str, list[Instance]]) -> None:
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


def fill_lab(reader: RecordReader, data: Any) -> None:
    """Put the ranks into columns, server by server."""
    columns = reader.columns
    columns.rank_paths = []
    for server, instances in _by_server(data).items():
        reader.add_node(instances[0][0], server or None)
        for path, instance in instances:
            for place, device in objects(instance.get(DEVICES))[:1]:
                columns.rank_paths.append(path)
                rank = instance.get("rank_id")
                reader.add_device((*path, DEVICES, place), device, rank=rank)
    _judge_counts(reader, data)


def _judge_counts(reader: RecordReader, data: dict[str, Any]) -> None:
    """Report counts that differ from the number of entries."""
    groups = objects(data.get(GROUPS))
    count = len(groups)
    _judge_count(reader, ("group_count",), data.get("group_count"), count, "groups")
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
        for key, (number, what) in _counts(instances).items():
            _judge_count(reader, (*path, key), group.get(key), number, what)
        if "device_num" in group:
            per_server = Counter(str(one.get("server_id")) for one in instances)
            _judge_sizes(reader, path, group, list(per_server.values()))


def _counts(instances: list[dict[str, Any]]) -> dict[str, tuple[int, str]]:
    """Return the right value of every count of a group, and what it counts."""
    devices = sum(len(objects(one.get(DEVICES))) for one in instances)
    servers = {str(one.get("server_id")) for one in instances}
    return {
        "device_num": (devices, "devices"),
        "server_num": (len(servers), "servers"),
        "device_count": (devices, "devices"),
        "instance_count": (len(instances), "instances"),
    }


def _judge_count(
    reader: RecordReader, path: Path, value: object, number: int, what: str
) -> None:
    written = plain_number(value)
    if written is not None and written != number:
        message = f"{path[-1]} is {written}, and the number of {what} is {number}"
        reader.report(rules.GROUP_COUNTS, path, message, hint=f"write {number}")


def _judge_sizes(
    reader: RecordReader, path: Path, group: dict[str, Any], sizes: list[int]
) -> None:
    """Report sizes that HCCL refuses in a lab table: 3 devices, or unequal servers."""
    for key, counted_ in (("device_num", sum(sizes)), ("server_num", len(sizes))):
        number = plain_number(group.get(key))
        if number == counted_ and number not in LEGAL_SIZES:  # another is RT292
            message = f"{key} is {number}; HCCL takes 1, 2, 4, 8 and 16"
            near = sorted(LEGAL_SIZES, key=lambda size: abs(size - number))[:2]
            what = "devices" if key == "device_num" else "servers"
            hint = f"use {' or '.join(map(str, sorted(near)))} {what}"
            reader.report(rules.LAB_SIZES, (*path, key), message, hint=hint)
            return
    if len(set(sizes)) > 1:
        message = f"servers have {counted(min(sizes), 'device')} and {max(sizes)}"
        reader.report(rules.LAB_SIZES, (*path, INSTANCES), message)


def _judge_pods(reader: RecordReader, instances: list[Instance]) -> None:
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


GROUP_NAME, POD_NAME = "group_name", "pod_name"
_OF_INSTANCE = ("rank_id", "server_id", DEVICES)
_OF_GROUP = {INSTANCES, *_counts([])}


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupFormat(RecordFormat):
    """A format with devices in instances, and instances in groups."""

    def build(self, columns: Columns) -> Parts:
        """Return the parts of a table, with the keys of instances and groups.

        The keys of an instance are stored with its server if it is the only one there,
        otherwise with its devices. The groups are stored under their own key, without
        instances.
        """
        parts = build_record_parts(columns)
        top = columns.document.data
        listed = top.get(GROUPS) if isinstance(top, dict) else None
        groups = [group for _, group in objects(listed)]
        by_rank: dict[int, Path] = {}
        for index, rank in enumerate(columns.ranks):
            if rank is not None:
                by_rank[rank] = columns.device_path(index)[:4]
        nodes = tuple(
            _with_instances(node, by_rank, columns, has_groups=len(groups) > 1)
            for node in parts.nodes
        )
        kept = [
            {key: value for key, value in group.items() if key not in _OF_GROUP}
            for group in groups
        ]
        return parts._replace(nodes=nodes, extra={**parts.extra, GROUPS: kept})


def _with_instances(
    node: Node, paths: dict[int, Path], columns: Columns, *, has_groups: bool
) -> Node:
    """Return a node with the keys of its instances."""

    def of_instance(path: Path) -> dict[str, object]:
        instance: Any = columns.document.get(*path)
        found = {k: v for k, v in instance.items() if k not in _OF_INSTANCE}
        if has_groups:
            group: Any = columns.document.get(*path[:2])
            found[GROUP_NAME] = group.get(GROUP_NAME)
        return found

    instances = {paths[device.rank] for device in node.devices}
    if len(instances) == 1:
        return structs.replace(node, extra=of_instance(next(iter(instances))))
    devices = []
    for device in node.devices:
        extra = {**of_instance(paths[device.rank]), **device.extra}
        own = tuple((key, type(value)) for key, value in device.extra.items())
        devices.append(structs.replace(device, extra=extra, layout=own))
    return structs.replace(node, devices=tuple(devices), extra={})


def _instance(node: Node, device: Device) -> dict[str, object]:
    """Return the keys of the instance of a device, without those that all have."""
    if device.layout is None:
        own = {POD_NAME, GROUP_NAME}
    else:
        own = device.extra.keys() - {key for key, _ in device.layout}
    return {**node.extra, **{k: v for k, v in device.extra.items() if k in own}}


def _device(device: Device, of_instance: dict[str, object]) -> dict[str, object]:
    rest = {k: v for k, v in device.extra.items() if k not in of_instance}
    return written_device(_DEVICE.members, structs.replace(device, extra=rest))


def _make(
    table: RankTable,
    instances: list[dict[str, Any]],
    record: Record,
) -> dict[str, object]:
    """Return the plain data of a table with these instances, in its groups."""
    listed: Any = table.extra.get(GROUPS) or [{GROUP_NAME: "hccl_world_group"}]
    groups = []
    for group in listed:
        own = [
            {key: value for key, value in one.items() if key != GROUP_NAME}
            for one in instances
            if one.get(GROUP_NAME, group[GROUP_NAME]) == group[GROUP_NAME]
        ]
        if own:
            counts = {key: str(number) for key, (number, _) in _counts(own).items()}
            counts = {key: counts[key] for key in counts if key in record.by_key}
            groups.append({**group, **counts, INSTANCES: own})
    return {**table.extra, "group_count": str(len(groups)), GROUPS: groups}


def make_lab(table: RankTable) -> dict[str, object]:
    """Return the plain data of a changed lab table."""
    instances: list[dict[str, Any]] = [
        {
            "rank_id": str(device.rank),
            "server_id": node.host,
            **(kept := _instance(node, device)),
            DEVICES: [_device(device, kept)],
        }
        for node in table.nodes
        for device in node.devices
    ]
    return _make(table, instances, LAB_GROUP)


def make_cloud(table: RankTable) -> dict[str, object]:
    """Return the plain data of a changed cloud table.

    Raises:
        NotExpressibleError: HCCL would count the ranks in another order.
    """
    _refuse_other_order(table)
    instances: list[dict[str, Any]] = []
    of_server: dict[str | None, list[dict[str, Any]]] = {}
    for node in table.nodes:
        here = of_server.setdefault(node.host, [])
        for device in node.devices:
            kept = _instance(node, device)
            keys = {POD_NAME: node.host, **kept, "server_id": node.host}
            same = [one for one in here if keys.items() <= one.items()]
            if not same:
                same = [{**keys, DEVICES: []}]
                here += same
                instances += same
            same[0][DEVICES].append(_device(device, kept))
    return _make(table, instances, CLOUD_GROUP)


def _refuse_other_order(table: RankTable) -> None:
    """Raise NotExpressibleError if HCCL would count the ranks in another order."""
    chips_ = sorted(
        (node.host or "", device.device_id, device.rank)
        for node in table.nodes
        for device in node.devices
    )
    in_order = [rank for _, _, rank in chips_]
    if in_order != sorted(in_order):
        raise NotExpressibleError(
            "hccl-cloud has no ranks: HCCL counts the chips by server_id as text, then "
            "by device_id, and these ranks have another order; convert --to hccl-1.0 "
            "writes a table that names them"
        )


_RULES = (
    nodes.DUPLICATE_CHIP,
    nodes.NO_SUCH_CHIP,
    hccl.NOT_COMPLETED,
    hccl.DUPLICATE_ADDRESS,
    hccl.MISSING_ADDRESS,
    hccl.UNEQUAL_ADDRESSES,
    hccl.MIXED_FAMILIES,
    hccl.LONG_NAME,
    hccl.LOOPBACK,
    *hccl_chips.RULES,
)
LAB_FORMAT = GroupFormat(
    name="hccl-lab",
    title="HCCL lab table (group_list, deploy_mode)",
    description="Which chip each rank of a job on the first 910 runs on.",
    record=LAB,
    fill=fill_lab,
    make=make_lab,
    takes_others=False,
    nodes=LAB.members[-1],
    devices=_RANK.members[2],
    table_fields=LAB.members,
    node_fields=_RANK.members,
    device_fields=(_RANK.members[0], *_DEVICE.members),
    rules=(
        *ranks.EACH_RANK_ONCE,
        hccl.INTERLEAVED,
        *_RULES,
    ),
    keeps_last_key=True,
    reads_leading_digits=True,
)
CLOUD_FORMAT = GroupFormat(
    name="hccl-cloud",
    title="HCCL cloud table (group_list)",
    description="Which chips each pod of a job on the first 910 has; HCCL numbers "
    "them.",
    record=CLOUD,
    fill=fill_cloud,
    make=make_cloud,
    takes_others=False,
    has_written_ranks=False,
    nodes=CLOUD.members[-1],
    devices=_POD.members[2],
    table_fields=CLOUD.members,
    node_fields=(_SERVER,),
    device_fields=_DEVICE.members,
    rules=_RULES,
    keeps_last_key=True,
    reads_leading_digits=True,
)
