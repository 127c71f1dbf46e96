"""The file of Habana's HCL for the first Gaudi: one address per rank, or a count.

Source: ``HCL_CONFIG_PATH`` in Habana's documentation. The rank is the index in the
list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.schema.format import NotExpressibleError
from ranktable.schema.record import Record, RecordFormat, address, integer, list_of
from ranktable.schema.record_reader import RecordReader, text_of

if TYPE_CHECKING:
    from ranktable.schema.model import RankTable

PORT = 53_432
MAX_RANKS = 65_536
_ADDRESS = address("address", "Address", "IP address.")
TABLE = Record(
    name="table",
    title="HCL configuration",
    description="The devices of a job.",
    example={"HCL_PORT": PORT, "HCL_RANKS": ["10.20.0.5", "10.20.0.5"]},
    one_of=("HCL_COUNT", "HCL_RANKS"),
    members=(
        integer("HCL_PORT", 65_535, "Port", f"By default {PORT}.", minimum=1),
        integer("HCL_COUNT", MAX_RANKS, "Number of devices", "Of one host.", minimum=1),
        list_of(
            "HCL_RANKS",
            _ADDRESS,
            "Addresses",
            "The address of the host of every rank.",
            minimum=1,
            maximum=MAX_RANKS,
        ),
    ),
)


def fill(reader: RecordReader, data: Any) -> None:
    """Put the ranks into columns; device_id is the index among the ranks of a host."""
    listed, count = data.get("HCL_RANKS"), data.get("HCL_COUNT")
    if isinstance(listed, list):
        hosts: dict[str | None, list[int]] = {}
        for rank, host in enumerate(listed):
            hosts.setdefault(text_of(host), []).append(rank)
        for name, ranks in hosts.items():
            reader.add_node(("HCL_RANKS", ranks[0]), name)
            for chip, rank in enumerate(ranks):
                path = ("HCL_RANKS", rank)
                reader.add_device(path, {}, rank=rank, device_id=chip)
    elif type(count) is int and 0 < count <= MAX_RANKS:
        reader.add_node(("HCL_COUNT",), None)
        for rank in range(count):
            reader.add_device(("HCL_COUNT",), {}, rank=rank, device_id=rank)


def make(table: RankTable) -> dict[str, object]:
    """Return the plain data of a table: the hosts of the ranks.

    Raises:
        NotExpressibleError: There are several hosts, and one has no name.
    """
    own = table.extra if table.format == FORMAT.name else {}
    top = {"HCL_PORT": PORT, **{k: v for k, v in own.items() if k != "HCL_COUNT"}}
    if table.num_nodes == 1 and table.nodes[0].host is None:
        return {**top, "HCL_COUNT": table.world_size}
    hosts = [table.node_of(rank).host for rank in range(table.world_size)]
    if None in hosts:
        raise NotExpressibleError("gaudi-hcl needs the address of every host")
    return {**top, "HCL_RANKS": hosts}


FORMAT = RecordFormat(
    name="gaudi-hcl",
    title="HCL configuration of Gaudi (HCL_RANKS)",
    description="The hosts of the ranks of a job on the first Gaudi.",
    record=TABLE,
    fill=fill,
    make=make,
    has_written_ranks=False,
    nodes=TABLE.members[-1],
    rules=(),
)
