"""A sound rank table as frozen values: table, nodes and devices."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec import json as json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ranktable.schema.columns import Columns

Layout = tuple[tuple[str, type], ...]
"""Keys of one object of a file in their order, with the type each value was written as.

With it, a table is written back as it was read: with ``rank`` or ``world_rank``,
strings or integers. Devices of the same form share one layout.
"""


class Device(Struct, frozen=True, kw_only=True):
    """One chip and the process that runs on it.

    Attributes:
        rank: Global rank of the process, 0 to world_size - 1.
        device_id: Index of the chip on its host.
        address: IP address of the device, None if the table has none.
        is_emulated: Whether this is the address of an emulated device.
        extra: Keys that the format does not define, as they were read.
        layout: Its form in the file, None if it was not read from a file.
    """

    rank: int
    device_id: int
    address: str | None = None
    is_emulated: bool = False
    extra: dict[str, object] = {}
    layout: Layout | None = None

    def __repr__(self) -> str:
        """Return rank and chip; the layout matters only for writing."""
        return f"Device(rank={self.rank}, device_id={self.device_id})"


class Node(Struct, frozen=True, kw_only=True):
    """One host and its devices, in the order of their ranks.

    Attributes:
        devices: The devices; the index of a device is its local_rank.
        host: Name or address of the host, None if the table has none.
        extra: Keys that the format does not define, as they were read.
        layout: Its form in the file, None if it was not read from a file.
    """

    devices: tuple[Device, ...]
    host: str | None = None
    extra: dict[str, object] = {}
    layout: Layout | None = None

    def __repr__(self) -> str:
        """Return the host and the devices."""
        return f"Node(host={self.host!r}, devices={self.devices!r})"


class Parts(NamedTuple):
    """The parts of a table.

    ``document`` is the plain data of the file, if that is more than nodes, devices and
    their keys; a table with other nodes has none.
    """

    nodes: tuple[Node, ...]
    version: str
    format: str
    extra: dict[str, object]
    layout: Layout | None
    document: object = None


class RankTable:
    """Which chip each rank of a job runs on; it cannot be changed.

    Attributes:
        nodes: The nodes, in file order; the index of a node is its node_rank.
        version: Version of the table.
        format: Name of its format, in which it is written by default.
        extra: Keys that the format does not define, as they were read.
        layout: The form of the file, None if it was not read from a file.
    """

    def __init__(
        self,
        *,
        nodes: Iterable[Node],
        version: str = "1.0",
        format: str = "sccl-1.0",
        extra: Mapping[str, object] | None = None,
        layout: Layout | None = None,
    ) -> None:
        """Make a table from nodes."""
        self._columns: Columns | None = None
        self.__dict__["_parts"] = Parts(
            tuple(nodes), version, format, dict(extra or {}), layout
        )

    @classmethod
    def from_columns(cls, columns: Columns) -> RankTable:
        """Return the table of a document that was found sound.

        Nodes and devices are made when they are first used, because a training process
        needs only the chips.
        """
        table = cls.__new__(cls)
        table._columns = columns
        return table

    @cached_property
    def _parts(self) -> Parts:
        assert self._columns is not None
        return self._columns.format.build(self._columns)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes; the index of a node is its node_rank."""
        return self._parts.nodes

    @property
    def version(self) -> str:
        """Version of the table."""
        if self._columns is not None:
            return str(self._columns.top.get("version", ""))
        return self._parts.version

    @property
    def format(self) -> str:
        """Name of its format, in which it is written by default."""
        return self._columns.format.name if self._columns else self._parts.format

    @property
    def extra(self) -> Mapping[str, object]:
        """Keys that the format does not define, as they were read."""
        if self._columns is not None and not self._columns.format.keeps_document:
            return self._columns.extra()
        return self._parts.extra

    @property
    def layout(self) -> Layout | None:
        """The form of the file, None if it was not read from a file."""
        return self._parts.layout

    @property
    def document(self) -> object:
        """The plain data of its file, if that is more than nodes and their keys."""
        if self._columns is not None and not self._columns.format.keeps_document:
            return None  # without building anything
        return self._parts.document

    @property
    def has_global_ranks(self) -> bool:
        """Whether the ranks are those of one job, 0 to world_size - 1."""
        if self._columns is not None:
            return self._columns.format.has_global_ranks
        from ranktable.schema.formats import by_name

        return by_name(self.format).has_global_ranks

    def with_changes(
        self,
        *,
        nodes: Iterable[Node] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> RankTable:
        """Return a table with other nodes or other extra keys."""
        return RankTable(
            nodes=self.nodes if nodes is None else nodes,
            version=self.version,
            format=self.format,
            extra=self.extra if extra is None else extra,
            layout=self.layout,
        )

    def __eq__(self, other: object) -> bool:
        """Whether another table has the same content in the same form."""
        if not isinstance(other, RankTable):
            return NotImplemented
        return self._parts == other._parts

    __hash__ = None  # type: ignore[assignment]  # extra keys are not hashable

    def __repr__(self) -> str:
        """Return the size; ``ranktable show`` prints the content."""
        return (
            f"RankTable(format={self.format!r}, num_nodes={self.num_nodes}, "
            f"world_size={self.world_size})"
        )

    @cached_property
    def world_size(self) -> int:
        """Number of processes; number of devices if the table has no ranks."""
        if self._columns is not None:
            return self._columns.num_devices
        return sum(len(node.devices) for node in self.nodes)

    @cached_property
    def rank_end(self) -> int:
        """Highest rank plus one; larger than world_size if some ranks are missing."""
        if self._in_file_order is not None:
            return self.world_size
        return 1 + max(device.rank for node in self.nodes for device in node.devices)

    @property
    def chip_map(self) -> list[int]:
        """``device_id`` of every rank; length world_size."""
        return list(self._chips)

    @cached_property
    def _chips(self) -> list[int]:
        if self._columns is not None and self._columns.format.has_global_ranks:
            return self._columns.chip_map()
        if not self.has_global_ranks:
            raise ValueError(f"a table of the format {self.format} has no chip_map")
        return [device.device_id for _, device in self._by_rank]

    @cached_property
    def _in_file_order(self) -> Columns | None:
        """The columns, if the index of each device is its rank, else None."""
        columns = self._columns
        return columns if columns and columns.are_ranks_in_file_order() else None

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self._columns.num_nodes if self._columns else len(self.nodes)

    @cached_property
    def hosts(self) -> tuple[str | None, ...]:
        """Host of every node, None where the table has none."""
        if self._in_file_order is not None:
            return tuple(self._in_file_order.hosts)
        return tuple(node.host for node in self.nodes)

    def extras_of_nodes(self, key: str) -> list[object]:
        """Return the value of an extra key for every node, None if it has none."""
        columns = self._in_file_order
        if columns is None or columns.format.keeps_document:
            return [node.extra.get(key) for node in self.nodes]
        if columns.is_plain():
            return [None] * columns.num_nodes
        nodes = map(columns.node_path, range(columns.num_nodes))
        members = (columns.document.get(*path) for path in nodes)
        return [one.get(key) if isinstance(one, dict) else None for one in members]

    @cached_property
    def node_ranks(self) -> tuple[int, ...]:
        """node_rank of every rank."""
        if self._in_file_order is None:
            return tuple(node_rank for node_rank, _ in self._by_rank)
        nodes = self._in_file_order.nodes()
        return tuple(
            chain.from_iterable(repeat(node, end - start) for node, start, end in nodes)
        )

    @cached_property
    def first_ranks(self) -> tuple[int, ...]:
        """Lowest rank of every node."""
        if self._in_file_order is not None:
            return tuple(self._in_file_order.starts[:-1])
        return tuple(node.devices[0].rank for node in self.nodes)

    @cached_property
    def _by_rank(self) -> list[tuple[int, Device]]:
        """(node_rank, device) of every rank."""
        pairs = [
            (node_rank, device)
            for node_rank, node in enumerate(self.nodes)
            for device in node.devices
        ]
        return sorted(pairs, key=lambda pair: pair[1].rank)

    def _refuse_unknown(self, rank: int) -> None:
        if not 0 <= rank < self.world_size:
            raise IndexError(f"rank {rank} is not among the {self.world_size} ranks")

    def device_of(self, rank: int) -> Device:
        """Return the device of a rank.

        Raises:
            IndexError: The table has no such rank.
        """
        self._refuse_unknown(rank)
        return self._by_rank[rank][1]

    def node_rank_of(self, rank: int) -> int:
        """Return the index of the node of a rank.

        Raises:
            IndexError: The table has no such rank.
        """
        self._refuse_unknown(rank)
        if self._in_file_order is not None:
            return self._in_file_order.node_of(rank)[0]
        return self._by_rank[rank][0]

    def node_of(self, rank: int) -> Node:
        """Return the node of a rank.

        Raises:
            IndexError: The table has no such rank.
        """
        return self.nodes[self.node_rank_of(rank)]

    def local_rank_of(self, rank: int) -> int:
        """Return the index of a rank within its node.

        Raises:
            IndexError: The table has no such rank.
        """
        self._refuse_unknown(rank)
        if self._in_file_order is not None:
            return self._in_file_order.node_of(rank)[1]
        return self.node_of(rank).devices.index(self.device_of(rank))

    def local_chip_map(self, node_rank: int) -> list[int]:
        """Return the ``device_id`` of every local_rank of a node.

        Raises:
            IndexError: The table has no such node.
        """
        if not 0 <= node_rank < self.num_nodes:
            raise IndexError(f"node {node_rank} is not among {self.num_nodes} nodes")
        if self._in_file_order is not None:
            start, end = self._in_file_order.starts[node_rank : node_rank + 2]
            return self._chips[start:end]
        return [device.device_id for device in self.nodes[node_rank].devices]

    def digest(self) -> str:
        """Return the SHA-256 of the content of the table, in hexadecimal.

        The digest does not depend on formatting, the order of keys, strings or
        integers, and ``rank`` or ``world_rank``. It depends on nodes, chips, ranks,
        hosts, addresses and unknown keys.
        """
        if self.document is not None:
            return hashlib.sha256(_canonical(self.document).encode()).hexdigest()
        lines = [_canonical({"version": self.version, "extra": self.extra})]
        plain = self._in_file_order
        if plain is not None and plain.is_plain():
            lines.append(_plain_text(plain))
        else:
            for node in self.nodes:
                lines.append(_canonical({"host": node.host, "extra": node.extra}))
                lines.extend(
                    _canonical([d.rank, d.device_id, d.address, d.is_emulated, d.extra])
                    for d in node.devices
                )
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _plain_text(columns: Columns) -> str:
    """Return the text that ``digest`` hashes, for columns without anything unusual.

    It equals ``_canonical``, but is made from whole columns, which is faster.
    """
    # A line break in a host is escaped, so that each host is on a line of its own.
    hosts = json.dumps(columns.hosts, separators=("\n", ":"))[1:-1].split("\n")
    openings = ["\n["] * columns.num_devices
    for start, host in zip(columns.starts, hosts, strict=False):
        openings[start] = f'\n{{"extra":{{}},"host":{host}}}\n['
    quote = '"' if all(columns.addresses) else ""  # saves a text for each device
    addresses: Any = columns.addresses
    if not quote:
        addresses = [f'"{address}"' if address else "null" for address in addresses]
    parts = [",", "", ",", "", f",{quote}", "", f"{quote},false,{{}}]"]
    parts *= columns.num_devices
    parts[0::7] = openings
    parts[1::7] = _spelt(columns.ranks)
    parts[3::7] = _spelt(columns.device_ids)
    parts[5::7] = addresses
    return "".join(parts)[1:]


def _spelt(numbers: list[int | None]) -> list[str]:
    return json_text.encode(numbers)[1:-1].decode().split(",")


_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
