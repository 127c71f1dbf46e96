"""Spare nodes: a table lists them without ranks, to replace other nodes later.

The key ``spare_list`` has them, in the form of nodes but without ranks. Libraries do
not read this key, so a spare does not change a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.layout.change.names import named, node_names, number_of, unnamed
from ranktable.layout.layout_errors import ChangeError
from ranktable.schema.format import SPARES_KEY as KEY
from ranktable.schema.format import STANDS_IN_KEY, plain_number
from ranktable.schema.formats import by_name
from ranktable.schema.model import Device, Node

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ranktable.schema.model import RankTable


def spares_of(table: RankTable) -> list[Node]:
    """Return the spares of a table; the rank of a chip is its index in its spare.

    Raises:
        ChangeError: They do not have the form of nodes.
    """
    listed = table.extra.get(KEY, [])
    if not isinstance(listed, list):
        raise ChangeError(f"{KEY} is not a list of nodes")
    return [_node(table, place, entry) for place, entry in enumerate(listed)]


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
        known = _without(node.extra, (STANDS_IN_KEY,))
        entries.append({**host, format_.devices_key: chips, **known})
    extra = {key: value for key, value in table.extra.items() if key != KEY}
    return table.with_changes(extra={**extra, KEY: entries} if entries else extra)


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
        ChangeError: One of them is in the table already, or has no host.
    """
    found = spares_of(table)
    for node in nodes:
        refuse_present(table, node.host)
        if node.host is None:
            raise ChangeError("a spare needs a host as its name")
        refuse_spare(found, node.host)
        found.append(node)
    return with_spares(table, found)


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


def named_table(table: RankTable) -> RankTable:
    """Return a table whose nodes without a host have their number as a host.

    The names let a change find the nodes again, also a spare that was such a node;
    ``unnamed_table`` removes them.
    """
    if any(node.host is None for node in table.nodes):
        pairs = zip(table.nodes, node_names(table.nodes), strict=True)
        table = table.with_changes(nodes=[named(node, name) for node, name in pairs])
    spares = spares_of(table)
    numbers = [spare.host or number_of(spare) for spare in spares]
    if numbers == [spare.host for spare in spares]:
        return table
    known = [
        named(spare, name) if name else spare
        for spare, name in zip(spares, numbers, strict=True)
    ]
    return with_spares(table, known)


def unnamed_table(after: RankTable, before: RankTable) -> RankTable:
    """Return a table without the names that ``named_table`` gave."""
    pairs = zip(node_names(before.nodes), before.nodes, strict=True)
    given = {name for name, node in pairs if node.host is None}
    given |= {
        number
        for spare in spares_of(before)
        if spare.host is None and (number := number_of(spare))
    }
    if not given:
        return after
    nodes = [
        unnamed(node, place) if node.host in given else node
        for place, node in enumerate(after.nodes)
    ]
    spares = [
        unnamed(spare, None) if spare.host in given else spare
        for spare in spares_of(after)
    ]
    return with_spares(after.with_changes(nodes=nodes), spares)


def standing_in(before: RankTable, nodes: Iterable[Node]) -> list[Node]:
    """Return nodes in which each former spare names the node that it replaces.

    That is a node of the old table with exactly these ranks that is no longer there.
    """
    after = list(nodes)
    there = {node.host for node in after}
    gone = {_ranks(node): node.host for node in before.nodes if node.host not in there}
    waiting = {spare.host for spare in spares_of(before)} if gone else set()
    found = []
    for node in after:
        old = gone.get(_ranks(node)) if node.host in waiting else None
        known = {} if old is None else {STANDS_IN_KEY: old}
        found.append(
            structs.replace(node, extra={**node.extra, **known}) if known else node
        )
    return found


def _ranks(node: Node) -> frozenset[int]:
    return frozenset(device.rank for device in node.devices)


def is_spare(table: RankTable, host: str) -> bool:
    """Whether a host is a spare of a table."""
    return any(spare.host == host for spare in spares_of(table))


def refuse_present(table: RankTable, host: str | None) -> None:
    """Raise ChangeError if a host is in the table already."""
    if host is None:
        return
    for place, other in enumerate(table.nodes):
        if other.host == host:
            raise ChangeError(f"{host} is in the table already, as node {place}")


def refuse_spare(spares: Iterable[Node], host: str) -> None:
    """Raise ChangeError if a host is among some spares."""
    if host in (spare.host for spare in spares):
        raise ChangeError(f"{host} is a spare already")


def _node(table: RankTable, place: int, entry: object) -> Node:
    format_ = by_name(table.format)
    where = f"{KEY}[{place}]"
    chips = entry.get(format_.devices_key) if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(chips, list) or not chips:
        raise ChangeError(f"{where} is not a node: it has no {format_.devices_key}")
    host = entry.get(format_.host_key)
    if host is not None and (not isinstance(host, str) or not host):
        raise ChangeError(f"{where} has a host that is not a name: {host!r}")
    devices = tuple(_device(rank, chip, where) for rank, chip in enumerate(chips))
    ids = [device.device_id for device in devices]
    if len(set(ids)) < len(ids):
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


def _without(members: dict[str, object], known: Collection[str]) -> dict[str, object]:
    return {key: value for key, value in members.items() if key not in known}
