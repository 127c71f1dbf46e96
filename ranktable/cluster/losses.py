"""What the file of another format lacks, compared with the table it was made of.

The new file is read again and the two tables are compared, so that no pair of formats
needs code of its own.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ranktable.schema.diagnostic import counted, printable
from ranktable.schema.format import LAYOUT_KEY, SUPER_POD_KEY, TOPOLOGY_KEY
from ranktable.schema.formats import by_name, vllm_pd
from ranktable.schema.model import Device, Node, RankTable
from ranktable.schema.super_pods import PODS, pods_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.format import Format

POD_KEYS = (PODS, SUPER_POD_KEY)
_COUNTS = (
    *("device_num", "server_num", "cluster_id"),
    *("rank_id", "local_rank", "local_id", "device_id"),
    vllm_pd.ROLE,
)
"""Keys that repeat what the model has, besides those that end in ``_count``."""


def losses_beside_hosts(table: RankTable) -> list[str]:
    """Return what is lost if only hosts, chips and ranks of a table are kept.

    The layout and the topology of a table are not counted, because launchers do not
    use them.
    """
    bare = RankTable(
        nodes=[
            Node(
                host=node.host,
                devices=tuple(
                    Device(rank=d.rank, device_id=d.device_id) for d in node.devices
                ),
            )
            for node in table.nodes
        ]
    )
    own = (LAYOUT_KEY, TOPOLOGY_KEY)
    extra = {key: value for key, value in table.extra.items() if key not in own}
    return list(losses(table.with_changes(extra=extra), bare))


def losses(before: RankTable, after: RankTable) -> Iterator[str]:
    """Yield what the new table lacks, as texts.

    Args:
        before: The table that was converted.
        after: The table that was read from the new file.
    """
    source = by_name(before.format)
    yield from _lost_of_top(before, after, source)
    if set(before.hosts) - set(after.hosts) - {None}:
        yield "the names of the hosts"
    if _has_roles(before) and not _has_roles(after):
        yield "which devices prefill and which decode"
    pods = [pod for pod in pods_of(before) if pod is not None]
    if pods and not any(pods_of(after)):
        yield f"{SUPER_POD_KEY} of {counted(len(pods), 'node')}"
    nodes: Counter[str] = Counter()
    devices: Counter[str] = Counter()
    there = {d.rank: (node, d) for node in after.nodes for d in node.devices}
    for node in before.nodes:
        kept = there[node.devices[0].rank][0].extra
        nodes.update(key for key in node.extra if key not in kept)
        pairs = ((device, there[device.rank][1]) for device in node.devices)
        devices.update(key for one, other in pairs for key in _lost_of(one, other))
    for what, found in (("node", nodes), ("device", devices)):
        for key, number in found.items():
            if not _repeats(key, source):
                yield f"{printable(key)} of {counted(number, what)}"


def _has_roles(table: RankTable) -> bool:
    return any(node.group is not None for node in table.nodes)


def _lost_of_top(before: RankTable, after: RankTable, source: Format) -> Iterator[str]:
    """Yield the keys at the top that are lost, except a status of completed."""
    lists = {source.nodes_key, "prefill_device_list", "decode_device_list"}
    for key, value in before.extra.items():
        is_kept = key in after.extra or key in lists or value == "completed"
        if not is_kept and not _repeats(key, source):
            yield f"{printable(key)} of the table"
    groups = before.extra.get("group_list")
    if isinstance(groups, list) and "group_list" not in after.extra:
        of_groups = {key for group in groups for key in group}
        for key in sorted(of_groups.difference(*(n.extra for n in before.nodes))):
            yield f"{printable(key)} of {counted(len(groups), 'group')}"


def _lost_of(before: Device, after: Device) -> Iterator[str]:
    if before.device_id != after.device_id:
        yield "device_id"
    if before.address and before.address != after.address:
        is_first = before.address.split(",")[0] == after.address
        yield "further addresses" if is_first else "device_ip"
    yield from (key for key in before.extra if key not in after.extra)


def _repeats(key: str, source: Format) -> bool:
    """Whether a key repeats what the model has."""
    return repeats_a_count(key) or key in POD_KEYS or key == source.host_key


def repeats_a_count(key: str) -> bool:
    """Whether a key is a count or another number that the model has."""
    return key.endswith("_count") or key in _COUNTS
