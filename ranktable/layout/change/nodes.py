"""The nodes of a table as a change sees them: their names, chips and addresses."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.layout.layout_errors import ChangeError
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ranktable.schema.model import Device, Node, RankTable

SUPER_ID_KEY = "super_device_id"
"""The key of a chip's SDID, which HCCL uses within a super pod."""

_SHOWN = 8
"""Most nodes that a message names; the others are only counted."""


class IndexName(str):
    """The name of a node without a host: its index, unless a host has that name."""

    __slots__ = ("place",)
    place: str

    @classmethod
    def of(cls, at: int, hosts: Collection[str | None]) -> IndexName:
        """Return the name of a node in a table with some hosts."""
        name = cls(f"#{at}" if str(at) in hosts else at)
        name.place = str(at)
        return name


def node_names(nodes: Sequence[Node]) -> list[str]:
    """Return the name of every node: its host, or its index."""
    return [node.host or str(place) for place, node in enumerate(nodes)]


def named_table(table: RankTable) -> RankTable:
    """Return a table whose nodes all have a name as their host.

    The names let a change find the nodes again; ``unnamed_table`` removes them.
    """
    if all(node.host is not None for node in table.nodes):
        return table
    hosts = {node.host for node in (*table.nodes, *table.spares)}
    return table.with_changes(
        nodes=[
            structs.replace(node, host=IndexName.of(at, hosts))
            if node.host is None
            else node
            for at, node in enumerate(table.nodes)
        ]
    )


def unnamed_table(table: RankTable) -> RankTable:
    """Return a table without the names that ``named_table`` gave to its nodes."""
    every = (*table.nodes, *table.spares)
    if not any(isinstance(node.host, IndexName) for node in every):
        return table
    nodes, spares = (
        [
            structs.replace(node, host=None)
            if isinstance(node.host, IndexName)
            else node
            for node in own
        ]
        for own in (table.nodes, table.spares)
    )
    return table.with_changes(nodes=nodes, spares=spares)


def unknown_node(name: str, names: Sequence[str]) -> str:
    """Return why a name is not among others, and which may be meant."""
    # n062 is not a misspelt n023, but n23 is: only equal numbers are near.
    close = [
        near
        for near in get_close_matches(name, names, n=len(names))
        if _numbers(near) == _numbers(name)
    ][:2]
    if close:
        return f"there is no node {name!r}; did you mean {' or '.join(close)}?"
    return f"there is no node {name!r}; the nodes are {listed(names)}"


def listed(names: Sequence[str]) -> str:
    """Return names for a sentence, the first ones if there are many."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _numbers(name: str) -> list[str]:
    return [number.lstrip("0") for number in re.findall(r"\d+", name)]


def has_own_values(node: Node) -> bool:
    """Whether chips of a node have addresses or ids that no other host can have."""
    return any(_is_of_host(one) or SUPER_ID_KEY in one.extra for one in node.devices)


def _is_of_host(device: Device) -> bool:
    """Whether a device has an address that no other host can have."""
    address = device.address
    if not address or device.is_emulated:
        return False
    return not (address.startswith("127.") or address == "::1")


def refuse_same_addresses(nodes: Iterable[Node], *new: Node) -> None:
    """Raise ChangeError if a chip of a new node has an address of another node."""
    addressed = [
        (node.host, device.address)
        for node in new
        for device in node.devices
        if _is_of_host(device)
    ]
    if not addressed:
        return
    holders = {device.address: node.host for node in nodes for device in node.devices}
    for host, address in addressed:
        if holders.setdefault(address, host) != host:
            raise ChangeError(
                f"{host} has the address {address}, which is one of {holders[address]}"
            )


def refuse_same_ids(before: RankTable, after: RankTable) -> None:
    """Raise ChangeError if chips of a new host have SDIDs that are already used.

    An SDID names a chip within its super pod.
    """
    old = {node.host for node in before.nodes}
    in_pods = [node for node in after.nodes if node.super_pod is not None]
    holders = {
        (node.super_pod, device.extra.get(SUPER_ID_KEY)): node.host
        for node in in_pods
        if node.host in old
        for device in node.devices
    }
    for node in in_pods:
        pod, ids = node.super_pod, [d.extra.get(SUPER_ID_KEY) for d in node.devices]
        same = [one for one in ids if one is not None and (pod, one) in holders]
        if same and node.host not in old:
            raise ChangeError(
                f"{counted(len(same), 'chip')} of {node.host} "
                f"{'has' if len(same) == 1 else 'have'} the {SUPER_ID_KEY} of others "
                f"of super pod {pod}: {same[0]} is one of {holders[pod, same[0]]}"
            )


def joined(nodes: Iterable[Node], apart: Collection[str | None] = ()) -> list[Node]:
    """Return nodes with those of one host merged, in the order of their ranks.

    Args:
        nodes: The nodes.
        apart: Hosts whose nodes are not merged, because they are several pods.

    Raises:
        ChangeError: A chip would be there twice.
    """
    found: list[Node] = []
    places: dict[str, int] = {}
    for node in nodes:
        if node.host is None or node.host in apart or node.host not in places:
            places.setdefault(node.host or "", len(found))
            found.append(node)
            continue
        first = found[places[node.host]]
        devices = (*first.devices, *node.devices)
        if len({device.device_id for device in devices}) < len(devices):
            raise ChangeError(f"{node.host} has a chip twice")
        ordered = tuple(sorted(devices, key=lambda device: device.rank))
        found[places[node.host]] = structs.replace(first, devices=ordered)
    return found
