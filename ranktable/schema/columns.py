"""A table as columns, which the rules compare.

There is one list for each field, with one entry for each device in document order. A
rule that compares whole lists judges 100,000 sound ranks in a millisecond; only a wrong
table needs a search. An entry is None if the document has no readable value there. The
reason is already reported then, so the rules only look at the other entries.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from typing import TYPE_CHECKING, TypeVar

from ranktable.schema.declare import KeyRole
from ranktable.schema.document import Document, SourceSpan, parse_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from ranktable.schema.declare import Format
    from ranktable.schema.document import Path


T = TypeVar("T")


def place_name(path: Path) -> str:
    """Return the name of a place for messages, in a document without nodes.

    >>> place_name(("rank_list", 2, "level_list", 0))
    'rank_list[2].level_list[0]'
    """
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".") or "the table"


def value_name(path: Path) -> str:
    """Return the name of a value for messages: its key, or its place in a list.

    >>> value_name(("rank_list", 2, "rank_id")), value_name(("HCL_RANKS", 1))
    ('rank_id', 'HCL_RANKS[1]')
    """
    key = path[-1] if path else None
    return key if isinstance(key, str) else place_name(path)


def repeated(values: Iterable[Hashable]) -> Iterator[tuple[int, int]]:
    """Yield the index of each value that was there before, and that of its first use.

    >>> [*repeated(["a", "b", None, "a", None])]
    [(3, 0)]
    """
    first_use: dict[Hashable, int] = {}
    for index, value in enumerate(values):
        if value is not None and first_use.setdefault(value, index) != index:
            yield index, first_use[value]


class Columns:
    """The values of a table.

    Attributes:
        format: Format of the document.
        source: The document, or only its bytes if it has not been parsed.
        starts: Index of the first device of each node, and the number of devices.
        ranks: Global rank of each device.
        device_ids: Chip of each device, within its node.
        local_ranks: Local rank of each device as it is written, None if absent.
        addresses: Address of each device as it is written, None if absent.
        hosts: Host of each node as it is written, None if absent.
        top: Readable values of the keys at the top.
        optional: More columns by key, with one entry for each node or each device.
        is_emulated: Whether a device has the address key of emulated devices.
        more_addresses: Device, key and address of devices that have another one.
        conflicts: Devices with two different ranks.
        has_unread: Whether the devices of a node could not be read.
        lacking: For each of the format's ``reader_keys``, the first device without it.
        node_paths: Path of each node, if the nodes are not in one list.
        device_paths: Path of each device, if devices are not in the list of their node.
        worked_out: What ``once`` has worked out.
    """

    def __init__(self, format_: Format, source: Document | bytes) -> None:
        """Begin without nodes."""
        self.format = format_
        self.source = source
        self.starts: list[int] = [0]
        self.ranks: list[int | None] = []
        self.device_ids: list[int | None] = []
        self.local_ranks: list[int | None] = []
        self.addresses: list[str | None] = []
        self.hosts: list[str | None] = []
        self.top: dict[str, object] = {}
        self.optional: dict[str, list[object]] = {}
        self.is_emulated = False
        self.more_addresses: list[tuple[int, str, str]] = []
        self.conflicts: list[int] = []
        self.has_unread = False
        self.lacking: dict[tuple[str, ...], int] = {}
        self.node_paths: Sequence[Path] | None = None
        self.device_paths: Sequence[Path] | None = None
        self.worked_out: dict[object, object] = {}

    @property
    def document(self) -> Document:
        """The document, parsed when it is first needed."""
        if isinstance(self.source, bytes):
            self.source = parse_sound(self.source)
        return self.source

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.starts) - 1

    @property
    def num_devices(self) -> int:
        """Number of devices, which is the world size of a sound table."""
        return len(self.ranks)

    def nodes(self) -> Iterator[tuple[int, int, int]]:
        """Yield (node, first device, end) for every node."""
        for node, start in enumerate(self.starts[:-1]):
            yield node, start, self.starts[node + 1]

    def node_path(self, node: int) -> Path:
        """Return the path of a node in the document."""
        if self.node_paths is not None:
            return self.node_paths[node]
        return (self.format.nodes_key, node)

    def devices_path(self, node: int) -> Path:
        """Return the path of a node's list of devices."""
        return (*self.node_path(node), self.format.devices_key)

    def device_path(self, index: int) -> Path:
        """Return the path of a device in the document."""
        if self.device_paths is not None:
            return self.device_paths[index]
        node, place = self.node_of(index)
        return (*self.devices_path(node), place)

    def node_of(self, index: int) -> tuple[int, int]:
        """Return the node of a device and its place within that node."""
        node = bisect_right(self.starts, index) - 1
        return node, index - self.starts[node]

    def name(self, index: int) -> str:
        """Return the name of a device for messages."""
        if self.device_paths is not None:
            return place_name(self.device_paths[index])
        node, place = self.node_of(index)
        return f"device {place} of node {node}"

    def devices_span(self, node: int) -> SourceSpan:
        """Return the place of a node's list of devices."""
        return SourceSpan(self.devices_path(node))

    def span(
        self, index: int, keys: tuple[str, ...], label: str | None = None
    ) -> SourceSpan:
        """Return the place of the first of these keys that a device has."""
        path = self.device_path(index)
        if isinstance(self.source, bytes) and keys[:1] in self.format.required_keys:
            return SourceSpan((*path, keys[0]), label=label)  # without a parse
        for key in keys:
            if self.document.has(*path, key):
                return SourceSpan((*path, key), label=label)
        return SourceSpan(path, label=label)

    def is_given(self, index: int, key: str) -> bool:
        """Whether a device has a value under a key, even a wrong one."""
        path = (*self.device_path(index), key)
        return self.document.has(*path) and self.document.get(*path) != ""

    def rank_span(self, index: int, label: str | None = None) -> SourceSpan:
        """Return the place of a device's rank."""
        return self.span(index, self.format.rank_keys, label)

    def device_id_span(self, index: int, label: str | None = None) -> SourceSpan:
        """Return the place of a device's chip."""
        return self.span(index, self.format.device_keys_of(KeyRole.DEVICE_ID), label)

    def are_ranks_in_file_order(self) -> bool:
        """Whether the ranks are 0, 1, 2 ... in the order of the file."""
        found = self.worked_out.get("are_ranks_in_file_order")
        if not isinstance(found, bool):
            found = self.ranks == list(range(self.num_devices))
            self.worked_out["are_ranks_in_file_order"] = found
        return found

    def are_in_order_of_nodes(self) -> bool:
        """Whether nodes and devices are listed in the order of the model."""
        return self.format.keeps_file_order or self.are_ranks_in_file_order()

    def once(self, work: Callable[[Columns], T]) -> T:
        """Return what a function makes of this table, for all rules that need it."""
        if work not in self.worked_out:
            self.worked_out[work] = work(self)
        return self.worked_out[work]  # type: ignore[return-value]

    @property
    def sizes(self) -> list[int]:
        """Number of devices of each node."""
        return list(map(operator.sub, self.starts[1:], self.starts))

    def chip_map(self) -> list[int]:
        """Return the chip of every rank of a sound table; length world_size."""
        chips: list[int] = self.device_ids  # type: ignore[assignment]
        if self.are_ranks_in_file_order():
            return list(chips)
        found = [0] * len(chips)
        for rank, chip in zip(self.ranks, chips, strict=True):
            found[rank] = chip  # type: ignore[index]
        return found

    def extra(self) -> dict[str, object]:
        """Return the values at the top that are not fields of the model."""
        format_ = self.format
        known = {"version", format_.nodes_key, format_.count_key}
        members = self.top
        if not isinstance(self.source, bytes):  # it may have unknown keys
            data = self.source.data
            members = data if isinstance(data, dict) else {}
        return {key: value for key, value in members.items() if key not in known}

    def is_plain(self) -> bool:
        """Whether nodes and devices have nothing but hosts, ranks, chips, addresses."""
        is_decoded = isinstance(self.source, bytes)  # then there are no unknown keys
        return is_decoded and not (
            self.optional or self.more_addresses or self.is_emulated
        )
