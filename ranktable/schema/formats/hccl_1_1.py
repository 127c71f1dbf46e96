"""Ascend's rank table 1.1, heterogeneous: ranks on chips and ranks on hosts.

Source: HCCL's reader of 1.1 (``topoinfo_ranktableHeterog``), August 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.schema.columns import place_name
from ranktable.schema.format import NotExpressibleError, Role, plain_number
from ranktable.schema.record import (
    Record,
    RecordFormat,
    address,
    filled_list,
    numeral,
    text,
    version,
    written_device,
)
from ranktable.schema.record_reader import RecordReader, objects, text_of
from ranktable.schema.rules import hccl, hccl_chips, nodes, ranks, shape

if TYPE_CHECKING:
    from ranktable.schema.document import Path
    from ranktable.schema.model import Device, RankTable

COLLECTIVE_ID = "collective_id"
HOST_PROCESS = -1
"""The device_id of a rank that runs on the host."""

SUB_VERSION = "heterog_sub_version"
_A3_KEYS = ("device_id", "port", "rank_ip", "sdid")
_MAX_NAME, _MAX_PORT = 127, 65_535

GLOBAL_RANK = numeral(
    "rank_id", "Global rank", "0 to world_size - 1.", role=Role.RANK, is_required=True
)
STATUS = text(
    "status",
    "Status",
    "HCCL waits for 'completed', half an hour by default.",
    "completed",
    is_required=True,
)
_RANK = Record(
    name="rank",
    title="Rank",
    description="One process and its chip.",
    example={"rank_id": "0", "device_id": "0", "rank_ip": "10.20.0.5", "port": "0"},
    members=(
        GLOBAL_RANK,
        numeral(
            "device_id",
            "Chip",
            "Physical index of the chip; -1, or no key, is a process of the host.",
            role=Role.DEVICE_ID,
            minimum=HOST_PROCESS,
        ),
        address(
            "rank_ip",
            "Address",
            "IP address of the rank; node_addr by default.",
            role=Role.ADDRESS,
            has_blanks=True,
        ),
        numeral(
            "port",
            "Port",
            "0, or no key, is HCCL_IF_BASE_PORT plus the local rank.",
            "60100",
            minimum=0,
            maximum=_MAX_PORT,
        ),
        address("host_ip", "Address of the host", "Of all ranks, or of none."),
        text("sdid", "Chip in its super pod", "On A3.", "33554432"),
        numeral("bind_device_id", "Chip of a process of the host", "On A3.", minimum=0),
    ),
)
_NODE = Record(
    name="node",
    title="Node",
    description="One host and its ranks.",
    members=(
        address(
            "node_addr",
            "Host",
            "IP address of the host, once in the table.",
            role=Role.HOST,
            is_required=True,
        ),
        filled_list("ranks", _RANK, "Ranks", "Its ranks."),
    ),
)
TABLE = Record(
    name="table",
    title="Heterogeneous table",
    description="The ranks of a job.",
    members=(
        version("1.1"),
        STATUS,
        text(
            COLLECTIVE_ID,
            "Job",
            "Name of the job, 127 bytes at most.",
            "job-0",
            is_required=True,
            minimum=1,
            maximum=_MAX_NAME,
        ),
        text("mode", "Mode", "How ranks connect.", values=("tcp", "rdma")),
        text(SUB_VERSION, "Variant", "1.2 is the form of A3.", values=("1.2",)),
        filled_list("node_list", _NODE, "Nodes", "The hosts."),
    ),
)


def fill(reader: RecordReader, data: Any) -> None:
    """Put nodes and ranks into columns; a rank on a host has the device_id -1."""
    found: list[tuple[Path, dict[str, Any]]] = []
    for index, node in objects(data.get("node_list")):
        path: Path = ("node_list", index)
        reader.add_node(path, text_of(node.get("node_addr")))
        reader.columns.has_unread |= not node.get("ranks")
        used: dict[int, Path] = {}
        for place, rank in objects(node.get("ranks")):
            at = (*path, "ranks", place)
            chip = rank.get("device_id", HOST_PROCESS)
            reader.add_device(at, rank, device_id=chip)
            found.append((at, rank))
            _judge_chip(reader, at, reader.number(chip), used)
    _judge_host_addresses(reader, found)
    if data.get(SUB_VERSION) is not None:
        for path, rank in found:
            _judge_a3(reader, path, rank)


def _judge_chip(
    reader: RecordReader, path: Path, chip: int | None, used: dict[int, Path]
) -> None:
    """Report a chip that another rank of the node has."""
    if chip is None or chip < 0:
        return
    first = used.setdefault(chip, path)
    if first != path:
        message = f"chip {chip} is given to {place_name(first)} and {place_name(path)}"
        at, other = (*path, "device_id"), (*first, "device_id")
        reader.report(nodes.DUPLICATE_CHIP, at, message, related=(other,))


def _judge_host_addresses(
    reader: RecordReader, found: list[tuple[Path, dict[str, Any]]]
) -> None:
    """Report ranks without host_ip if other ranks have one."""
    if not any("host_ip" in rank for _, rank in found):
        return
    for path, rank in found:
        if "host_ip" not in rank:
            message = f"{place_name(path)} has no host_ip, and other ranks have it"
            reader.report(shape.MISSING_KEY, path, message)


def _judge_a3(reader: RecordReader, path: Path, rank: dict[str, Any]) -> None:
    """Report missing keys of the A3 variant."""
    is_on_host = plain_number(rank.get("device_id")) == HOST_PROCESS
    wanted = (*_A3_KEYS, "bind_device_id") if is_on_host else _A3_KEYS
    for key in wanted:
        if key not in rank:
            message = f'{place_name(path)} has no {key}, which {SUB_VERSION} "1.2" asks'
            reader.report(shape.MISSING_KEY, path, message)


def _written(device: Device) -> dict[str, object]:
    """Return the plain data of a rank; a rank on a host is written as it was read."""
    is_on_host = device.device_id == HOST_PROCESS
    but = Role.DEVICE_ID if is_on_host else None
    fields = (field for field in _RANK.members if field.role is not but)
    return written_device(fields, device)


def make(table: RankTable) -> dict[str, object]:
    """Return the plain data of a changed table of this format.

    Raises:
        NotExpressibleError: The table was read from another format.
    """
    if COLLECTIVE_ID not in table.extra:
        raise NotExpressibleError(
            f"{FORMAT.name} needs a collective_id, which no other table has"
        )
    listed = [
        {
            "node_addr": node.host,
            **node.extra,
            "ranks": [_written(device) for device in node.devices],
        }
        for node in table.nodes
    ]
    return {"version": "1.1", **table.extra, "node_list": listed}


FORMAT = RecordFormat(
    name="hccl-1.1",
    title="HCCL rank table 1.1, heterogeneous (collective_id)",
    description="Which ranks of a job run on chips of Ascend and which on hosts.",
    record=TABLE,
    fill=fill,
    make=make,
    nodes=TABLE.members[-1],
    devices=_NODE.members[1],
    table_fields=TABLE.members,
    node_fields=_NODE.members[:1],
    device_fields=_RANK.members,
    rules=(
        *ranks.EACH_RANK_ONCE,
        nodes.DUPLICATE_HOST,
        hccl.NOT_COMPLETED,
        hccl_chips.WRONG_GENERATION,
    ),
    keeps_last_key=True,
    reads_leading_digits=True,
)
