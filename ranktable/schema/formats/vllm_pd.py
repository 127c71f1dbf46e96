"""vLLM-Ascend's table of prefill and decode devices, read by releases up to 0.12.

``cluster_id`` counts the devices from 1, prefill before decode. The rank of a device is
its index. Source: vLLM-Ascend's ``gen_ranktable.py`` and its connector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ranktable.schema.finding import Severity
from ranktable.schema.format import Kind, NotExpressibleError, Role, plain_number
from ranktable.schema.record import (
    Record,
    RecordFormat,
    address,
    list_of,
    number,
    text,
    written_device,
)
from ranktable.schema.record_reader import (
    RecordReader,
    build_record_parts,
    objects,
    text_of,
)
from ranktable.schema.rules import groups_of_servers as rules
from ranktable.schema.text import counted, quoted

if TYPE_CHECKING:
    from ranktable.schema.columns import Columns
    from ranktable.schema.document import Path
    from ranktable.schema.model import Node, Parts, RankTable

LISTS = {"prefill": "prefill_device_list", "decode": "decode_device_list"}
DEVICE = Record(
    name="device",
    title="Device",
    description="One chip, which prefills or decodes.",
    members=(
        text(
            "server_id",
            "Server",
            "Address of the server.",
            "10.30.0.5",
            kind=Kind.HOST,
            role=Role.HOST,
            is_required=True,
        ),
        number(
            "device_id",
            "Chip",
            "Physical index of the chip on its server.",
            role=Role.DEVICE_ID,
            is_required=True,
            minimum=0,
        ),
        address(
            "device_ip",
            "Address of the device",
            "IP address of the device's network card; on A3 the virtual one.",
            role=Role.ADDRESS,
            is_required=True,
            kind=Kind.ADDRESSES,
        ),
        number(
            "cluster_id",
            "Number in the cluster",
            "From 1, prefill before decode.",
            "1",
            is_required=True,
            minimum=0,
        ),
        text("super_pod_id", "Super pod", "On A3.", "0", kind=Kind.ANY),
        text("super_device_id", "Chip in its super pod", "On A3.", "0", kind=Kind.ANY),
        address("device_hccn_ip", "Address for RoCE", "On A3, of one fork."),
    ),
)
TABLE = Record(
    name="table",
    title="Prefill and decode table",
    description="The devices of a service.",
    example={
        "version": "1.2",
        "server_count": "1",
        "status": "completed",
        "prefill_device_list": [DEVICE.example],
        "decode_device_list": [],
    },
    one_of=tuple(LISTS.values()),
    members=(
        text("version", "Version", "1.2; vLLM does not look.", "1.2"),
        number(
            "server_count",
            "Number of servers",
            "Processes that wrote the table, one on each server.",
            "1",
            minimum=0,
        ),
        list_of(LISTS["prefill"], DEVICE, "Prefill", "Devices that prefill."),
        list_of(LISTS["decode"], DEVICE, "Decode", "Devices that decode."),
        text("status", "Status", "completed.", "completed"),
    ),
)


def fill(reader: RecordReader, data: Any) -> None:
    """Put the devices into columns, server by server; the rank is the index."""
    servers: dict[str | None, list[tuple[Path, int, dict[str, Any]]]] = {}
    rank = 0
    for key in LISTS.values():
        for index, device in objects(data.get(key)):
            server = text_of(device.get("server_id"))
            servers.setdefault(server, []).append(((key, index), rank, device))
            rank += 1
    for server, devices in servers.items():
        lists = {path[0] for path, _, _ in devices}
        group = ", ".join(name for name, key in LISTS.items() if key in lists)
        reader.add_node(devices[0][0], server, group)
        for path, place, device in devices:
            reader.add_device(path, device, rank=place)
    _judge_count(reader, data, len(servers))
    every = [one for devices in servers.values() for one in devices]
    _judge(reader, sorted(every, key=lambda one: one[1]))


def _judge_count(reader: RecordReader, data: Any, servers: int) -> None:
    """Report a count that differs from the servers; it may count processes."""
    count = plain_number(data.get("server_count"))
    if count is not None and count != servers:
        has = counted(servers, "server")
        message = f"server_count is {count}, and the table has {has}"
        path = ("server_count",)
        reader.report(rules.GROUP_COUNT, path, message, severity=Severity.NOTE)


def _judge(
    reader: RecordReader, devices: list[tuple[Path, int, dict[str, Any]]]
) -> None:
    """Report values that two devices share, and values that one lacks."""
    clusters: dict[object, Path] = {}
    seen: dict[tuple[object, ...], Path] = {}
    in_pods = any(
        key in device
        for _, _, device in devices
        for key in ("super_pod_id", "super_device_id")
    )
    for path, _, device in devices:
        cluster = plain_number(device.get("cluster_id"))
        first = clusters.setdefault(cluster, path)
        if cluster is not None and first is not path:
            message = f"cluster_id {cluster} is repeated"
            at, other = (*path, "cluster_id"), (*first, "cluster_id")
            reader.report(rules.DUPLICATE_CLUSTER_ID, at, message, related=(other,))
        _judge_device(reader, path, device, seen)
        if in_pods and "super_device_id" not in device:
            message = "a device of a super pod has no super_device_id"
            reader.report(rules.NO_SUPER_DEVICE_ID, path, message)


def _judge_device(
    reader: RecordReader,
    path: Path,
    device: dict[str, Any],
    seen: dict[tuple[object, ...], Path],
) -> None:
    """Report a chip, an address or a super device id that is repeated."""
    for keys in (
        ("server_id", "device_id"),
        ("device_ip",),
        ("super_pod_id", "super_device_id"),
    ):
        values = tuple(str(device.get(key)) for key in keys)
        if device.get(keys[-1]) in (None, ""):
            continue
        first = seen.setdefault((keys, *values), path)
        if first is not path:
            message = f"{keys[-1]} {quoted(device[keys[-1]])} is listed twice"
            at, other = (*path, keys[-1]), (*first, keys[-1])
            reader.report(rules.DUPLICATE_DEVICE, at, message, related=(other,))
            return  # one finding is enough, however many values are repeated


ROLE = "prefill_or_decode"
"""The key of the list of a device, if its server has devices in both lists."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PrefillDecodeFormat(RecordFormat):
    """The format; a server may have both prefill and decode devices."""

    def build(self, columns: Columns) -> Parts:
        """Return the parts of a table; devices of such a server name their list."""
        parts = build_record_parts(columns)
        top = columns.document.data
        listed = top.get(LISTS["prefill"]) if isinstance(top, dict) else None
        size = len(objects(listed))
        nodes = tuple(
            node if node.group in LISTS else _with_lists(node, size)
            for node in parts.nodes
        )
        return parts._replace(nodes=nodes)


def _with_lists(node: Node, num_prefill: int) -> Node:
    devices = [
        structs.replace(
            one,
            extra={
                **one.extra,
                ROLE: "prefill" if one.rank < num_prefill else "decode",
            },
        )
        for one in node.devices
    ]
    return structs.replace(node, devices=tuple(devices))


def make(table: RankTable) -> dict[str, object]:
    """Return the plain data of a changed table of this format.

    Raises:
        NotExpressibleError: It is not known which devices are prefill devices.
    """
    lists: dict[str, list[dict[str, object]]] = {key: [] for key in LISTS}
    devices = [(node, device) for node in table.nodes for device in node.devices]
    for node, device in sorted(devices, key=lambda one: one[1].rank):
        role = device.extra.get(ROLE, node.group)
        if role not in lists:
            raise NotExpressibleError(
                "vllm-pd needs to know which devices prefill and which decode"
            )
        written = written_device(DEVICE.members, device)
        written.pop(ROLE, None)
        number_ = {"cluster_id": str(device.rank + 1)}
        lists[str(role)].append({"server_id": node.host, **written, **number_})
    _refuse_other_order(lists)
    own = table.extra if table.format == FORMAT.name else {}
    return {
        "version": "1.2",
        "server_count": str(len({node.host for node in table.nodes})),
        **{LISTS[name]: found for name, found in lists.items()},
        "status": "completed",
        **{key: value for key, value in own.items() if key != "server_count"},
    }


def _refuse_other_order(lists: dict[str, list[dict[str, object]]]) -> None:
    """Raise NotExpressibleError if a decode rank is below a prefill rank.

    The rank of a device is its index, and prefill devices come first.
    """
    ranks = [int(str(one["cluster_id"])) for own in lists.values() for one in own]
    if ranks != sorted(ranks):
        raise NotExpressibleError(
            "in vllm-pd the ranks that prefill come before those that decode"
        )


FORMAT = PrefillDecodeFormat(
    name="vllm-pd",
    title="vLLM prefill and decode table (prefill_device_list)",
    description="Which devices prefill and which decode in vLLM on Ascend, "
    "in releases to 0.12.",
    record=TABLE,
    fill=fill,
    make=make,
    has_written_ranks=False,
    nodes=TABLE.members[2],
    devices=TABLE.members[2],
    device_fields=DEVICE.members,
    rules=(rules.NO_SUPER_DEVICE_ID,),
)
