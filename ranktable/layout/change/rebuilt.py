"""Nodes whose chips have other ranks than before, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.layout.layout_errors import ChangeError
from ranktable.schema.diagnostic import counted, folded
from ranktable.schema.format import SUPER_POD_KEY
from ranktable.schema.super_pods import (
    PODS,
    objects,
    pods_joined,
    pods_of,
    pods_renamed,
    pods_with,
    servers_of,
)

SUPER_ID_KEY = "super_device_id"
"""The key of a chip's SDID, which HCCL uses within a super pod."""

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ranktable.schema.model import Device, Node, RankTable


def left_of(
    table: RankTable, nodes: Collection[int] = (), ranks: Collection[int] = ()
) -> list[tuple[Device, ...]]:
    """Return the devices of every node, without lost nodes and ranks.

    Raises:
        ChangeError: There is no such rank, or nothing would be left.
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
    if not any(left):
        raise ChangeError("no node would be left")
    return left


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


def with_pods(table: RankTable, nodes: Sequence[Node]) -> list[Node]:
    """Return nodes that leave a table, with the names of their super pods.

    A spare can join its super pod again by this name; the table lists no server that
    has no ranks.
    """
    pod_of = {
        str(server.get("server_id")): str(pod.get(SUPER_POD_KEY))
        for pod in objects(table.extra.get(PODS))
        for server in objects(pod.get("server_list"))
    }
    pods = [pod_of.get(node.host or "") for node in nodes]
    return [
        structs.replace(node, extra={**node.extra, SUPER_POD_KEY: pod}) if pod else node
        for node, pod in zip(nodes, pods, strict=True)
    ]


def _podless(node: Node) -> Node:
    """Return a node without the name of its super pod, which the table lists."""
    if SUPER_POD_KEY not in node.extra:
        return node
    extra = {key: value for key, value in node.extra.items() if key != SUPER_POD_KEY}
    return structs.replace(node, extra=extra)


def with_ranks(
    nodes: Sequence[Node],
    chips: Sequence[tuple[int, Device]],
    carriers: Sequence[int],
) -> tuple[list[Node], list[Node]]:
    """Return nodes with their new ranks, and the nodes and chips that have none.

    Args:
        nodes: The nodes.
        chips: Their chips, as ``chips_of`` lists them.
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
    """
    found: list[Node] = []
    places: dict[str, int] = {}
    for node in nodes:
        is_apart = node.host is None or node.host in apart
        place = None if is_apart else places.get(str(node.host))
        if place is None:
            if node.host is not None:
                places[node.host] = len(found)
            found.append(node)
            continue
        devices = (*found[place].devices, *node.devices)
        ids = [device.device_id for device in devices]
        if len(set(ids)) < len(ids):
            raise ChangeError(f"{node.host} has a chip twice")
        ordered = tuple(sorted(devices, key=lambda device: device.rank))
        found[place] = structs.replace(found[place], devices=ordered)
    return found
