"""HCCL 2.0 for Ascend 950: ranks and their addresses in each network layer.

Source: HCCL's readers of 2.0 (``new_rank_info``,
``rank_level_info``, ``address_info``), August 2026.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ranktable.schema.columns import Columns, place_name
from ranktable.schema.declare import (
    NO_RECORD,
    Format,
    Key,
    Kind,
    NotExpressibleError,
    Record,
    Role,
    filled_list,
    integer,
    list_of,
    text,
    version,
)
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Finding, Findings
from ranktable.schema.formats import SPARE_ID
from ranktable.schema.reader import Reader, objects
from ranktable.schema.rules import hccl_2_0 as rules
from ranktable.schema.rules import hccl_chips, nodes, ranks, shape
from ranktable.schema.text import quoted
from ranktable.schema.values import is_address, is_ipv4, is_ipv6, plain_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.schema.document import Path
    from ranktable.schema.model import Device, RankTable

KEY = "rank_list"
MAX_RANKS = 65_536
PIECE_BYTES = 64 * 1024
"""Bytes that are decoded at a time."""

_DRAFT_KEYS = {"level", "fabric_type", "rank_addrs"}


_ADDRESS_EXAMPLE = {"addr_type": "IPV4", "addr": "10.20.0.5", "ports": ["0/4"]}
_PORT = text("port", "Port", "Die and port, or d2h.", "0/4", minimum=1, maximum=32)
_BACKUP = text("addr", "Address", "IPv4 or IPv6.", "10.20.0.6", minimum=1, maximum=256)
ADDRESS = Record(
    name="address",
    title="Address",
    description="An address and the ports that carry it.",
    example=_ADDRESS_EXAMPLE,
    keys=(
        text(
            "addr_type",
            "Kind of address",
            "In capitals.",
            is_required=True,
            values=("EID", "IPV4", "IPV6"),
        ),
        text(
            "addr",
            "Address",
            "An EID of 32 hexadecimal digits, or an IP address.",
            "10.20.0.5",
            is_required=True,
            minimum=1,
            maximum=256,
        ),
        filled_list("ports", _PORT, "Ports", "Each as die/port.", maximum=16),
        text("plane_id", "Plane", "Plane of the network.", "0", maximum=1024),
        list_of(
            "backup_addr",
            _BACKUP,
            "Other addresses",
            "IP addresses that stand in.",
            maximum=16,
        ),
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
    title="Layer",
    description="The addresses of a rank in one layer of the network.",
    example=_LEVEL_EXAMPLE,
    keys=(
        integer(
            "net_layer",
            7,
            "Layer",
            "0 is inside the server, 1 between servers.",
            is_required=True,
        ),
        text(
            "net_instance_id",
            "Network",
            "Ranks with the same layer and name are connected there.",
            "az0-rack0-server0",
            is_required=True,
            minimum=1,
            maximum=1024,
        ),
        text("net_type", "Kind of network", "How it is wired.", values=NET_TYPES),
        text("net_attr", "Attribute", "Reserved.", ""),
        Key(
            key="pcie_fallback",
            kind=Kind.BOOLEAN,
            title="Fallback",
            description="Whether PCIe stands in.",
            examples=(True,),
        ),
        list_of(
            "rank_addr_list",
            ADDRESS,
            "Addresses",
            "Addresses in this layer; operators write none where they know none.",
            is_required=True,
            maximum=24,
        ),
    ),
)
CONTROL_PLANE = Record(
    name="control_plane",
    title="Control plane",
    description="Where the rank listens.",
    example={"addr_type": "IPV4", "addr": "10.20.0.5", "listen_port": 8000},
    keys=(
        *ADDRESS.keys[:2],
        integer("listen_port", 65_535, "Port", "Port of the control plane.", minimum=1),
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
    title="Rank",
    description="One process, its chip and its addresses.",
    example=_RANK_EXAMPLE,
    keys=(
        Key(
            key="rank_id",
            kind=Kind.INTEGER,
            role=Role.RANK,
            is_required=True,
            title="Global rank",
            description="0 to rank_count - 1.",
            examples=(0,),
        ),
        integer(
            "local_id",
            SPARE_ID,
            "Place in the topology",
            "64 is the spare chip.",
            is_required=True,
        ),
        integer(
            "replaced_local_id",
            SPARE_ID - 1,
            "Replaced chip",
            "The chip whose place the spare takes.",
        ),
        integer(
            "device_id",
            SPARE_ID,
            "Chip",
            "Physical index of the chip.",
            is_required=True,
            role=Role.DEVICE_ID,
        ),
        integer("device_port", 65_535, "Port of the device", "16666.", minimum=1),
        integer("host_port", 65_535, "Port of the host", "16666.", minimum=1),
        list_of(
            "level_list",
            LEVEL,
            "Layers",
            "Layers of the network, from the inside outwards.",
            is_required=True,
            maximum=8,
        ),
        Key(
            key="control_plane",
            kind=Kind.OBJECT,
            each=CONTROL_PLANE,
            title="Control plane",
            description="Where the rank listens.",
            examples=(CONTROL_PLANE.example,),
        ),
    ),
)
RANK_LIST = filled_list(
    KEY, RANK, "Ranks", "The ranks, in any order.", maximum=MAX_RANKS
)
VERSION = version("2.0")
COUNT = integer(
    "rank_count",
    MAX_RANKS,
    "Number of ranks",
    "Number of entries of rank_list.",
    is_required=True,
    role=Role.COUNT,
    minimum=None,
)
_JOB = {"rank_count": 1, KEY: [_RANK_EXAMPLE]}
TABLE = Record(
    name="table",
    title="Rank table",
    description="The ranks of a job.",
    keys=(
        text("status", "Status", "HCCL 2.0 does not read it.", "completed"),
        VERSION,
        text(
            "detour", "Detour", "Whether routes may detour.", values=("true", "false")
        ),
        COUNT,
        RANK_LIST,
    ),
)


def refuse_draft(document: Any) -> Finding | None:
    """Return RT268 for a document with the layers of the early draft of 2.0."""
    ranks_ = objects(document.get(KEY)) if isinstance(document, dict) else []
    levels = objects(ranks_[0][1].get("level_list")) if ranks_ else []
    if not levels or _DRAFT_KEYS.isdisjoint(levels[0][1]):
        return None
    return rules.DRAFT.finding(
        SourceSpan((KEY, 0, "level_list", 0)),
        "this is the early draft of version 2.0, which no release reads",
        hint="write net_layer for level, net_instance_id for id, net_type for "
        "fabric_type, rank_addr_list for rank_addrs, and numbers without quotes",
    )


def fill(reader: Reader, data: Any) -> None:
    """Put the ranks of a document into columns."""
    ranks_ = RankListReader(reader)
    listed = data.get(KEY)
    for index, members in enumerate(listed if isinstance(listed, list) else ()):
        ranks_.add(index, members if isinstance(members, dict) else {})
    ranks_.finish()


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


def decode(data: bytes, found: Findings) -> Columns | None:
    """Return the columns of a document, and add the defects of its ranks.

    Only one piece of the entries is in memory at a time, so that a table of 65,536
    ranks needs little more memory than its file. None if the reader must look.
    """
    is_plain = b"\\" not in data and data.isascii()
    if not is_plain or data.find(b'"%b"' % KEY.encode(), 0, PIECE_BYTES) < 0:
        return None
    try:
        top = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        entries = msgspec.json.decode(top.pop(KEY), type=list[msgspec.Raw])
        head = {key: msgspec.json.decode(raw) for key, raw in top.items()}
        if not 0 < len(entries) <= MAX_RANKS or not HEAD.fits(head):
            return None
        own = Findings(limit=found.limit)
        columns = _decode_entries(data, head, entries, own)
    except (msgspec.DecodeError, KeyError, RecursionError):
        return None
    if columns is not None:
        found.extend(own)
    return columns


def _decode_entries(
    data: bytes, head: dict[str, Any], entries: list[msgspec.Raw], found: Findings
) -> Columns | None:
    reader = Reader(FORMAT, data, found)
    ranks_ = RankListReader(reader)
    reader.fill_top(head)
    colons = 1 + _colons(head)
    step = max(1, PIECE_BYTES * len(entries) // len(data))
    for start in range(0, len(entries), step):
        piece = b"[%b]" % b",".join(entries[start : start + step])
        listed = msgspec.json.decode(piece)
        colons += _colons(listed)
        if start == 0 and refuse_draft({KEY: listed}):
            return None
        for index, members in enumerate(listed, start):
            reader.explain((KEY, index), members, RANK)
            ranks_.add(index, members if isinstance(members, dict) else {})
    # The decoded data lacks a repeated key, so the counts of colons differ.
    if colons != data.count(b":"):
        return None
    ranks_.finish()
    beyond = max(reader.columns.ranks, key=lambda rank: rank or 0) or 0
    if ranks_.networks.spares and beyond >= head["rank_count"]:
        return None  # a list of changed ranks
    return reader.columns


def _colons(value: object) -> int:
    return msgspec.json.encode(value).count(b":")


_EID = re.compile("[0-9a-fA-F]{32}")


def is_eid(text: str) -> bool:
    """Whether a text is an endpoint id of the unified bus: 32 hexadecimal digits."""
    return _EID.fullmatch(text) is not None


_IS_OF_TYPE: dict[str, Callable[[str], bool]] = {
    "EID": is_eid,
    "IPV4": is_ipv4,
    "IPV6": is_ipv6,
}


class Networks(NamedTuple):
    """The networks of the ranks that have been read.

    Attributes:
        counts: Number of addresses by layer and network, and the path of the first.
        spares: Paths of spare chips.
        local_ids: The local_ids of each network of the first layer.
    """

    counts: dict[tuple[object, object], tuple[int, Path]]
    spares: list[tuple[Path, object, object]]
    local_ids: dict[object, set[object]]


class RankListReader:
    """Puts entries of ``rank_list`` into columns, rank by rank."""

    def __init__(self, reader: Reader) -> None:
        """Start without ranks."""
        self.reader = reader
        self.networks = Networks({}, [], {})
        self.instances: list[object] = []

    def add(self, index: int, members: dict[str, Any]) -> None:
        """Add a rank; report defects of its layers."""
        columns = self.reader.columns
        rank, device_id = members.get("rank_id"), members.get("device_id")
        columns.ranks.append(plain_number(rank))
        columns.device_ids.append(plain_number(device_id))
        levels = members.get("level_list")
        instance: object = None
        last = -1
        for place, one in enumerate(levels if isinstance(levels, list) else ()):
            if not isinstance(one, dict):
                continue
            layer = one.get("net_layer")
            if type(layer) is int:
                if layer <= last:
                    self.report_layer(index, place, layer, last)
                last = layer
            name = one.get("net_instance_id")
            if place == 0 and isinstance(name, str):
                instance = name
            addresses = one.get("rank_addr_list")
            if isinstance(addresses, list):
                network = (layer if type(layer) is int else None, str(name))
                self.addresses(index, place, network, addresses)
        self.instances.append(instance)
        self.spare(index, members, instance)
        control = members.get("control_plane")
        if isinstance(control, dict):
            self.address((KEY, index, "control_plane"), control)

    def report_layer(self, index: int, place: int, layer: int, last: int) -> None:
        """Report a layer that comes after a higher one."""
        path: Path = (KEY, index, "level_list", place, "net_layer")
        message = f"net_layer {layer} comes after net_layer {last}"
        self.reader.report(rules.LAYERS, path, message, hint="sort level_list")

    def addresses(
        self, index: int, place: int, network: tuple[object, str], found: list[Any]
    ) -> None:
        """Judge the addresses of a rank in one layer."""
        first = self.networks.counts.get(network)
        if first is None:
            path: Path = (KEY, index, "level_list", place, "rank_addr_list")
            self.networks.counts[network] = (len(found), path)
        elif first[0] != len(found):
            self.report_count(index, place, len(found), first)
        ports: list[Any] = []
        for at, one in enumerate(found):
            if not isinstance(one, dict):
                continue
            is_of_type = _IS_OF_TYPE.get(str(one.get("addr_type")))
            addr = one.get("addr")
            is_odd = (
                is_of_type is not None and type(addr) is str and not is_of_type(addr)
            )
            if is_odd or "backup_addr" in one:
                path = (KEY, index, "level_list", place, "rank_addr_list", at)
                self.address(path, one)
                self.backups(path, one)
            mine = one.get("ports")
            if type(mine) is list:  # a repeated port of one address counts once
                ports += mine if len(mine) == 1 else dict.fromkeys(map(str, mine))
        if len(ports) > 1 and len(set(map(str, ports))) < len(ports):
            self.report_ports(index, place, found)

    def report_count(
        self, index: int, place: int, count: int, first: tuple[int, Path]
    ) -> None:
        """Report a rank whose number of addresses differs within its network."""
        path: Path = (KEY, index, "level_list", place, "rank_addr_list")
        wanted, first_path = first
        message = (
            f"{place_name(path)} has {count} addresses, but {place_name(first_path)} "
            f"of the same network has {wanted}"
        )
        self.reader.report(rules.ADDRESS_COUNTS, path, message, related=(first_path,))

    def report_ports(self, index: int, place: int, found: list[Any]) -> None:
        """Report ports that are used by two addresses of a layer."""
        first_use: dict[str, tuple[int, Path]] = {}
        for at, one in enumerate(found):
            ports = one.get("ports") if isinstance(one, dict) else None
            for number, port in enumerate(ports if isinstance(ports, list) else ()):
                path: Path = (
                    *(KEY, index, "level_list", place, "rank_addr_list"),
                    *(at, "ports", number),
                )
                owner, first = first_use.setdefault(str(port), (at, path))
                if owner != at:
                    message = f"port {quoted(port)} already has another address"
                    self.reader.report(
                        rules.SHARED_PORT, path, message, related=(first,)
                    )

    def address(self, path: Path, members: dict[str, Any]) -> None:
        """Report an address that does not match its type."""
        type_, addr = members.get("addr_type"), members.get("addr")
        is_sound = _IS_OF_TYPE.get(str(type_))
        if is_sound is None or not isinstance(addr, str) or not addr or is_sound(addr):
            return
        wanted = "an EID of 32 hexadecimal digits" if type_ == "EID" else f"{type_}"
        message = f"addr {quoted(addr)} is not {wanted}"
        self.reader.report(rules.ADDRESS_OF_TYPE, (*path, "addr"), message)

    def backups(self, path: Path, members: dict[str, Any]) -> None:
        """Report backup addresses that are not numeric."""
        found = members.get("backup_addr")
        for at, addr in enumerate(found if isinstance(found, list) else ()):
            if isinstance(addr, str) and addr and not is_address(addr):
                message = f"backup_addr {quoted(addr)} is not an IP address"
                self.reader.report(
                    rules.ADDRESS_OF_TYPE, (*path, "backup_addr", at), message
                )

    def spare(self, index: int, members: dict[str, Any], instance: object) -> None:
        """Record the chip of a rank, and whether it is a spare."""
        local_id = members.get("local_id")
        self.networks.local_ids.setdefault(instance, set()).add(
            local_id if type(local_id) is int else None
        )
        if local_id != SPARE_ID:
            return
        path: Path = (KEY, index)
        self.networks.spares.append((path, instance, members.get("replaced_local_id")))
        if "replaced_local_id" not in members:
            message = f"{place_name(path)} is a spare and has no replaced_local_id"
            self.reader.report(shape.MISSING_KEY, path, message)

    def finish(self) -> None:
        """Judge the spares, and make each network of layer 0 a node."""
        spares = self.networks.spares
        for path, _, _ in spares[1:]:
            self.reader.report(
                rules.SPARE,
                (*path, "local_id"),
                "local_id 64 is a second spare",
                related=((*spares[0][0], "local_id"),),
            )
        for path, instance, replaced in spares:
            local_ids = self.networks.local_ids[instance]
            if type(replaced) is int and replaced in local_ids:
                message = (
                    f"the spare replaces local_id {replaced}, which is still in the "
                    "table"
                )
                self.reader.report(rules.SPARE, (*path, "replaced_local_id"), message)
        self.divide()

    def divide(self) -> None:
        """Sort the ranks by network; the ranks of one network are a node."""
        columns, found = self.reader.columns, self.instances
        places: dict[object, list[int]] = {}
        for index, instance in enumerate(found):
            places.setdefault(instance, []).append(index)
        order = [index for indices in places.values() for index in indices]
        for indices in places.values():
            columns.starts.append(columns.starts[-1] + len(indices))
        columns.hosts = [None] * len(places)
        columns.ranks = [columns.ranks[index] for index in order]
        columns.device_ids = [columns.device_ids[index] for index in order]
        columns.local_ranks = [None] * len(order)
        columns.addresses = [None] * len(order)
        columns.device_paths = [(KEY, index) for index in order]
        columns.node_paths = [(KEY, indices[0]) for indices in places.values()]


HEAD = Record(name="head", title="", description="", keys=TABLE.other_keys(KEY))
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
    decode=decode,
    make=make,
    refuse=refuse_draft,
    counts_ranks=True,
    has_other_keys=True,
    matches=lambda document: KEY in document,
    rules=(*ranks.EACH_RANK_ONCE, nodes.WRONG_COUNT, hccl_chips.WRONG_GENERATION),
)
