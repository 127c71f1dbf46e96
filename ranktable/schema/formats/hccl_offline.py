"""Two small files of HCCL: the logical table of offline compilation, and roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.schema.columns import place_name
from ranktable.schema.diagnostic import counted
from ranktable.schema.format import Kind, Role
from ranktable.schema.formats.recognition import is_logical, is_roles
from ranktable.schema.record import Record, RecordFormat, integer, list_of, text
from ranktable.schema.record_reader import RecordReader, objects, text_of
from ranktable.schema.rules import groups_of_servers as rules
from ranktable.schema.rules import ranks

if TYPE_CHECKING:
    from ranktable.schema.document import Path
    from ranktable.schema.model import RankTable

_ITEM = Record(
    name="item",
    title="Rank",
    description="One process and its chip.",
    example={"rank_id": "0", "item_id": "0"},
    members=(
        text(
            "rank_id",
            "Global rank",
            "0 to world_size - 1.",
            "0",
            kind=Kind.NUMERAL,
            role=Role.RANK,
            is_required=True,
        ),
        text(
            "item_id",
            "Chip",
            "Index of the chip; -1 is the host.",
            "0",
            kind=Kind.NUMERAL,
            role=Role.DEVICE_ID,
            is_required=True,
            minimum=-1,
        ),
        text(
            "rank_ip",
            "Address",
            "IP address.",
            "10.20.0.5",
            kind=Kind.ADDRESS,
            role=Role.ADDRESS,
            has_blanks=True,
        ),
    ),
)
_NODE = Record(
    name="node",
    title="Node",
    description="One host and its ranks.",
    example={"node_id": "0", "rank_list": [_ITEM.example]},
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
        list_of("rank_list", _ITEM, "Ranks", "Its ranks.", is_required=True, minimum=1),
    ),
)
LOGICAL = Record(
    name="table",
    title="Logical table",
    description="Which chip each rank will have.",
    example={"status": "completed", "node_list": [_NODE.example]},
    members=(
        text("status", "Status", "completed.", "completed"),
        list_of("node_list", _NODE, "Nodes", "The hosts.", is_required=True, minimum=1),
    ),
)


def fill_logical(reader: RecordReader, data: Any) -> None:  # noqa: ANN401 - plain data
    """Put nodes and ranks into columns."""
    reader.begin()
    sizes: list[tuple[Path, int]] = []
    for index, node in objects(data.get("node_list")):
        path: Path = ("node_list", index)
        reader.add_node(path, text_of(node.get("node_id")))
        listed = objects(node.get("rank_list"))
        for place, item in listed:
            reader.add_device(
                (*path, "rank_list", place),
                rank=item.get("rank_id"),
                device_id=item.get("item_id"),
                address=item.get("rank_ip"),
            )
        if listed:
            sizes.append(((*path, "rank_list"), len(listed)))
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
                {
                    "rank_id": str(one.rank),
                    "item_id": str(one.device_id),
                    **({"rank_ip": one.address} if one.address else {}),
                    **one.extra,
                }
                for one in node.devices
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
    matches=is_logical,
    rules=(
        ranks.RANK_GAP,
        ranks.DUPLICATE_RANK,
        ranks.NEGATIVE_RANK,
        ranks.NOT_FROM_ZERO,
    ),
    example=LOGICAL.example,  # type: ignore[arg-type]
)
_ROLE = Record(
    name="role",
    title="Process",
    description="Where one process listens.",
    example={"id": 0, "IP": "10.20.0.5", "port": 8000},
    members=(
        integer("id", 10**6, "Number", "Its number."),
        text(
            "IP",
            "Address",
            "IP address.",
            "10.20.0.5",
            kind=Kind.ADDRESS,
            is_required=True,
        ),
        integer("port", 65_535, "Port", "Its port.", is_required=True),
    ),
)
_ROLES = Record(
    name="roles",
    title="Role table",
    description="Servers of parameters and their clients.",
    example={"Servers": [_ROLE.example], "Clients": [_ROLE.example]},
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
    fill=lambda reader, _: reader.begin(),
    has_global_ranks=False,
    matches=is_roles,
    rules=(),
    example=_ROLES.example,  # type: ignore[arg-type]
)
