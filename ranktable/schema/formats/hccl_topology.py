"""The topology file of HCCL 2.0: how the chips of a server are wired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.schema.format import Kind
from ranktable.schema.record import (
    Record,
    RecordFormat,
    filled_list,
    integer,
    list_of,
    text,
    version,
)
from ranktable.schema.rules.nodes import wrong_count

if TYPE_CHECKING:
    from ranktable.schema.record_reader import RecordReader

_PEER = Record(
    name="peer",
    title="Chip",
    description="A chip of the server.",
    example={"local_id": 0},
    members=(
        integer("local_id", 64, "Place", "64 is the spare chip.", is_required=True),
    ),
)
_EDGE_EXAMPLE = {
    "net_layer": 0,
    "link_type": "PEER2PEER",
    "protocols": ["UB_CTP"],
    "local_a": 0,
    "local_a_ports": ["0/0"],
    "local_b": 1,
    "local_b_ports": ["0/1"],
    "topo_instance_id": 0,
    "topo_type": "1DMESH",
    "position": "DEVICE",
}
_PROTOCOLS = (
    *("UB_CTP", "UB_TP", "UB_RTP", "ROCE", "HCCS", "PCIE", "TCP", "UB_MEM"),
    *("UBOE", "UBG"),
)
_PORT = text("port", "Port", "Die and port.", "0/4")
_EDGE = Record(
    name="edge",
    title="Link",
    description="A link between two chips, or of a chip to a network.",
    example=_EDGE_EXAMPLE,
    members=(
        integer("net_layer", 7, "Layer", "Layer of the network.", is_required=True),
        text(
            "link_type",
            "Kind of link",
            "Between chips or to a network.",
            values=("PEER2PEER", "PEER2NET"),
            is_required=True,
        ),
        list_of(
            "protocols",
            text("protocol", "Protocol", "In capitals.", "UB_CTP", values=_PROTOCOLS),
            "Protocols",
            "Protocols of the link.",
            is_required=True,
        ),
        integer("local_a", 64, "Chip", "One end.", is_required=True),
        list_of("local_a_ports", _PORT, "Ports", "Ports of that end."),
        integer("local_b", 64, "Chip", "The other end."),
        list_of("local_b_ports", _PORT, "Ports", "Ports of that end."),
        text("topo_instance_id", "Network", "Its number or name.", 0, kind=Kind.ANY),
        text(
            "topo_type",
            "Kind of network",
            "How it is wired.",
            values=("CLOS", "1DMESH", "2DMESH", "A3_SERVER", "A2_AX_SERVER"),
        ),
        text("position", "Position", "Of the ports.", values=("DEVICE", "HOST")),
    ),
)
TOPOLOGY = Record(
    name="topology",
    title="Topology",
    description="The chips of a server and their links.",
    members=(
        version("2.0"),
        text("hardware_type", "Hardware", "Name of the server.", "Atlas 950"),
        integer(
            "peer_count",
            65,
            "Number of chips",
            "Number of entries of peer_list.",
            is_required=True,
            minimum=None,
        ),
        filled_list("peer_list", _PEER, "Chips", "The chips."),
        integer(
            "edge_count",
            10**6,
            "Number of links",
            "Number of entries of edge_list.",
            is_required=True,
            minimum=None,
        ),
        list_of("edge_list", _EDGE, "Links", "The links.", is_required=True),
    ),
)


def fill(reader: RecordReader, data: Any) -> None:
    """Check the counts; the file has no ranks."""
    for key, listed in (("peer_count", "peer_list"), ("edge_count", "edge_list")):
        count, found = data.get(key), data.get(listed)
        if type(count) is int and isinstance(found, list) and count != len(found):
            reader.found.add(wrong_count((key,), count, listed, len(found)))


FORMAT = RecordFormat(
    name="hccl-topology",
    title="HCCL topology 2.0 (peer_list, edge_list)",
    description="How the chips of a server of Ascend 950 are wired.",
    record=TOPOLOGY,
    fill=fill,
    has_global_ranks=False,
    rules=(),
)
