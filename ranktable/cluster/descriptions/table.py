"""From a rank table to a description, and back."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.descriptions.description import Description, Host
from ranktable.cluster.descriptions.expressing import called, chips_of, ranks_of
from ranktable.schema.messages import counted, printable
from ranktable.schema.model import Device, Node, RankTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PLACE = re.compile(r"\+n([0-9]{1,7})")


def describe_table(table: RankTable) -> Description:
    """Return the hosts of a table in the order of their lowest ranks.

    Addresses of devices and keys that the format does not define are left out: no
    launcher has a place for them.
    """
    nodes = sorted(table.nodes, key=lambda node: min(d.rank for d in node.devices))
    return Description(hosts=tuple(map(_host, nodes)))


def _host(node: Node) -> Host:
    devices = sorted(node.devices, key=lambda device: device.rank)
    return Host(
        name=node.host,
        slots=len(devices),
        device_ids=tuple(device.device_id for device in devices),
        ranks=tuple(device.rank for device in devices),
    )


def table_of(description: Description) -> RankTable:
    """Return the table of a description: its chips, else 0 to slots - 1 of each host.

    Raises:
        ArgumentError: The size of a host is not known, a host is given by its place
            in an allocation, or its ranks are not consecutive.
    """
    for host in description.hosts:
        if _place(host.name) is not None:
            raise ArgumentError(
                f"{host.name} is a place in an allocation, which the file does not "
                "name",
                hint="give the hosts of the allocation in their order: --hosts LIST",
            )
    ranks, chips = ranks_of(description), chips_of(description)
    for node_rank, (host, own) in enumerate(zip(description.hosts, ranks, strict=True)):
        if own[-1] - own[0] >= len(own):
            raise ArgumentError(
                f"a rank table has the ranks of a node one after the other, and "
                f"{called(node_rank, host)} has {own[0]} to {own[-1]} with gaps"
            )
    parts = zip(description.hosts, ranks, chips, strict=True)
    return RankTable(nodes=tuple(_node(*part) for part in parts))


def _node(host: Host, ranks: Sequence[int], chips: Sequence[int]) -> Node:
    pairs = zip(ranks, chips, strict=True)
    devices = tuple(Device(rank=rank, device_id=chip) for rank, chip in pairs)
    return Node(devices=devices, host=host.name)


def with_chips(description: Description, chips: Sequence[Sequence[int]]) -> Description:
    """Return a description whose hosts have these chips, in the order of their ranks.

    Raises:
        ArgumentError: The numbers of hosts or of processes differ.
    """
    hosts = description.hosts
    if len(chips) != len(hosts):
        raise ArgumentError(
            f"chips are given for {counted(len(chips), 'node')}, the description has "
            f"{counted(len(hosts), 'host')}"
        )
    for node_rank, (host, own) in enumerate(zip(hosts, chips, strict=True)):
        if host.slots not in (None, len(own)):
            raise ArgumentError(
                f"{called(node_rank, host)} has {counted(host.slots or 0, 'slot')} and "
                f"is given {counted(len(own), 'chip')}"
            )
    pairs = zip(hosts, chips, strict=True)
    return Description(
        hosts=tuple(
            replace(host, slots=len(own), device_ids=tuple(own)) for host, own in pairs
        )
    )


def with_hosts(description: Description, names: Sequence[str]) -> Description:
    """Return a description with other names for its hosts.

    A host that is given as ``+n1`` is the one at index 1 of the names; all others take
    the names in their order.

    Raises:
        ArgumentError: There are too few names or too many, or one stands twice.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ArgumentError(f"the host {printable(name)} is given twice")
        seen.add(name)
    places = [_place(host.name) for host in description.hosts]
    if any(place is not None for place in places):
        return _resolved(description, places, names)
    if len(names) != len(places):
        raise ArgumentError(
            f"{counted(len(names), 'host')} for {counted(len(places), 'node')}",
            hint="give one host a node, in the order of the nodes",
        )
    pairs = zip(description.hosts, names, strict=True)
    return Description(hosts=tuple(replace(host, name=name) for host, name in pairs))


def _place(name: str | None) -> int | None:
    """Return the index of ``+n1``, None for a name."""
    match = _PLACE.fullmatch(name or "")
    return int(match[1]) if match else None


def _resolved(
    description: Description, places: Iterable[int | None], names: Sequence[str]
) -> Description:
    """Return the hosts with their places replaced; one host may be given both ways."""
    found: dict[str, list[Host]] = defaultdict(list)
    for host, place in zip(description.hosts, places, strict=True):
        if place is not None and place >= len(names):
            raise ArgumentError(
                f"{host.name} is not among the {counted(len(names), 'host')} given"
            )
        name = str(host.name) if place is None else names[place]
        found[name].append(host)
    hosts = [_joined(name, parts) for name, parts in found.items()]
    return Description(hosts=tuple(sorted(hosts, key=lambda host: host.ranks or ())))


def _joined(name: str, parts: list[Host]) -> Host:
    """Return one host with the ranks of its parts."""
    has_chips = all(part.device_ids is not None for part in parts)
    pairs = sorted(
        (rank, chip)
        for part in parts
        for rank, chip in zip(
            part.ranks or (), part.device_ids or part.ranks or (), strict=True
        )
    )
    return Host(
        name=name,
        slots=len(pairs),
        device_ids=tuple(chip for _, chip in pairs) if has_chips else None,
        ranks=tuple(rank for rank, _ in pairs),
    )
