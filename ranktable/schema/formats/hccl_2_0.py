"""HCCL 2.0 for Ascend 950: ranks and their addresses in each network layer.

Source: HCCL's readers of 2.0 (``new_rank_info``,
``rank_level_info``, ``address_info``), August 2026.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from ranktable.schema.columns import Columns
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Findings
from ranktable.schema.format import (
    Kind,
    NotExpressibleError,
    Role,
)
from ranktable.schema.formats.foreign import SPARE_ID
from ranktable.schema.formats.rank_list_reader import KEY, RankListReader
from ranktable.schema.record import (
    Member,
    Record,
    RecordFormat,
    filled_list,
    integer,
    list_of,
    text,
    type_of,
    version,
    written_device,
)
from ranktable.schema.record_reader import RecordReader
from ranktable.schema.rules import hccl_2_0 as rules
from ranktable.schema.rules import hccl_chips, nodes, ranks

if TYPE_CHECKING:
    from ranktable.schema.document import Document
    from ranktable.schema.model import RankTable

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
    members=(
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
    members=(
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
        Member(
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
    members=(
        *ADDRESS.members[:2],
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
    members=(
        Member(
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
        Member(
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
    members=(
        text("status", "Status", "HCCL 2.0 does not read it.", "completed"),
        VERSION,
        text(
            "detour", "Detour", "Whether routes may detour.", values=("true", "false")
        ),
        COUNT,
        RANK_LIST,
    ),
)


def is_draft(document: object) -> bool:
    """Whether a document has the layers of the early draft of 2.0."""
    listed = document.get(KEY) if isinstance(document, dict) else None
    for members in listed[:1] if isinstance(listed, list) else ():
        levels = members.get("level_list") if isinstance(members, dict) else None
        for level in levels[:1] if isinstance(levels, list) else ():
            return isinstance(level, dict) and not _DRAFT_KEYS.isdisjoint(level)
    return False


def fill(reader: RecordReader, data: Any) -> None:
    """Put the ranks of a document into columns."""
    ranks_ = RankListReader(reader)
    listed = data.get(KEY)
    for index, members in enumerate(listed if isinstance(listed, list) else ()):
        ranks_.add(index, members if isinstance(members, dict) else {})
    ranks_.finish()


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
    listed = [written_device(RANK.members, device) for device in devices]
    top = {"version": "2.0", **table.extra}
    return {**top, "rank_count": len(listed), KEY: listed}


class RankListFormat(RecordFormat):
    """A format with a list of ranks, which may be long."""

    def read(self, document: Document, found: Findings) -> Columns:
        """Return the columns of a document, and add the defects of its shape."""
        if not is_draft(document.data):
            return super().read(document, found)
        span = SourceSpan((KEY, 0, "level_list", 0))
        message = "this is the early draft of version 2.0, which no release reads"
        hint = "write net_layer for level, net_instance_id for id, net_type for "
        hint += "fabric_type, rank_addr_list for rank_addrs, and numbers without quotes"
        found.add(rules.DRAFT.finding(span, message, hint=hint))
        return Columns(format=self, source=document)

    def decode(self, data: bytes, found: Findings | None = None) -> Columns | None:
        """Return the columns of a document by the fast path, with defects of its ranks.

        Only one piece of the entries is in memory at a time, so that a table of 65,536
        ranks needs little more memory than its file.
        """
        is_plain = b"\\" not in data and data.isascii()
        if not is_plain or data.find(b'"%b"' % KEY.encode(), 0, PIECE_BYTES) < 0:
            return None
        try:
            top = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
            entries = msgspec.json.decode(top.pop(KEY), type=list[msgspec.Raw])
            head = {key: msgspec.json.decode(raw) for key, raw in top.items()}
            is_own = self.matches({**head, KEY: []})
            if 0 < len(entries) <= MAX_RANKS and is_own and HEAD.fits(head):
                own = Findings(limit=None if found is None else found.limit)
                columns = self._decode_entries(data, head, entries, own)
                if found is not None and columns is not None:
                    found.extend(own)
                return columns
        except (msgspec.DecodeError, KeyError, RecursionError):
            pass
        return None

    def _decode_entries(
        self,
        data: bytes,
        head: dict[str, Any],
        entries: list[msgspec.Raw],
        found: Findings,
    ) -> Columns | None:
        reader = RecordReader(self, data, found)
        ranks_ = RankListReader(reader)
        reader.fill_top(head, TABLE)
        colons = 1 + _colons(head)
        step = max(1, PIECE_BYTES * len(entries) // len(data))
        for start in range(0, len(entries), step):
            piece = b"[%b]" % b",".join(entries[start : start + step])
            listed = msgspec.json.decode(piece)
            colons += _colons(listed)
            if start == 0 and is_draft({KEY: listed}):
                return None
            is_sound = _are_ranks(piece)
            for index, members in enumerate(listed, start):
                if not is_sound:
                    reader.look_at((KEY, index), members, RANK)
                ranks_.add(index, members if isinstance(members, dict) else {})
        # The decoded data lacks a repeated key, so the counts of colons differ.
        if colons != data.count(b":"):
            return None
        ranks_.finish()
        beyond = max(reader.columns.ranks, key=lambda rank: rank or 0) or 0
        if ranks_.networks.spares and beyond >= head["rank_count"]:
            return None  # a list of changed ranks
        return reader.columns


def _are_ranks(piece: bytes) -> bool:
    """Whether every entry matches its record, in one call for all."""
    try:
        _ranks_decoder().decode(piece)
    except msgspec.ValidationError:
        return False
    return True


@cache
def _ranks_decoder() -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(list[type_of(RANK)])  # type: ignore[misc]


def _colons(value: object) -> int:
    return msgspec.json.encode(value).count(b":")


HEAD = replace(
    TABLE, members=tuple(member for member in TABLE.members if member is not RANK_LIST)
)
FORMAT = RankListFormat(
    name="hccl-2.0",
    title="HCCL rank table 2.0 (rank_list)",
    description="Which chip and which addresses each rank of a job on Ascend 950 has.",
    record=TABLE,
    fill=fill,
    make=make,
    nodes=RANK_LIST,
    devices=RANK_LIST,
    table_fields=(VERSION, COUNT),
    device_fields=RANK.members,
    counts_ranks=True,
    matches=lambda document: KEY in document,
    rules=(*ranks.EACH_RANK_ONCE, nodes.WRONG_COUNT, hccl_chips.WRONG_GENERATION),
)
