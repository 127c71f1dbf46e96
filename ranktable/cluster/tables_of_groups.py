"""The groups of a table of groups (server-groups), each as a rank table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.splitting import file_names
from ranktable.schema.check import loads
from ranktable.schema.diagnostic import printable
from ranktable.schema.format import plain_number
from ranktable.schema.model import RankTable
from ranktable.schema.super_pods import PODS, pods_with
from ranktable.schema.writing import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.schema.model import Device, Node

GROUPED = "server-groups"
SERVERS = "server_list"
_LIST = "server_group_list"


def tables_of(table: RankTable) -> dict[str, RankTable]:
    """Return the tables of all groups by name; for other tables, the table itself.

    Ranks stay the same. If they begin at 0 in every server of a group, every server is
    a table.

    Raises:
        ArgumentError: A group has the name of another group's server, such as 2-0.
    """
    if table.format != GROUPED:
        return {"": table}
    groups: dict[str, list[Node]] = {}
    for node in table.nodes:
        if node.devices:
            groups.setdefault(str(node.group), []).append(node)
    found: dict[str, RankTable] = {}
    owners: dict[str, str] = {}
    for name, nodes in groups.items():
        for key, chosen in _jobs_of(name, nodes).items():
            other = owners.setdefault(key, name)
            if other != name:
                raise ArgumentError(
                    f"the groups {printable(other)} and {printable(name)} would both "
                    f"have a table with the name {printable(key)}",
                    hint="give one of them another group_id",
                )
            found[key] = _part(table, name, chosen)
    return found


def _jobs_of(group: str, nodes: list[Node]) -> dict[str, list[Node]]:
    """Return the nodes of each job of a group: all of them, or each separately."""
    ranks = [device.rank for node in nodes for device in node.devices]
    if len(set(ranks)) == len(ranks):
        return {f"group-{group}": nodes}
    return {f"group-{group}-{place}": [node] for place, node in enumerate(nodes)}


def _part(table: RankTable, group: str, nodes: list[Node]) -> RankTable:
    """Return nodes of a group as a table of version 1.2, or 1.0 without super pods."""
    extra = dict(table.extra)
    document: Any = table.document
    for one in document[_LIST]:
        if str(one.get("group_id")) == group and PODS in one:
            hosts = {node.host for node in nodes}
            extra[PODS] = pods_with(one[PODS], hosts)
    ordered = sorted(nodes, key=lambda node: node.devices[0].rank)
    return RankTable(
        nodes=[structs.replace(node, group=None) for node in ordered],
        version="1.2" if PODS in extra else "1.0",
        format="hccl-1.2" if PODS in extra else "hccl-1.0",
        extra=extra,
    )


def written_tables_of(table: RankTable) -> dict[str, RankTable]:
    """Return the tables of the groups in the form of HCCL: one server for each host.

    Several pods of a group may be on one host. Ranks stay the same.

    Raises:
        ArgumentError: As ``tables_of``.
    """
    parts = tables_of(table)
    if table.format == GROUPED:
        parts = {name: _with_whole_hosts(part) for name, part in parts.items()}
    return parts


def _with_whole_hosts(table: RankTable) -> RankTable:
    by_host: dict[str | None, list[Node]] = {}
    for node in table.nodes:
        by_host.setdefault(node.host, []).append(node)
    nodes = []
    for same in by_host.values():
        devices = sorted(
            (device for node in same for device in node.devices),
            key=lambda device: device.rank,
        )
        nodes.append(structs.replace(same[0], devices=tuple(devices)))
    return table.with_changes(nodes=nodes)


def group_of(table: RankTable, name: str | None) -> tuple[str, RankTable]:
    """Return the name and the table of one group; if there is only one, name is None.

    Args:
        table: A table of groups.
        name: ``2`` or ``group-2``.

    Raises:
        ArgumentError: There is no such group, or name is None and there are several.
    """
    parts = tables_of(table)
    names = ", ".join(printable(key.removeprefix("group-")) for key in parts)
    if name is not None:
        for key in (name, f"group-{name}"):
            if key in parts:
                return key, parts[key]
        raise ArgumentError(
            f"there is no group {printable(name)} with devices; there are: {names}"
        )
    if len(parts) == 1:
        return next(iter(parts.items()))
    if not parts:
        raise ArgumentError("no group has devices")
    raise ArgumentError(
        f"the ranks begin at 0 in each of the groups {names}",
        hint="take one with --server-group NAME, or write each to a file of its own "
        "with ranktable split --by group",
    )


def with_group(whole: RankTable, name: str, changed: RankTable) -> RankTable:
    """Return a table of groups in which one group has changed.

    Args:
        whole: The table of groups.
        name: Name of the group, as ``group_of`` returns it.
        changed: The table of this group after the change.

    Raises:
        ArgumentError: The name is that of one server in a group.
        RankTableError: The table would not be sound.
    """
    document: Any = whole.document
    listed = document[_LIST]
    number = name.removeprefix("group-")
    if all(str(group["group_id"]) != number for group in listed):
        raise ArgumentError(
            f"{printable(name)} is one server of a group, which is not written back",
            hint="ranktable split --by group writes it to a file of its own",
        )
    groups = [
        _changed(group, changed) if str(group["group_id"]) == number else group
        for group in listed
    ]
    data = encode({**document, _LIST: groups})
    return loads(whole.wrapper.with_table(data) if whole.wrapper else data)


def _changed(group: dict[str, Any], table: RankTable) -> dict[str, Any]:
    """Return the plain data of a group with other nodes, and servers without chips."""
    servers = _servers(group["server_list"], table.nodes)
    found = {**group, "server_list": servers}
    if "server_count" in group:
        as_before = type(group["server_count"])
        found["server_count"] = as_before(len(servers))
    if PODS in group:
        found[PODS] = table.extra.get(PODS, [])
    return found


def server_with_ranks(server: dict[str, Any], node: Node) -> dict[str, Any]:
    """Return the plain data of a server whose devices have the ranks of a node."""
    ranks: dict[int | None, Device] = {one.device_id: one for one in node.devices}
    if not ranks:
        return server
    chips: list[Any] = [plain_number(one["device_id"]) for one in server["device"]]
    devices = [
        _device(ranks[chip], one)
        for chip, one in zip(chips, server["device"], strict=True)
    ]
    return {**server, "device": devices}


def _servers(
    before: list[dict[str, Any]], nodes: Sequence[Node]
) -> list[dict[str, Any]]:
    """Return the servers of nodes, each at its old place and in its old form."""
    found = []
    of_host: dict[str | None, dict[int, Node]] = {}
    for place, node in enumerate(nodes):
        of_host.setdefault(node.host, {})[place] = node
    for server in before:
        chips = {
            plain_number(one["device_id"]): one for one in server.get("device") or ()
        }
        here = of_host.get(server.get("server_id") or server.get("server_ip"), {})
        same = [
            place
            for place, node in here.items()
            if any(one.device_id in chips for one in node.devices)
        ]
        if same:
            devices = here.pop(same[0]).devices
            written = [_device(one, chips.get(one.device_id)) for one in devices]
            found.append({**server, "device": written})
        elif not chips:
            found.append(server)
    by_address = not any("server_id" in server for server in before)
    left = sorted(place for here in of_host.values() for place in here)
    return found + [_new_server(nodes[at], by_address=by_address) for at in left]


def _new_server(node: Node, *, by_address: bool) -> dict[str, Any]:
    host = {} if by_address else {"server_id": node.host}
    return {**host, **node.extra, "device": [_device(one) for one in node.devices]}


def _device(device: Device, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the plain data of a device; only its rank may have changed."""
    if before is not None:
        as_before = type(before["rank_id"])
        return {**before, "rank_id": as_before(device.rank)}
    return {
        "device_id": str(device.device_id),
        **({"device_ip": device.address} if device.address else {}),
        **device.extra,
        "rank_id": str(device.rank),
    }


def split_groups_by_node(table: RankTable) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of a file for every server: its group with only this server.

    Ranks stay the same; merge joins the files again.
    """
    document: Any = table.document
    names = iter(file_names(table))
    for group in document[_LIST]:
        for server in group["server_list"]:
            part = {**group, "server_list": [server]}
            if "server_count" in group:
                part["server_count"] = type(group["server_count"])(1)
            if PODS in group:
                part[PODS] = pods_with(group[PODS], {server.get("server_id")})
            yield next(names), encode({**document, _LIST: [part]})
