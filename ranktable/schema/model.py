"""A sound rank table as frozen values: table, nodes and devices."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec import json as json_text

from ranktable.schema.declare import SPARES_KEY, SUPER_POD_KEY, KeyRole
from ranktable.schema.formats import by_name
from ranktable.schema.plain_data import spelt_lists
from ranktable.schema.super_pods import PODS, listed_pods, named_pod, reads_pods
from ranktable.schema.values import leading_digits, plain_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

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
        super_pod: Its super pod, None if the table names none.
        extra: Keys that the format does not define, as they were read.
        layout: Its form in the file, None if it was not read from a file.
    """

    devices: tuple[Device, ...]
    host: str | None = None
    super_pod: str | None = None
    extra: dict[str, object] = {}
    layout: Layout | None = None

    def __repr__(self) -> str:
        """Return the host and the devices."""
        return f"Node(host={self.host!r}, devices={self.devices!r})"


class Parts(NamedTuple):
    """The parts of a table.

    ``document`` is the plain data of the file, if that is more than nodes, devices and
    their keys; a table with other nodes has none. ``super_pod_list`` is that of the
    file.
    """

    nodes: tuple[Node, ...]
    version: str
    format: str
    extra: dict[str, object]
    layout: Layout | None
    super_pod_list: object = None
    document: object = None


class _Cells(NamedTuple):
    """A table as columns, in the order of its nodes and of their devices.

    Attributes:
        starts: Index of the first device of each node, and the number of devices.
        ranks: Global rank of each device.
        device_ids: Chip of each device.
        hosts: Host of each node, None where the table has none.
    """

    starts: Sequence[int]
    ranks: Sequence[int]
    device_ids: Sequence[int]
    hosts: tuple[str | None, ...]


class RankTable:
    """Which chip each rank of a job runs on; it cannot be changed.

    A table is columns of ranks, chips and hosts. Its nodes are made from the document
    when they are first used, because a training process needs only the chips.

    Attributes:
        version: Version of the table.
        format: Name of its format, in which it is written by default.
    """

    def __init__(
        self,
        *,
        nodes: Iterable[Node],
        version: str = "1.0",
        format: str = "sccl-1.0",
        extra: Mapping[str, object] | None = None,
        layout: Layout | None = None,
        spares: Iterable[Node] = (),
        super_pod_list: object = None,
    ) -> None:
        """Make a table from nodes."""
        self._columns: Columns | None = None
        self.spares = tuple(spares)
        self.version = version
        self.format = format
        self._parts = Parts(
            tuple(nodes), version, format, dict(extra or {}), layout, super_pod_list
        )

    @classmethod
    def from_columns(cls, columns: Columns) -> RankTable:
        """Return the table of a document that was found sound."""
        table = cls.__new__(cls)
        table._columns = columns
        table.version = str(columns.top.get("version", ""))
        table.format = columns.format.name
        return table

    @cached_property
    def _parts(self) -> Parts:
        assert self._columns is not None
        return build_parts(self._columns)

    @cached_property
    def _cells(self) -> _Cells:
        columns = self._columns
        if columns is not None and columns.are_in_order_of_nodes():
            ranks, device_ids = columns.ranks, columns.device_ids
            return _Cells(columns.starts, ranks, device_ids, tuple(columns.hosts))  # type: ignore[arg-type]
        devices = [device for node in self.nodes for device in node.devices]
        return _Cells(
            [*accumulate((len(node.devices) for node in self.nodes), initial=0)],
            [device.rank for device in devices],
            [device.device_id for device in devices],
            tuple(node.host for node in self.nodes),
        )

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes; the index of a node is its node_rank."""
        return self._parts.nodes

    @cached_property
    def spares(self) -> tuple[Node, ...]:
        """The nodes without ranks; the rank of a device is its index in its spare."""
        assert self._columns is not None
        return _Builder(self._columns).spares()

    @property
    def extra(self) -> Mapping[str, object]:
        """Keys that the format does not define, as they were read.

        Spares and super pods are not among them.
        """
        return _extra_of(self._columns) if self._columns else self._parts.extra

    @property
    def super_pod_list(self) -> object:
        """The super pods as they were read, with their order and their other keys.

        Which super pod a node is in, the node says.
        """
        columns = self._columns
        return columns.extra().get(PODS) if columns else self._parts.super_pod_list

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

    def with_changes(
        self,
        *,
        nodes: Iterable[Node] | None = None,
        spares: Iterable[Node] | None = None,
        extra: Mapping[str, object] | None = None,
        super_pod_list: object = None,
    ) -> RankTable:
        """Return a table with other nodes, spares or keys."""
        return RankTable(
            nodes=self.nodes if nodes is None else nodes,
            version=self.version,
            format=self.format,
            extra=self.extra if extra is None else extra,
            layout=self.layout,
            spares=self.spares if spares is None else spares,
            super_pod_list=super_pod_list or self.super_pod_list,
        )

    def __eq__(self, other: object) -> bool:
        """Whether another table has the same content in the same form."""
        if not isinstance(other, RankTable):
            return NotImplemented
        return self._parts == other._parts and self.spares == other.spares

    __hash__ = None  # type: ignore[assignment]  # extra keys are not hashable

    def __repr__(self) -> str:
        """Return the size; ``ranktable show`` prints the content."""
        return (
            f"RankTable(format={self.format!r}, num_nodes={self.num_nodes}, "
            f"world_size={self.world_size})"
        )

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self._cells.hosts)

    @property
    def world_size(self) -> int:
        """Number of processes; number of devices if the table has no ranks."""
        return len(self._cells.ranks)

    @property
    def rank_end(self) -> int:
        """Highest rank plus one; larger than world_size if some ranks are missing."""
        return 1 + max(self._cells.ranks, default=-1)

    @property
    def hosts(self) -> tuple[str | None, ...]:
        """Host of every node, None where the table has none."""
        return self._cells.hosts

    @cached_property
    def _by_rank(self) -> Sequence[int]:
        """Index of the device of every rank."""
        ranks = self._cells.ranks
        in_order = range(len(ranks))
        if ranks == [*in_order]:
            return in_order
        return sorted(in_order, key=ranks.__getitem__)

    @property
    def chip_map(self) -> list[int]:
        """``device_id`` of every rank; length world_size."""
        return [*map(self._cells.device_ids.__getitem__, self._by_rank)]

    @cached_property
    def node_ranks(self) -> tuple[int, ...]:
        """node_rank of every rank."""
        sizes = pairwise(self._cells.starts)
        owners = [node for node, (a, b) in enumerate(sizes) for _ in range(a, b)]
        return tuple(map(owners.__getitem__, self._by_rank))

    @property
    def first_ranks(self) -> tuple[int, ...]:
        """Lowest rank of every node."""
        return tuple(map(self._cells.ranks.__getitem__, self._cells.starts[:-1]))

    def _place_of(self, rank: int) -> tuple[int, int]:
        """Return the node_rank and the local_rank of a rank."""
        if not 0 <= rank < self.world_size:
            raise IndexError(f"rank {rank} is not among the {self.world_size} ranks")
        index, starts = self._by_rank[rank], self._cells.starts
        node = bisect_right(starts, index) - 1
        return node, index - starts[node]

    def device_of(self, rank: int) -> Device:
        """Return the device of a rank.

        Raises:
            IndexError: The table has no such rank.
        """
        node, local_rank = self._place_of(rank)
        return self.nodes[node].devices[local_rank]

    def node_rank_of(self, rank: int) -> int:
        """Return the index of the node of a rank.

        Raises:
            IndexError: The table has no such rank.
        """
        return self._place_of(rank)[0]

    def node_of(self, rank: int) -> Node:
        """Return the node of a rank.

        Raises:
            IndexError: The table has no such rank.
        """
        return self.nodes[self._place_of(rank)[0]]

    def local_rank_of(self, rank: int) -> int:
        """Return the index of a rank within its node.

        Raises:
            IndexError: The table has no such rank.
        """
        return self._place_of(rank)[1]

    def local_chip_map(self, node_rank: int) -> list[int]:
        """Return the ``device_id`` of every local_rank of a node.

        Raises:
            IndexError: The table has no such node.
        """
        if not 0 <= node_rank < self.num_nodes:
            raise IndexError(f"node {node_rank} is not among {self.num_nodes} nodes")
        start, end = self._cells.starts[node_rank : node_rank + 2]
        return [*self._cells.device_ids[start:end]]

    def digest(self) -> str:
        """Return the SHA-256 of the content of the table, in hexadecimal.

        The digest does not depend on formatting, the order of keys, strings or
        integers, and ``rank`` or ``world_rank``. It depends on nodes, chips, ranks,
        hosts, addresses and unknown keys.
        """
        if self.document is not None:
            return hashlib.sha256(_canonical(self.document).encode()).hexdigest()
        columns = self._columns
        top = columns.extra() if columns else self._top()
        if PODS in top and not reads_pods(by_name(self.format)):
            top = self._top()  # what such a format does not read is not written
        lines = [_canonical({"version": self.version, "extra": top})]
        if columns and columns.is_plain() and columns.are_ranks_in_file_order():
            lines.append(_plain_text(columns))
        else:
            for node in self.nodes:
                lines.append(_canonical({"host": node.host, "extra": node.extra}))
                lines.extend(
                    _canonical([d.rank, d.device_id, d.address, d.is_emulated, d.extra])
                    for d in node.devices
                )
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def _top(self) -> dict[str, object]:
        return {**self.extra, **spelt_lists(self, by_name(self.format))}


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


_NO_EXTRA: dict[str, object] = {}


def _extra_of(columns: Columns) -> dict[str, object]:
    """Return the keys of a table that the model has no fields for."""
    lists = () if columns.format.keeps_document else (SPARES_KEY, PODS)
    return _without(columns.extra(), lists)


def build_parts(columns: Columns) -> Parts:
    """Return the parts of a table, from a document that is sound."""
    return _Builder(columns).parts()


class _ReadSpelling(NamedTuple):
    """The form in which some devices are written.

    Attributes:
        layout: Their keys and types.
        is_emulated: Whether their address is that of an emulated device.
        others: Keys that the model has no fields for.
    """

    layout: Layout
    is_emulated: bool
    others: tuple[str, ...]


class _Builder:
    """Builds one table; devices and nodes of the same form share one layout."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.format = columns.format
        self.layouts: dict[Layout, Layout] = {}
        self.spellings: dict[tuple[object, ...], _ReadSpelling] = {}
        self.known_keys = self.format.device_keys_of(
            KeyRole.DEVICE_ID, KeyRole.RANK, KeyRole.LOCAL_RANK, KeyRole.ADDRESS
        )
        self.pods = listed_pods(columns.extra().get(PODS))

    def parts(self) -> Parts:
        columns, format_ = self.columns, self.format
        document = columns.document.data
        assert isinstance(document, dict)
        nodes = [self.node(node) for node in range(columns.num_nodes)]
        if not format_.keeps_file_order:
            nodes.sort(key=lambda node: node.devices[0].rank)
        return Parts(
            tuple(nodes),
            str(document.get("version", "")),
            format_.name,
            _extra_of(columns),
            self.layout(document),
            columns.extra().get(PODS),
            document if format_.keeps_document else None,
        )

    def node(self, node: int) -> Node:
        columns, format_ = self.columns, self.format
        start, end = columns.starts[node : node + 2]
        members: Any = columns.document.get(*columns.node_path(node))
        found: Any = members.get(format_.devices_key)
        if columns.device_paths is not None:
            paths = columns.device_paths[start:end]
            found = [columns.document.get(*path) for path in paths]
        built = self.devices(start, found)
        if not format_.keeps_file_order:
            built.sort(key=lambda device: device.rank)
        own = members if format_.node_fields else {}  # the node may be a rank's entry
        host = columns.hosts[node]
        return Node(
            devices=tuple(built),
            host=host,
            super_pod=self.pods.get(host or "")
            or named_pod(own, *(one.extra for one in built[:1])),
            extra=_without(own, {format_.devices_key, format_.host_key}),
            layout=self.layout(own),
        )

    def devices(self, start: int, found: list[dict[str, object]]) -> list[Device]:
        columns, end = self.columns, start + len(found)
        built = []
        for rank, device_id, address, members in zip(
            columns.ranks[start:end],
            columns.device_ids[start:end],
            columns.addresses[start:end],
            found,
            strict=True,
        ):
            assert rank is not None
            assert device_id is not None
            key: tuple[str | type, ...] = (*members, *map(type, members.values()))
            spelling = self.spellings.get(key) or self.spelling(key, members)
            others = spelling.others
            device = Device(
                rank=rank,
                device_id=device_id,
                address=address,
                is_emulated=spelling.is_emulated,
                extra={key: members[key] for key in others} if others else _NO_EXTRA,
                layout=spelling.layout,
            )
            built.append(device)
        return built

    def spares(self) -> tuple[Node, ...]:
        listed = self.columns.extra().get(SPARES_KEY)
        if self.format.keeps_document or not isinstance(listed, list):
            return ()
        return tuple(map(self.spare, listed))

    def spare(self, members: dict[str, Any]) -> Node:
        format_ = self.format
        found = enumerate(members[format_.devices_key])
        devices = tuple(self.spare_device(rank, chip) for rank, chip in found)
        known = {format_.devices_key, format_.host_key, SUPER_POD_KEY}
        return Node(
            devices=devices,
            host=members.get(format_.host_key),
            super_pod=named_pod(members, *(one.extra for one in devices[:1])),
            extra=_without(members, known),
            layout=self.layout(members),
        )

    def spare_device(self, rank: int, members: dict[str, Any]) -> Device:
        spelling = self.spelling((*members, *map(type, members.values())), members)
        chip, addresses = members["device_id"], self.format.address_keys
        number = plain_number(chip)
        if number is None:
            number = leading_digits(str(chip)) or 0  # as HCCL reads "3x"
        return Device(
            rank=rank,
            device_id=number,
            address=next(filter(None, map(members.get, addresses[::-1])), None),
            is_emulated=spelling.is_emulated,
            extra={key: members[key] for key in spelling.others},
            layout=spelling.layout,
        )

    def spelling(
        self, key: tuple[object, ...], members: dict[str, object]
    ) -> _ReadSpelling:
        known = set(self.known_keys)
        is_emulated = "device_ip_emulator" in members
        if is_emulated:
            known.discard("device_ip")  # the emulator's address is used instead
        others = tuple(key for key in members if key not in known)
        found = _ReadSpelling(self.layout(members), is_emulated, others)
        self.spellings[key] = found
        return found

    def layout(self, members: dict[str, object]) -> Layout:
        layout = tuple(zip(members, map(type, members.values()), strict=True))
        return self.layouts.setdefault(layout, layout)


def _without(
    members: dict[str, object], known: Collection[str | None]
) -> dict[str, object]:
    found = {key: value for key, value in members.items() if key not in known}
    return found or _NO_EXTRA
