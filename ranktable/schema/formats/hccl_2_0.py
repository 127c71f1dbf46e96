"""HCCL 2.0 for Ascend 950: ranks and their addresses in each network layer.

Source: HCCL's readers of 2.0 (``new_rank_info``,
``rank_level_info``, ``address_info``), August 2026.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ranktable.schema.columns import place_name
from ranktable.schema.declare import (
    NO_RECORD,
    Format,
    Key,
    KeyRole,
    Kind,
    NotExpressibleError,
    Record,
    filled_list,
    integer,
    list_of,
    text,
    version,
)
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Severity
from ranktable.schema.formats.foreign import SPARE_ID
from ranktable.schema.reader import objects
from ranktable.schema.rules import hccl_2_0 as rules
from ranktable.schema.rules import hccl_chips, nodes, ranks, shape
from ranktable.schema.rules.hccl import DUPLICATE_ADDRESS
from ranktable.schema.text import named_ranks, quoted
from ranktable.schema.values import is_address, is_ipv4, is_ipv6, plain_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ranktable.schema.document import Path
    from ranktable.schema.model import Device, RankTable
    from ranktable.schema.reader import Reader

KEY = "rank_list"
MAX_RANKS = 65_536


_ADDRESS_EXAMPLE = {"addr_type": "IPV4", "addr": "10.20.0.5", "ports": ["0/4"]}
_PORT = text("port", "Die and port, or d2h.", "0/4", minimum=1, maximum=32)
_BACKUP = text("addr", "IPv4 or IPv6.", "10.20.0.6", minimum=1, maximum=256)
ADDRESS = Record(
    name="address",
    description="An address and the ports that carry it.",
    example=_ADDRESS_EXAMPLE,
    keys=(
        text(
            "addr_type",
            "In capitals.",
            is_required=True,
            values=("EID", "IPV4", "IPV6"),
        ),
        text(
            "addr",
            "An EID of 32 hexadecimal digits, or an IP address.",
            "10.20.0.5",
            is_required=True,
            minimum=1,
            maximum=256,
        ),
        filled_list("ports", _PORT, "Each as die/port.", maximum=16),
        text("plane_id", "Plane of the network.", "0", maximum=1024),
        list_of("backup_addr", _BACKUP, "IP addresses that stand in.", maximum=16),
    ),
)
_LEVEL_EXAMPLE = {
    "net_layer": 0,
    "net_instance_id": "az0-rack0-server0",
    "net_type": "TOPO_FILE_DESC",
    "net_attr": "",
    "rank_addr_list": [_ADDRESS_EXAMPLE],
}
NET_TYPES = ("TOPO_FILE_DESC", "CLOS", "1DMESH", "2DMESH", "A3_SERVER", "A2_AX_SERVER")
LEVEL = Record(
    name="level",
    description="The addresses of a rank in one layer of the network.",
    example=_LEVEL_EXAMPLE,
    keys=(
        integer(
            "net_layer",
            7,
            "0 is inside the server, 1 between servers.",
            is_required=True,
        ),
        text(
            "net_instance_id",
            "Ranks with the same layer and name are connected there.",
            "az0-rack0-server0",
            is_required=True,
            minimum=1,
            maximum=1024,
        ),
        text("net_type", "How it is wired.", values=NET_TYPES),
        text("net_attr", "Reserved.", ""),
        Key(
            key="pcie_fallback",
            kind=Kind.BOOLEAN,
            description="Whether PCIe stands in.",
            examples=(True,),
        ),
        list_of(
            "rank_addr_list",
            ADDRESS,
            "Addresses in this layer; operators write none where they know none.",
            is_required=True,
            maximum=24,
        ),
    ),
)
CONTROL_PLANE = Record(
    name="control_plane",
    description="Where the rank listens.",
    example={"addr_type": "IPV4", "addr": "10.20.0.5", "listen_port": 8000},
    keys=(
        *ADDRESS.keys[:2],
        integer("listen_port", 65_535, "Port of the control plane.", minimum=1),
    ),
)
_RANK_EXAMPLE = {
    "rank_id": 0,
    "device_id": 0,
    "local_id": 0,
    "level_list": [_LEVEL_EXAMPLE],
}
RANK = Record(
    name="rank",
    description="One process, its chip and its addresses.",
    example=_RANK_EXAMPLE,
    keys=(
        Key(
            key="rank_id",
            kind=Kind.INTEGER,
            role=KeyRole.RANK,
            is_required=True,
            description="0 to rank_count - 1.",
            examples=(0,),
        ),
        integer("local_id", SPARE_ID, "64 is the spare chip.", is_required=True),
        integer(
            "replaced_local_id",
            SPARE_ID - 1,
            "The chip whose place the spare takes.",
        ),
        integer(
            "device_id",
            SPARE_ID,
            "Physical index of the chip.",
            is_required=True,
            role=KeyRole.DEVICE_ID,
        ),
        integer("device_port", 65_535, "Such as 16666.", minimum=1),
        integer("host_port", 65_535, "Such as 16666.", minimum=1),
        list_of(
            "level_list",
            LEVEL,
            "Layers of the network, from the inside outwards.",
            is_required=True,
            maximum=8,
        ),
        Key(
            key="control_plane",
            kind=Kind.OBJECT,
            each=CONTROL_PLANE,
            description="Where the rank listens.",
            examples=(CONTROL_PLANE.example,),
        ),
    ),
)
RANK_LIST = filled_list(KEY, RANK, "The ranks, in any order.", maximum=MAX_RANKS)
VERSION = version("2.0")
COUNT = integer(
    "rank_count",
    MAX_RANKS,
    "Number of entries of rank_list.",
    is_required=True,
    role=KeyRole.COUNT,
    minimum=None,
)
_JOB = {"rank_count": 1, KEY: [_RANK_EXAMPLE]}
TABLE = Record(
    name="table",
    description="The ranks of a job.",
    keys=(
        text("status", "HCCL 2.0 does not read it.", "completed"),
        VERSION,
        text("detour", "Whether routes may detour.", values=("true", "false")),
        COUNT,
        RANK_LIST,
    ),
)


def fill(reader: Reader, data: Any) -> None:
    """Put the ranks into columns; those of one network of layer 0 are a node."""
    columns, listed = reader.columns, data.get(KEY)
    nodes: dict[object, list[int]] = {}
    counts: dict[tuple[str, str], tuple[int, Path]] = {}
    used: dict[tuple[str, ...], Path] = {}
    for index, one in enumerate(listed if isinstance(listed, list) else ()):
        members = one if isinstance(one, dict) else {}
        columns.ranks.append(plain_number(members.get("rank_id")))
        columns.device_ids.append(plain_number(members.get("device_id")))
        levels = objects(members.get("level_list"))
        inner = levels[0][1].get("net_instance_id") if levels else None
        nodes.setdefault(inner if isinstance(inner, str) else None, []).append(index)
        _judge_levels(reader, index, levels, counts, used)
        control = members.get("control_plane")
        if isinstance(control, dict):
            _judge_address(reader, (KEY, index, "control_plane"), control)
    _judge_networks(reader, listed)
    _judge_spares(reader, listed, nodes.values())
    order = [index for indices in nodes.values() for index in indices]
    columns.starts = [*accumulate(map(len, nodes.values()), initial=0)]
    columns.hosts = [None] * len(nodes)
    columns.ranks = [columns.ranks[index] for index in order]
    columns.device_ids = [columns.device_ids[index] for index in order]
    columns.local_ranks = [None] * len(order)
    columns.addresses = [None] * len(order)
    columns.device_paths = [(KEY, index) for index in order]
    columns.node_paths = [(KEY, indices[0]) for indices in nodes.values()]


def _judge_networks(reader: Reader, listed: object) -> None:
    """Report ranks without layer 0, and those that share no network with the others.

    HCCL begins the graph of a rank with its layer 0, and knows a path only in a network
    that both ranks have. libochao-huawei/hcomm, rank_graph.cc.
    """
    networks: dict[int, list[tuple[str, str]]] = {}
    for index, members in objects(listed):
        levels = [level for _, level in objects(members.get("level_list"))]
        layers = [level.get("net_layer") for level in levels]
        if levels and 0 not in layers and all(type(each) is int for each in layers):
            path: Path = (KEY, index, "level_list")
            message = f"{place_name(path)} has no net_layer 0"
            reader.report(rules.LAYERS, path, message)
        if isinstance(members.get("level_list"), list):
            names = [str(level.get("net_instance_id")) for level in levels]
            networks[index] = [*zip(map(str, layers), names, strict=True)]
    for part in _parts(networks)[1:] if any(networks.values()) else ():
        numbers = [reader.columns.ranks[index] for index in part]
        who = named_ranks(sorted(each for each in numbers if each is not None))
        message = f"no network connects {who} with the other ranks"
        span = SourceSpan((KEY, part[0], "level_list"))
        severity = Severity.WARNING
        reader.found.add(rules.ADDRESS_COUNTS.finding(span, message, severity=severity))


def _parts(networks: Mapping[int, list[tuple[str, str]]]) -> list[list[int]]:
    """Return the ranks that networks connect with each other, the most ranks first.

    Args:
        networks: The networks of each rank, by its place in the file.
    """
    members: dict[tuple[str, str], list[int]] = {}
    for index, some in networks.items():
        for network in some:
            members.setdefault(network, []).append(index)
    left, parts = set(networks), []
    for index in networks:
        if index not in left:
            continue
        left.discard(index)
        part = [index]
        for each in part:  # it grows
            for network in networks[each]:
                new = [one for one in members.pop(network, ()) if one in left]
                left.difference_update(new)
                part += new
        parts.append(part)
    return sorted(parts, key=len, reverse=True)


def _judge_levels(
    reader: Reader,
    index: int,
    levels: list[tuple[int, dict[str, Any]]],
    counts: dict[tuple[str, str], tuple[int, Path]],
    used: dict[tuple[str, ...], Path],
) -> None:
    """Judge the layers of a rank.

    Args:
        reader: What reads the document.
        index: Place of the rank in the file.
        levels: Its layers, with their places.
        counts: Number of addresses of each layer and network, and where it is first.
        used: Where each address of a layer and network is first.
    """
    last = -1
    for place, level in levels:
        layer, found = level.get("net_layer"), level.get("rank_addr_list")
        at: Path = (KEY, index, "level_list", place)
        if type(layer) is int:
            if layer <= last:
                message = f"net_layer {layer} comes after net_layer {last}"
                path = (*at, "net_layer")
                reader.report(rules.LAYERS, path, message, hint="sort level_list")
            last = layer
        if not isinstance(found, list):
            continue
        path = (*at, "rank_addr_list")
        network = str(layer), str(level.get("net_instance_id"))
        wanted, first = counts.setdefault(network, (len(found), path))
        if len(found) != wanted:
            message = (
                f"{place_name(path)} has {len(found)} addresses, but "
                f"{place_name(first)} of the same network has {wanted}"
            )
            reader.report(rules.ADDRESS_COUNTS, path, message, related=(first,))
        ports: dict[str, Path] = {}
        for number, address in objects(found):
            _judge_address(reader, (*path, number), address)
            _judge_ports(reader, (*path, number, "ports"), address, ports)
            _judge_repeat(reader, (*path, number, "addr"), address, network, used)


def _judge_repeat(
    reader: Reader,
    path: Path,
    address: dict[str, Any],
    network: tuple[str, str],
    used: dict[tuple[str, ...], Path],
) -> None:
    """Report an address that another entry of the same network has too.

    A card of the host (port ``d2h``) serves all chips of the host, so its address may
    be there for each of them.
    """
    type_, addr = str(address.get("addr_type")), address.get("addr")
    ports = address.get("ports")
    is_sound = _IS_OF_TYPE.get(type_)
    if is_sound is None or not isinstance(addr, str) or not is_sound(addr):
        return  # RT263 tells of it
    if isinstance(ports, list) and "d2h" in ports:
        return
    plain = str(IPv6Address(addr)) if type_ == "IPV6" else addr.lower()
    first = used.setdefault((*network, type_, plain), path)
    if first != path:
        message = (
            f"addr {quoted(addr)} of {place_name(path[:2])} is already the address of "
            f"{place_name(first[:2])} in this network"
        )
        reader.report(DUPLICATE_ADDRESS, path, message, related=(first,))


def _judge_ports(
    reader: Reader,
    path: Path,
    address: dict[str, Any],
    ports: dict[str, Path],
) -> None:
    """Report the ports of an address that another address of the layer has too."""
    found = address.get("ports")
    for place, port in enumerate(found if isinstance(found, list) else ()):
        first = ports.setdefault(str(port), (*path, place))
        if first[:-1] != path:
            message = f"port {quoted(port)} already has another address"
            reader.report(rules.SHARED_PORT, (*path, place), message, related=(first,))


def _judge_spares(
    reader: Reader, listed: list[Any], nodes: Iterable[list[int]]
) -> None:
    """Report spare chips that contradict the other ranks.

    Args:
        reader: What reads the document.
        listed: The ranks.
        nodes: The places of the ranks of each network of layer 0.
    """
    first: Path | None = None
    for places in nodes:
        ranks = [(at, listed[at]) for at in places if isinstance(listed[at], dict)]
        held = {str(one.get("local_id")) for _, one in ranks}
        for at, spare in ranks:
            if spare.get("local_id") != SPARE_ID:
                continue
            path: Path = (KEY, at, "replaced_local_id")
            replaced = spare.get("replaced_local_id")
            if "replaced_local_id" not in spare:
                message = f"{place_name(path[:2])} is a spare and has no {path[2]}"
                reader.report(shape.MISSING_KEY, path[:2], message)
            elif str(replaced) in held:
                message = (
                    f"the spare replaces local_id {replaced}, which is still in the "
                    "table"
                )
                reader.report(rules.SPARE, path, message)
            path = (KEY, at, "local_id")
            if first is not None:
                message = "local_id 64 is a second spare"
                reader.report(rules.SPARE, path, message, related=(first,))
            first = first or path


def _judge_address(reader: Reader, path: Path, members: dict[str, Any]) -> None:
    """Report an address that does not match its type, and backups that are none."""
    backups = members.get("backup_addr")
    for at, backup in enumerate(backups if isinstance(backups, list) else ()):
        if isinstance(backup, str) and backup and not is_address(backup):
            message = f"backup_addr {quoted(backup)} is not an IP address"
            reader.report(rules.ADDRESS_OF_TYPE, (*path, "backup_addr", at), message)
    type_, addr = members.get("addr_type"), members.get("addr")
    is_sound = _IS_OF_TYPE.get(str(type_))
    if is_sound is None or not isinstance(addr, str) or not addr or is_sound(addr):
        return
    wanted = "an EID of 32 hexadecimal digits" if type_ == "EID" else f"{type_}"
    message = f"addr {quoted(addr)} is not {wanted}"
    reader.report(rules.ADDRESS_OF_TYPE, (*path, "addr"), message)


def _is_eid(text: str) -> bool:
    """Whether a text is an endpoint id of the unified bus: 32 hexadecimal digits."""
    return re.fullmatch("[0-9a-fA-F]{32}", text) is not None


_IS_OF_TYPE: dict[str, Callable[[str], bool]] = {
    "EID": _is_eid,
    "IPV4": is_ipv4,
    "IPV6": is_ipv6,
}


def _written(device: Device) -> dict[str, object]:
    """Return a device as the plain data of a file: its numbers, then its other keys."""
    return {"rank_id": device.rank, "device_id": device.device_id, **device.extra}


def make(table: RankTable) -> dict[str, object]:
    """Return the plain data of a changed table.

    Raises:
        NotExpressibleError: The table was read from a format without layers.
    """
    if table.format != "hccl-2.0":
        raise NotExpressibleError(
            f"a table of the format {table.format} has no layers and no EIDs, which "
            "hccl-2.0 needs"
        )
    devices = [device for node in table.nodes for device in node.devices]
    devices.sort(key=lambda device: device.rank)
    listed = [_written(device) for device in devices]
    top = {"version": "2.0", **table.extra}
    return {**top, "rank_count": len(listed), KEY: listed}


FORMAT = Format(
    name="hccl-2.0",
    title="HCCL rank table 2.0 (rank_list)",
    description="Which chip and which addresses each rank of a job on Ascend 950 has.",
    record=TABLE,
    nodes_key=KEY,
    devices_key=KEY,
    node=NO_RECORD,
    device=RANK,
    example=TABLE.example,
    fill=fill,
    make=make,
    counts_ranks=True,
    has_other_keys=True,
    matches=lambda document: KEY in document,
    rules=(*ranks.EACH_RANK_ONCE, nodes.WRONG_COUNT, hccl_chips.WRONG_GENERATION),
)
