"""A table as columns: what the rules look at.

One list a field and one entry a device, in document order. A rule that compares whole
lists judges 100,000 sound ranks in a millisecond and only a broken table pays for the
search. An entry is None where the document has no readable value; the reason has been
reported by then, so the rules go on with what is left.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.schema.document import SourceSpan
from ranktable.schema.quota import Quota

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.document import Path
    from ranktable.schema.formats.format import Format


@dataclass(slots=True)
class Columns:
    """The values of a table.

    Attributes:
        format: Format of the document.
        document: The plain data, from which spots are made.
        starts: Index of the first device of each node, and the number of devices.
        ranks: Global rank of each device.
        device_ids: Chip of each device, within its node.
        local_ranks: Written local rank of each device, None where absent.
        addresses: Written address of each device, None where absent.
        more_addresses: Addresses of devices that have another one as well.
        hosts: Written host of each node, None where absent.
        conflicts: Indices of devices with two different ranks.
    """

    format: Format
    document: dict[str, object]
    starts: list[int] = field(default_factory=lambda: [0])
    ranks: list[int | None] = field(default_factory=list)
    device_ids: list[int | None] = field(default_factory=list)
    local_ranks: list[int | None] = field(default_factory=list)
    addresses: list[str | None] = field(default_factory=list)
    more_addresses: list[tuple[SourceSpan, str]] = field(default_factory=list)
    hosts: list[str | None] = field(default_factory=list)
    conflicts: list[int] = field(default_factory=list)
    quota: Quota = field(default_factory=Quota)

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
        return (self.format.nodes_key, node)

    def devices_spot(self, node: int) -> SourceSpan:
        """Return the spot of a node's list of devices."""
        return SourceSpan((*self.node_path(node), self.format.devices_key))

    def node_of(self, index: int) -> tuple[int, int]:
        """Return the node of a device and its place within that node."""
        node = bisect_right(self.starts, index) - 1
        return node, index - self.starts[node]

    def name(self, index: int) -> str:
        """Return how a message names a device."""
        node, place = self.node_of(index)
        return f"device {place} of node {node}"

    def span(
        self, index: int, keys: tuple[str, ...], label: str | None = None
    ) -> SourceSpan:
        """Return the spot of the first of these keys that a device has."""
        node, place = self.node_of(index)
        path = (*self.devices_spot(node).path, place)
        device = self._device(node, place)
        for key in keys:
            if key in device:
                return SourceSpan((*path, key), label=label)
        return SourceSpan(path, label=label)

    def rank_spot(self, index: int, label: str | None = None) -> SourceSpan:
        """Return the spot of a device's rank."""
        return self.span(index, self.format.rank_keys, label)

    def device_id_spot(self, index: int, label: str | None = None) -> SourceSpan:
        """Return the spot of a device's chip."""
        return self.span(index, ("device_id",), label)

    def _device(self, node: int, place: int) -> dict[str, object]:
        nodes = self.document[self.format.nodes_key]
        return nodes[node][self.format.devices_key][place]  # type: ignore[index, no-any-return]
