"""A sound rank table as frozen values: nodes, devices, ranks, chips."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property

from msgspec import Struct

Layout = tuple[tuple[str, type], ...]
"""Keys of one object of a file in their order, with the type each value was written as.

It lets a table be written back as it was read: ``rank`` or ``world_rank``, strings or
integers. Devices that are spelt alike share one layout.
"""


class Device(Struct, frozen=True, kw_only=True):
    """One chip and the process that runs on it.

    Attributes:
        rank: Global rank of the process, 0 to world_size - 1.
        device_id: Index of the chip on its host.
        address: IP address of the device, None if the table has none.
        is_emulated: Whether that is the address of an emulated device.
        extra: Keys that the format does not define, as they were read.
        layout: How the device was spelt in its file, None when it came from no file.
    """

    rank: int
    device_id: int
    address: str | None = None
    is_emulated: bool = False
    extra: dict[str, object] = {}
    layout: Layout | None = None

    def __repr__(self) -> str:
        """Return rank and chip; how the device is spelt concerns the writer alone."""
        return f"Device(rank={self.rank}, device_id={self.device_id})"


class Node(Struct, frozen=True, kw_only=True):
    """One host and its devices, in the order of their ranks.

    Attributes:
        devices: The devices; the place of one is its local_rank.
        host: Name or address of the host, None if the table has none.
        extra: Keys that the format does not define, as they were read.
        layout: How the node was spelt in its file, None when it came from no file.
    """

    devices: tuple[Device, ...]
    host: str | None = None
    extra: dict[str, object] = {}
    layout: Layout | None = None

    def __repr__(self) -> str:
        """Return the host and the devices."""
        return f"Node(host={self.host!r}, devices={self.devices!r})"


class RankTable(Struct, frozen=True, kw_only=True, dict=True):
    """Which chip each rank of a job runs on.

    Attributes:
        nodes: The nodes, in the order of the file; the place of one is its node_rank.
        version: Version of the table.
        format: Name of the format it was read from, and is written in by default.
        extra: Keys that the format does not define, as they were read.
        layout: How the top of the file was spelt, None when it came from no file.
    """

    nodes: tuple[Node, ...]
    version: str = "1.0"
    format: str = "sccl-1.0"
    extra: dict[str, object] = {}
    layout: Layout | None = None

    def __repr__(self) -> str:
        """Return the size; ``ranktable show`` prints what is in it."""
        return (
            f"RankTable(format={self.format!r}, num_nodes={len(self.nodes)}, "
            f"world_size={self.world_size})"
        )

    @property
    def world_size(self) -> int:
        """Number of processes."""
        return len(self._by_rank)

    @property
    def chip_map(self) -> list[int]:
        """``device_id`` of every rank; length world_size."""
        return [device.device_id for _, device in self._by_rank]

    @cached_property
    def _by_rank(self) -> list[tuple[int, Device]]:
        """(node_rank, device) of every rank."""
        pairs = [
            (node_rank, device)
            for node_rank, node in enumerate(self.nodes)
            for device in node.devices
        ]
        return sorted(pairs, key=lambda pair: pair[1].rank)

    def _find(self, rank: int) -> tuple[int, Device]:
        if not 0 <= rank < self.world_size:
            raise IndexError(f"rank {rank} is not among the {self.world_size} ranks")
        return self._by_rank[rank]

    def device_of(self, rank: int) -> Device:
        """Return the device of a rank.

        Raises:
            IndexError: The table has no such rank.
        """
        return self._find(rank)[1]

    def node_rank_of(self, rank: int) -> int:
        """Return the index of the node of a rank.

        Raises:
            IndexError: The table has no such rank.
        """
        return self._find(rank)[0]

    def node_of(self, rank: int) -> Node:
        """Return the node of a rank.

        Raises:
            IndexError: The table has no such rank.
        """
        return self.nodes[self._find(rank)[0]]

    def local_rank_of(self, rank: int) -> int:
        """Return the index of a rank within its node.

        Raises:
            IndexError: The table has no such rank.
        """
        return self.node_of(rank).devices.index(self.device_of(rank))

    def local_chip_map(self, node_rank: int) -> list[int]:
        """Return the ``device_id`` of every local_rank of a node.

        Raises:
            IndexError: The table has no such node.
        """
        if not 0 <= node_rank < len(self.nodes):
            raise IndexError(f"node {node_rank} is not among {len(self.nodes)} nodes")
        return [device.device_id for device in self.nodes[node_rank].devices]

    def digest(self) -> str:
        """Return the SHA-256 of what the table says, in hexadecimal.

        Formatting, the order of keys, strings or integers, and the spelling ``rank``
        or ``world_rank`` make no difference; nodes, chips, ranks, hosts, addresses
        and keys that nobody knows do.
        """
        lines = [_canonical({"version": self.version, "extra": self.extra})]
        for node in self.nodes:
            lines.append(_canonical({"host": node.host, "extra": node.extra}))
            lines.extend(
                _canonical([d.rank, d.device_id, d.address, d.is_emulated, d.extra])
                for d in node.devices
            )
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
