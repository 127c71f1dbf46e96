"""Super pods of a changed table of HCCL 1.2: which servers they list, and SDIDs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.layout.layout_errors import ChangeError
from ranktable.schema.declare import SUPER_POD_KEY
from ranktable.schema.super_pods import (
    PODS,
    pods_joined,
    pods_of,
    pods_renamed,
    pods_with,
    servers_of,
)
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ranktable.schema.model import Node, RankTable

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
