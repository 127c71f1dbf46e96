"""The nodes of a table: found by name, without lost chips, with spares, in super pods.

The name of a node is its host, or its index where it has none. The key ``spare_list``
of a table has its spares, in the form of nodes but without ranks. Libraries do not read
this key, so a spare does not change a job.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.layout.layout_errors import ChangeError
from ranktable.schema.declare import SPARES_KEY, SUPER_POD_KEY
from ranktable.schema.formats import by_name
from ranktable.schema.model import Device, Node
from ranktable.schema.super_pods import (
    PODS,
    pods_joined,
    pods_of,
    pods_renamed,
    pods_with,
    servers_of,
)
from ranktable.schema.text import counted, folded
from ranktable.schema.values import plain_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ranktable.schema.model import RankTable


SUPER_ID_KEY = "super_device_id"
"""The key of a chip's SDID, which HCCL uses within a super pod."""


def with_nodes(
    table: RankTable, nodes: Iterable[Node], renamed: Mapping[str, str] | None = None
) -> RankTable:
    """Return a table with other nodes, and the super pods of these only.

    A new node joins the super pod that it names, unless it replaces another node.

    Args:
        table: The table.
        nodes: Its new nodes.
        renamed: New hosts, by the hosts that they replace in the super pods.
    """
    kept = tuple(nodes)
    extra = dict(table.extra)
    if PODS in extra:
        pods = pods_renamed(extra[PODS], renamed) if renamed else extra[PODS]
        known, named = servers_of(extra[PODS]), servers_of(pods)
        joining = {
            node.host: str(node.extra[SUPER_POD_KEY])
            for node in kept
            if node.host is not None
            and node.host not in named
            and SUPER_POD_KEY in node.extra
        }
        kept = tuple(node if node.host in known else _podless(node) for node in kept)
        pods = pods_joined(pods, joining) if joining else pods
        extra[PODS] = pods_with(pods, {node.host for node in kept})
    return table.with_changes(nodes=kept, extra=extra)


def with_pod_names(table: RankTable, nodes: Sequence[Node]) -> list[Node]:
    """Return nodes that leave a table, with the names of their super pods.

    A spare can join its super pod again by this name; the table lists no server that
    has no ranks.
    """
    if PODS not in table.extra:
        return [*nodes]
    pairs = zip(table.nodes, pods_of(table), strict=True)
    pod_of = {node.host: pod for node, pod in pairs}
    return [
        structs.replace(node, extra={**node.extra, SUPER_POD_KEY: pod})
        if (pod := pod_of.get(node.host))
        else node
        for node in nodes
    ]


def refuse_same_ids(before: RankTable, after: RankTable) -> None:
    """Raise ChangeError if chips of a new host have SDIDs that are already used.

    An SDID names a chip within its super pod.
    """
    old = {node.host for node in before.nodes}
    if PODS not in after.extra or all(node.host in old for node in after.nodes):
        return
    pairs = list(zip(after.nodes, pods_of(after), strict=True))
    holders = {
        (pod, chip.extra.get(SUPER_ID_KEY)): node.host
        for node, pod in pairs
        if node.host in old
        for chip in node.devices
    }
    for node, pod in pairs:
        ids = [chip.extra.get(SUPER_ID_KEY) for chip in node.devices]
        same = [one for one in ids if one is not None and (pod, one) in holders]
        if same and node.host not in old:
            raise ChangeError(
                f"{counted(len(same), 'chip')} of {node.host} "
                f"{'has' if len(same) == 1 else 'have'} the {SUPER_ID_KEY} of others "
                f"of super pod {pod}: {same[0]} is one of {holders[pod, same[0]]}"
            )


def _podless(node: Node) -> Node:
    """Return a node without the name of its super pod, which the table lists."""
    if SUPER_POD_KEY not in node.extra:
        return node
    extra = {key: value for key, value in node.extra.items() if key != SUPER_POD_KEY}
    return structs.replace(node, extra=extra)


_SHOWN = 8
"""Most nodes that a message names; the others are only counted."""


def node_names(nodes: Sequence[Node]) -> list[str]:
    """Return the name of every node: its host, or its index."""
    return [node.host or str(place) for place, node in enumerate(nodes)]


def find_nodes(table: RankTable, names: Iterable[str]) -> list[int]:
    """Return the places of the named nodes, in the order of the names.

    Several pods of one group may share a host; it then has several places.

    Raises:
        ChangeError: There is no such node, or a name is given twice.
    """
    places: dict[str, list[int]] = {}
    for place, name in enumerate(node_names(table.nodes)):
        places.setdefault(name, []).append(place)
    found: dict[str, list[int]] = {}
    for name in names:
        if name in found:
            raise ChangeError(f"the node {name!r} is given twice")
        if name not in places and is_spare(table, name):
            raise ChangeError(
                f"{name} is a spare and carries no rank; "
                f"ranktable spares FILE --remove {name} takes it out of the table"
            )
        if name not in places:
            raise ChangeError(_unknown(table, name, list(places)))
        found[name] = places[name]
    return [place for here in found.values() for place in here]


def find_node(table: RankTable, name: str) -> int:
    """Return the place of a node.

    Raises:
        ChangeError: There is no such node, or two have the name.
    """
    here = find_nodes(table, [name])
    if len(here) > 1:
        listed = " and ".join(map(str, here))
        raise ChangeError(f"the nodes {listed} are both named {name!r}")
    return here[0]


def _unknown(table: RankTable, name: str, names: Sequence[str]) -> str:
    there = {device.rank for node in table.nodes for device in node.devices}
    gaps = [rank for rank in range(table.rank_end) if rank not in there]
    if gaps:
        return (
            f"there is no node {name!r}; {counted(len(gaps), 'rank')} "
            f"({folded(gaps)}) {'is' if len(gaps) == 1 else 'are'} missing already, so "
            "if it was taken out of the file, leave it out here"
        )
    # n062 is not a misspelt n023, but n23 is: only equal numbers are near.
    close = [
        near
        for near in get_close_matches(name, names, n=len(names))
        if _numbers(near) == _numbers(name)
    ][:2]
    if close:
        return f"there is no node {name!r}; did you mean {' or '.join(close)}?"
    shown = ", ".join(names[:_SHOWN])
    more = len(names) - _SHOWN
    listed = f"{shown} and {more} more" if more > 0 else shown
    return f"there is no node {name!r}; the nodes are {listed}"


def _numbers(name: str) -> list[str]:
    return [number.lstrip("0") for number in re.findall(r"\d+", name)]


def named_table(table: RankTable) -> RankTable:
    """Return a table whose nodes without a host have their index as a host.

    The names let a change find the nodes again; ``unnamed_table`` removes them.
    """
    if all(node.host is not None for node in table.nodes):
        return table
    pairs = zip(table.nodes, node_names(table.nodes), strict=True)
    return table.with_changes(
        nodes=[structs.replace(node, host=name) for node, name in pairs]
    )


def unnamed_table(after: RankTable, before: RankTable) -> RankTable:
    """Return a table without the names that ``named_table`` gave to the first table."""
    given = {str(at) for at, node in enumerate(before.nodes) if node.host is None}
    if not given:
        return after

    def unnamed(nodes: Iterable[Node]) -> list[Node]:
        return [
            structs.replace(node, host=None) if node.host in given else node
            for node in nodes
        ]

    return with_spares(
        after.with_changes(nodes=unnamed(after.nodes)), unnamed(spares_of(after))
    )


def refuse_present(table: RankTable, host: str | None) -> None:
    """Raise ChangeError if a host is in the table already."""
    for place, other in enumerate(table.nodes):
        if other.host == host and host is not None:
            raise ChangeError(f"{host} is in the table already, as node {place}")


def with_chips_of(node: Node, host: str, *, name: str) -> Node:
    """Return a host of which only the name is known: it has the chips of a node.

    Extra keys and the super pod belong to the other host and are left out.

    Args:
        node: A node.
        host: Name of the new host.
        name: Name of the node, for a message.

    Raises:
        ChangeError: The chips have addresses, which belong to one host only.
    """
    if has_own_addresses(node):
        raise ChangeError(
            f"the chips of {name} have addresses, and those of {host} are not known; "
            "give its rank table or its line of ranktable probe as a file"
        )
    devices = tuple(structs.replace(device, extra={}) for device in node.devices)
    return structs.replace(node, host=host, devices=devices, extra={})


def has_own_addresses(node: Node) -> bool:
    """Whether chips of a node have addresses that no other host can have."""
    return any(_is_of_host(device) for device in node.devices)


def _is_of_host(device: Device) -> bool:
    """Whether a device has an address that no other host can have."""
    address = device.address
    if not address or device.is_emulated:
        return False
    return not (address.startswith("127.") or address == "::1")


# Chips


def left_of(
    table: RankTable,
    nodes: Collection[int] = (),
    ranks: Collection[int] = (),
    *,
    more: Collection[Node] = (),
) -> list[tuple[Device, ...]]:
    """Return the devices of every node, without lost nodes and ranks.

    Raises:
        ChangeError: There is no such rank, or nothing would be left, and there are no
            more nodes.
    """
    lost = set(ranks)
    unknown = lost - {device.rank for node in table.nodes for device in node.devices}
    if unknown:
        raise ChangeError(f"there is no rank {folded(sorted(unknown))} in the table")
    left = [
        ()
        if place in nodes
        else tuple(device for device in node.devices if device.rank not in lost)
        for place, node in enumerate(table.nodes)
    ]
    if not any(left) and not more:
        raise ChangeError("no node would be left")
    return left


def with_ranks(
    nodes: Sequence[Node],
    chips: Sequence[tuple[int, Device]],
    carriers: Sequence[int],
) -> tuple[list[Node], list[Node]]:
    """Return nodes with their new ranks, and the nodes and chips that have none.

    Args:
        nodes: The nodes.
        chips: Their chips, each with the place of its node.
        carriers: For every rank, which of the chips carries it.

    Returns:
        The nodes with a rank, in rank order, each with its chips in rank order too,
        because some readers number chips as they come; and those with chips without a
        rank, with these chips in their old order.
    """
    used: list[list[Device]] = [[] for _ in nodes]
    for rank, index in enumerate(carriers):
        place, device = chips[index]
        same = device.rank == rank
        used[place].append(device if same else structs.replace(device, rank=rank))
    carrying = set(carriers)
    idle: list[list[Device]] = [[] for _ in nodes]
    for index, (place, device) in enumerate(chips):
        if index not in carrying:
            idle[place].append(device)
    carried = _changed(nodes, used)
    carried.sort(key=lambda node: node.devices[0].rank)
    return carried, _changed(nodes, idle)


def _changed(nodes: Sequence[Node], devices: Sequence[list[Device]]) -> list[Node]:
    """Return the nodes that still have devices, with these devices."""
    pairs = zip(nodes, devices, strict=True)
    return [_with(node, own) for node, own in pairs if own]


def _with(node: Node, devices: list[Device]) -> Node:
    same = len(devices) == len(node.devices) and all(
        one is other for one, other in zip(devices, node.devices, strict=True)
    )
    return node if same else structs.replace(node, devices=tuple(devices))


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


# Spares


def spares_of(table: RankTable) -> list[Node]:
    """Return the spares of a table; the rank of a chip is its index in its spare.

    Raises:
        ChangeError: They do not have the form of nodes, or a chip is there twice.
    """
    listed = table.extra.get(SPARES_KEY, [])
    if not isinstance(listed, list):
        raise ChangeError(f"{SPARES_KEY} is not a list of nodes")
    spares = [_node(table, place, entry) for place, entry in enumerate(listed)]
    hosts = {spare.host for spare in spares} - {None}
    there = {
        (node.host, device.device_id)
        for node in table.nodes
        if node.host in hosts
        for device in node.devices
    }
    for place, spare in enumerate(spares):
        for device in spare.devices if spare.host else ():
            if (spare.host, device.device_id) in there:
                raise ChangeError(
                    f"{SPARES_KEY}[{place}] has chip {device.device_id} of "
                    f"{spare.host}, which is in the table already"
                )
            there.add((spare.host, device.device_id))
    return spares


def with_spares(table: RankTable, spares: Iterable[Node]) -> RankTable:
    """Return a table with these spares and no others."""
    format_ = by_name(table.format)
    entries: list[object] = []
    for node in spares:
        chips: list[object] = []
        for device in node.devices:
            key = "device_ip_emulator" if device.is_emulated else "device_ip"
            address = {} if device.address is None else {key: device.address}
            spelt = {"device_id": str(device.device_id), **address}
            chips.append({**spelt, **device.extra})
        host = {} if node.host is None else {format_.host_key: node.host}
        entries.append({**host, format_.devices_key: chips, **node.extra})
    extra = _without(table.extra, (SPARES_KEY,))
    if entries:
        extra[SPARES_KEY] = entries
    return table if extra == table.extra else table.with_changes(extra=extra)


def without_lost(table: RankTable, lost: Iterable[int]) -> RankTable:
    """Return a table without the spare chips of lost nodes.

    A node has spare chips if single chips of it were not needed in the layout.
    """
    gone = {table.nodes[place].host for place in lost} - {None}
    spares = spares_of(table)
    kept = [spare for spare in spares if spare.host not in gone]
    return table if len(kept) == len(spares) else with_spares(table, kept)


def add_spares(table: RankTable, nodes: Iterable[Node]) -> RankTable:
    """Return a table with more spares.

    Raises:
        ChangeError: One of them is in the table already, has an address of another
            node, or has no host.
    """
    found = spares_of(table)
    for node in nodes:
        refuse_present(table, node.host)
        if node.host is None:
            raise ChangeError("a spare needs a host as its name")
        if node.host in (spare.host for spare in found):
            raise ChangeError(f"{node.host} is a spare already")
        refuse_same_addresses([*table.nodes, *found], node)
        found.append(node)
    return with_spares(table, found)


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
        if holders.get(address, host) != host:
            raise ChangeError(
                f"{host} has the address {address}, which is one of {holders[address]}"
            )


def take_spare(table: RankTable, host: str) -> tuple[Node, RankTable]:
    """Return a spare, and the table without it.

    Raises:
        ChangeError: There is no such spare.
    """
    found = spares_of(table)
    for place, spare in enumerate(found):
        if spare.host == host:
            return spare, with_spares(table, [*found[:place], *found[place + 1 :]])
    named = ", ".join(node_names(found))
    known = f"the spares are: {named}" if named else "the table has none"
    raise ChangeError(f"there is no spare {host!r}; {known}")


def is_spare(table: RankTable, host: str) -> bool:
    """Whether a host is a spare of a table."""
    return any(spare.host == host for spare in spares_of(table))


def _node(table: RankTable, place: int, entry: object) -> Node:
    format_ = by_name(table.format)
    where = f"{SPARES_KEY}[{place}]"
    chips = entry.get(format_.devices_key) if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(chips, list) or not chips:
        raise ChangeError(f"{where} is not a node: it has no {format_.devices_key}")
    host = entry.get(format_.host_key)
    if host is not None and (not isinstance(host, str) or not host):
        raise ChangeError(f"{where} has a host that is not a name: {host!r}")
    devices = tuple(_device(rank, chip, where) for rank, chip in enumerate(chips))
    if len({device.device_id for device in devices}) < len(devices):
        raise ChangeError(f"{where} has a chip twice")
    known = (format_.host_key, format_.devices_key)
    return Node(devices=devices, host=host, extra=_without(entry, known))


def _device(rank: int, chip: object, where: str) -> Device:
    found = chip.get("device_id") if isinstance(chip, dict) else None
    number = plain_number(found)
    if not isinstance(chip, dict) or number is None or number < 0:
        raise ChangeError(
            f"{where} has a chip whose device_id is {found!r}, not a number"
        )
    emulated = chip.get("device_ip_emulator")
    address = emulated if emulated is not None else chip.get("device_ip")
    if address is not None and not isinstance(address, str):
        raise ChangeError(f"{where} has a chip whose address is {address!r}, not text")
    return Device(
        rank=rank,
        device_id=number,
        address=address or None,
        is_emulated=emulated is not None,
        extra=_without(chip, ("device_id", "device_ip", "device_ip_emulator")),
    )


def _without(
    members: Mapping[str, object], known: Collection[str]
) -> dict[str, object]:
    return {key: value for key, value in members.items() if key not in known}
