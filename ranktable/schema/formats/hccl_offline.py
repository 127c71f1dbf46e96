"""Two small files of HCCL: the logical table of offline compilation, and roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.schema.columns import place_name
from ranktable.schema.format import Kind, Role
from ranktable.schema.formats.hccl_1_1 import GLOBAL_RANK
from ranktable.schema.record import (
    Record,
    RecordFormat,
    address,
    filled_list,
    integer,
    list_of,
    numeral,
    text,
    written_device,
)
from ranktable.schema.rules import groups_of_servers as rules
from ranktable.schema.rules import ranks
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from ranktable.schema.model import RankTable
    from ranktable.schema.record_reader import RecordReader

_ITEM = Record(
    name="item",
    title="Rank",
    description="One process and its chip.",
    members=(
        GLOBAL_RANK,
        numeral(
            "item_id",
            "Chip",
            "Index of the chip; -1 is the host.",
            role=Role.DEVICE_ID,
            is_required=True,
            minimum=-1,
        ),
        address(
            "rank_ip", "Address", "IP address.", role=Role.ADDRESS, has_blanks=True
        ),
    ),
)
_NODE = Record(
    name="node",
    title="Node",
    description="One host and its ranks.",
    members=(
        text(
            "node_id",
            "Node",
            "Its name.",
            "0",
            kind=Kind.HOST,
            role=Role.HOST,
            is_required=True,
        ),
        filled_list("rank_list", _ITEM, "Ranks", "Its ranks."),
    ),
)
LOGICAL = Record(
    name="table",
    title="Logical table",
    description="Which chip each rank will have.",
    example={"status": "completed", "node_list": [_NODE.example]},
    members=(
        text("status", "Status", "completed.", "completed"),
        filled_list("node_list", _NODE, "Nodes", "The hosts."),
    ),
)


def fill_logical(reader: RecordReader, data: Any) -> None:
    """Put nodes and ranks into columns."""
    reader.add_nodes(data)
    columns = reader.columns
    sizes = [
        (columns.devices_path(node), end - start)
        for node, start, end in columns.nodes()
        if end > start
    ]
    for path, size in sizes:
        first_path, first = sizes[0]
        if size != first:
            message = (
                f"{place_name(path)} has {counted(size, 'rank')}, and "
                f"{place_name(first_path)} has {first}"
            )
            reader.report(
                rules.UNEQUAL_LOGICAL_NODES, path, message, related=(first_path,)
            )


def make_logical(table: RankTable) -> dict[str, object]:
    """Return the plain data of a table: order, hosts, chips, ranks and addresses."""
    nodes = [
        {
            "node_id": node.host or str(place),
            **node.extra,
            "rank_list": [
                written_device(_ITEM.members, device) for device in node.devices
            ],
        }
        for place, node in enumerate(table.nodes)
    ]
    return {"status": "completed", **table.extra, "node_list": nodes}


FORMAT = RecordFormat(
    name="hccl-logical",
    title="HCCL logical table (node_list of item_id)",
    description="Which chip each rank will have, for compilation without chips.",
    record=LOGICAL,
    fill=fill_logical,
    make=make_logical,
    nodes=LOGICAL.members[1],
    devices=_NODE.members[1],
    node_fields=_NODE.members[:1],
    device_fields=_ITEM.members,
    rules=ranks.EACH_RANK_ONCE,
)
_ROLE = Record(
    name="role",
    title="Process",
    description="Where one process listens.",
    example={"id": 0, "IP": "10.20.0.5", "port": 8000},
    members=(
        integer("id", 10**6, "Number", "Its number."),
        address("IP", "Address", "IP address.", is_required=True),
        integer("port", 65_535, "Port", "Its port.", is_required=True),
    ),
)
_ROLES = Record(
    name="roles",
    title="Role table",
    description="Servers of parameters and their clients.",
    members=(
        list_of("Servers", _ROLE, "Servers", "Who holds parameters.", is_required=True),
        list_of("Clients", _ROLE, "Clients", "Who asks for them.", is_required=True),
    ),
)
ROLES = RecordFormat(
    name="hccl-roles",
    title="HCCL role table (Servers, Clients)",
    description="Where the servers of parameters and their clients listen.",
    record=_ROLES,
    has_global_ranks=False,
    rules=(),
)
