"""A file format: the names of its keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PLACEMENT_KEY = "placement"
FREE = "free"
"""With ``"placement": "free"`` a table says that RANK is taken from it."""

SPARES_KEY = "spare_list"
"""The key of nodes that carry no rank; it is this project's own, as ``host`` is."""

SUPER_POD_KEY = "super_pod_id"
"""The key by which a node says in which super pod it is, as Ascend's tables have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """The keys of a format of nodes that list devices.

    Attributes:
        name: Name on the command line.
        title: What it is, for people.
        schema_file: Its JSON Schema in ``ranktable/schema/data``.
        versions: Values of ``version``.
        nodes_key: Key of the list of nodes.
        devices_key: Key of a node's list of devices.
        host_key: Key of a node's host, and whether it is required.
        top_keys: Type of each other key at the top; required ones are in
            ``required_top_keys``.
        required_top_keys: Keys that must be there besides the list of nodes.
        node_keys: Other keys of a node, kept as they are.
        count_key: Key that repeats the number of nodes.
        blank_address: Whether an empty string means "no address".
        written_keys: Keys of the ranks of a device that came from no file; their
            values are strings, which every reader takes.
        reader_keys: Keys of the rank that a reader needs each; a device should have
            all of them.
    """

    name: str
    title: str
    schema_file: str
    versions: tuple[str, ...]
    nodes_key: str
    devices_key: str
    host_key: str
    host_required: bool
    top_keys: Mapping[str, type]
    required_top_keys: tuple[str, ...]
    node_keys: tuple[str, ...]
    count_key: str | None
    blank_address: bool
    written_keys: tuple[str, ...]
    reader_keys: tuple[str, ...] = ()
    rank_keys: tuple[str, ...] = ("rank", "world_rank", "rank_id")
    address_keys: tuple[str, ...] = ("device_ip", "device_ip_emulator")

    @property
    def device_keys(self) -> tuple[str, ...]:
        """Every key of a device that some reader knows."""
        return ("device_id", *self.rank_keys, "local_rank", *self.address_keys)
