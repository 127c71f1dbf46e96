"""RT213 to RT215 and RT271 to RT276: what Ascend's HCCL 1.x requires of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Rule, Severity
from ranktable.schema.rules.nodes import REACHABLE, addresses_of
from ranktable.schema.rules.ranks import is_permutation
from ranktable.schema.super_pods import PODS
from ranktable.schema.text import counted, folded, quoted
from ranktable.schema.values import UNSET_ADDRESS, is_device_address, is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ranktable.schema.columns import Columns
    from ranktable.schema.document import Path
    from ranktable.schema.finding import Finding
    from ranktable.schema.options import Options

COMPLETED = "completed"
ADDRESS = "device_ip"
OF_SUPER_PODS = "hccl-1.2"
"""The format with a list of super pods and their servers."""

_BACKUP = "backup_device_ip"
MAX_NAME, _MANUAL_LENGTH = 127, 64
"""Most characters of a name that HCCL takes, and that its manual allows."""


def _not_completed(columns: Columns, _: Options) -> Iterator[Finding]:
    status = columns.top.get("status")
    if isinstance(status, str) and status != COMPLETED:
        yield NOT_COMPLETED.finding(
            SourceSpan(("status",)),
            f'status is {quoted(status)}; HCCL waits until it is "completed"',
            hint="wait for the operator that writes the table, or correct the word",
        )


def _duplicate_addresses(
    columns: Columns, _: Options
) -> Iterable[tuple[int, int, str]]:
    """Yield each device that has the address of another one, that one, the address."""
    if not columns.once(addresses_of).are_repeated:
        return
    first_use: dict[str, int] = {}
    for index, text in enumerate(columns.addresses):
        parts = text.split(",") if text is not None else []
        for address in filter(is_device_address, parts):  # others are RT211
            first = first_use.setdefault(address, index)
            if first != index or parts.count(address) > 1:
                yield index, first, address
                break


def _duplicate_address(columns: Columns, place: tuple[int, int, str]) -> Finding:
    index, first, address = place
    keys = columns.format.address_keys
    return DUPLICATE_ADDRESS.finding(
        columns.span(index, keys),
        f"{quoted(address)} is the address of {columns.name(first)} and of "
        f"{columns.name(index)}",
        hint="hccn_tool -i N -ip -g prints the address of device N",
        related=(columns.span(first, keys, label="first use"),),
    )


def _interleaved(columns: Columns, _: Options) -> Iterator[list[int]]:
    """Yield the first server or super pod with ranks of others between its own."""
    if not columns.once(is_permutation):
        return  # missing and repeated ranks have rules of their own
    of_pods: dict[str, list[int]] = {}
    pods = pod_of_servers(columns)
    for node, host in enumerate(columns.hosts if pods else ()):
        of_pods.setdefault(pods.get(host or "", f"no pod {node}"), []).append(node)
    groups = [*of_pods.values()]
    if not columns.are_ranks_in_file_order():
        groups = [[node] for node in range(columns.num_nodes)] + groups
    for nodes in groups:
        ranks: list[Any] = []
        for node in nodes:
            ranks += columns.ranks[columns.starts[node] : columns.starts[node + 1]]
        if ranks and max(ranks) - min(ranks) >= len(ranks):
            yield nodes
            return


def _interleaving(columns: Columns, nodes: list[int]) -> Finding:
    what = "node" if len(nodes) == 1 else "the super pod of nodes"
    return INTERLEAVED.finding(
        columns.devices_span(nodes[0]),
        f"other servers have ranks between those of {what} {folded(nodes)}",
        hint="number the devices server by server, and pod by pod",
    )


def pods_of(columns: Columns) -> Iterator[tuple[str, Path, list[tuple[str, Path]]]]:
    """Yield the id of each pod and of each of its servers, with their paths."""
    pods = columns.top.get(PODS)
    for place, pod in enumerate(pods if isinstance(pods, list) else ()):
        name = pod.get("super_pod_id") if isinstance(pod, dict) else None
        servers = pod.get("server_list") if isinstance(pod, dict) else None
        listed = servers if isinstance(servers, list) else []
        path: Path = (PODS, place)
        yield (
            name if isinstance(name, str) else "",
            (*path, "super_pod_id"),
            [
                (server["server_id"], (*path, "server_list", at, "server_id"))
                for at, server in enumerate(listed)
                if isinstance(server, dict) and isinstance(server.get("server_id"), str)
            ],
        )


def pod_of_servers(columns: Columns) -> dict[str, str]:
    """Return the first pod of every server that is in a pod."""
    found: dict[str, str] = {}
    for pod, _, servers in pods_of(columns):
        for server, _ in servers:
            found.setdefault(server, pod)
    return found


def num_pods(columns: Columns) -> int:
    """Return how many super pods a table names."""
    pods = columns.top.get(PODS)
    return len(pods) if isinstance(pods, list) else 0


class _Unreachable(NamedTuple):
    """A device without an address, or nodes none of whose devices has one."""

    device: int | None
    nodes: list[int]
    is_of_a3: bool


def _missing_addresses(columns: Columns, options: Options) -> Iterable[_Unreachable]:
    """Yield the devices that other servers cannot reach, whole servers together."""
    if columns.num_nodes == 1 or not columns.once(addresses_of).num_without:
        return
    pods = num_pods(columns) if columns.format.name == OF_SUPER_PODS else 0
    if pods == 1:
        return  # inside a super pod the chips have other links
    is_of_a3 = columns.format.name == OF_SUPER_PODS or options.npu == "A3"
    hosts = columns.optional.get("host_ip", [])
    without: list[int] = []
    for node, start, end in columns.nodes():
        host = hosts[node] if hosts else None
        is_host_known = host and host != UNSET_ADDRESS
        if is_host_known and options.npu != "A2" and pods <= 1:
            continue
        lacking = [
            index
            for index in range(start, end)
            if columns.addresses[index] is None and not columns.is_given(index, ADDRESS)
        ]
        if len(lacking) == end - start:
            without.append(node)
        elif lacking:
            yield _Unreachable(lacking[0], [node], is_of_a3)
    if without:
        yield _Unreachable(None, without, is_of_a3)


def _missing_address(columns: Columns, place: _Unreachable) -> Finding:
    device, nodes, _ = place
    if device is not None:
        span = SourceSpan(columns.device_path(device))
        who = f"{columns.name(device)} has"
    else:
        span = columns.devices_span(nodes[0])
        unit = "node" if len(nodes) == 1 else "the nodes"
        who = f"the devices of {unit} {folded(nodes)} have"
    return MISSING_ADDRESS.finding(
        span,
        f"{who} no device_ip, and there are {columns.num_nodes} servers",
        hint="hccn_tool -i N -ip -g prints the address of device N",
        related=tuple(map(columns.devices_span, nodes[1:])),
    )


def _weight_of_missing(_: Columns, place: _Unreachable) -> Severity:
    return Severity.WARNING if place.is_of_a3 else Severity.ERROR


def _unequal_addresses(columns: Columns, _: Options) -> Iterable[tuple[int, int, int]]:
    """Yield each device with an unusual number of addresses, this and the usual one."""
    known, num_devices = columns.once(addresses_of), columns.num_devices
    are_alike = known.num_without in (0, num_devices) or columns.num_nodes > 1
    if not known.is_joined and are_alike:
        return  # a missing address on one of several servers is RT271
    # An empty part is a bad address, RT211, and does not count.
    counts = [
        0 if text is None else len(text.strip(",").split(","))
        for text in columns.addresses
    ]
    usual = max(sorted(set(counts) - {0}), key=counts.count)
    for index, count in enumerate(counts):
        if count != usual and (count or columns.num_nodes == 1):
            yield index, count, usual


def _unequal_address(columns: Columns, place: tuple[int, int, int]) -> Finding:
    index, count, usual = place
    return UNEQUAL_ADDRESSES.finding(
        columns.span(index, columns.format.address_keys),
        f"{columns.name(index)} has {counted(count, 'address', 'addresses')}; others "
        f"have {usual}",
        hint="give every device the same number of addresses",
    )


def _mixed_families(columns: Columns, _: Options) -> Iterable[tuple[int, int]]:
    """Yield the first device with an address, and the first one of another family."""
    if not columns.once(addresses_of).have_ipv6:
        return
    families = [None if text is None else ":" in text for text in columns.addresses]
    if {True, False} <= {*families}:
        yield tuple(sorted((families.index(True), families.index(False))))  # type: ignore[misc]


def _mixed_family(columns: Columns, place: tuple[int, int]) -> Finding:
    first, other = place
    keys = columns.format.address_keys
    is_ipv6 = ":" in (columns.addresses[other] or "")
    own, usual = ("IPv6", "IPv4") if is_ipv6 else ("IPv4", "IPv6")
    return MIXED_FAMILIES.finding(
        columns.span(other, keys),
        f"{columns.name(other)} has an {own} address, and {columns.name(first)} an "
        f"{usual} one",
        related=(columns.span(first, keys, label="the other"),),
    )


def _weight_of_families(columns: Columns, _: tuple[int, int]) -> Severity:
    # HCCL compares them if there are several servers.
    return Severity.WARNING if columns.num_nodes == 1 else Severity.ERROR


def _long_names(columns: Columns, _: Options) -> Iterable[int]:
    """Yield the nodes with a name that HCCL takes and the manual does not allow."""
    for node, host in enumerate(columns.hosts):
        if _MANUAL_LENGTH < len(host or "") <= MAX_NAME:
            yield node


def _long_name(columns: Columns, node: int) -> Finding:
    length = len(columns.hosts[node] or "")
    return LONG_NAME.finding(
        SourceSpan((*columns.node_path(node), columns.format.host_key)),
        f"the server_id of node {node} has {length} characters; the manual allows "
        f"{_MANUAL_LENGTH}",
    )


def _loopbacks(columns: Columns, _: Options) -> Iterable[int]:
    hosts = columns.hosts
    for node, host in enumerate(hosts):
        if not is_loopback(host) or hosts.count(host) > 1:
            continue  # RT212 reports an address that is there twice
        is_unusual = columns.format.is_hccl_1 and host not in ("127.0.0.1", "localhost")
        if len(hosts) > 1 or is_unusual:
            yield node


def _loopback(columns: Columns, node: int) -> Finding:
    return LOOPBACK.finding(
        SourceSpan((*columns.node_path(node), columns.format.host_key)),
        f"node {node} is {quoted(columns.hosts[node])}, an address that every host has",
        hint=REACHABLE,
    )


def _backups(columns: Columns, _: Options) -> Iterable[int]:
    """Yield each device whose backup is its own address."""
    for index, backup in enumerate(columns.optional.get(_BACKUP, ())):
        if backup and backup in (columns.addresses[index] or "").split(","):
            yield index


def _backup(columns: Columns, index: int) -> Finding:
    return BACKUP_IS_SELF.finding(
        SourceSpan((*columns.device_path(index), _BACKUP)),
        f"backup_device_ip of {columns.name(index)} is its own address",
        hint="write the address of the other die of the same NPU",
    )


NOT_COMPLETED = Rule(
    code="RT213",
    name="not-completed",
    summary="the status of the table is not completed",
    fix="Wait for the operator (ranktable wait), or write completed.",
    find=_not_completed,
)
DUPLICATE_ADDRESS = Rule(
    code="RT214",
    name="duplicate-address",
    summary="two devices have the same address",
    fix="Write the address of each device, as /etc/hccn.conf has it.",
    find=_duplicate_addresses,
    tell=_duplicate_address,
)
INTERLEAVED = Rule(
    code="RT215",
    name="interleaved-servers",
    severity=Severity.WARNING,
    summary="the ranks of servers or of super pods are mixed",
    fix="Number the devices server by server, and pod by pod.",
    find=_interleaved,
    tell=_interleaving,
)
MISSING_ADDRESS = Rule(
    code="RT271",
    name="missing-address",
    summary="devices of several servers have no device_ip",
    fix="Write the address of each device, as /etc/hccn.conf has it.",
    find=_missing_addresses,
    tell=_missing_address,
    severity_of=_weight_of_missing,
)
UNEQUAL_ADDRESSES = Rule(
    code="RT272",
    name="unequal-addresses",
    summary="devices have different numbers of addresses",
    fix="Give every device the same number of addresses.",
    find=_unequal_addresses,
    tell=_unequal_address,
)
MIXED_FAMILIES = Rule(
    code="RT273",
    name="mixed-families",
    summary="some devices have IPv4 addresses and others IPv6",
    fix="Write addresses of one family.",
    find=_mixed_families,
    tell=_mixed_family,
    severity_of=_weight_of_families,
)
LONG_NAME = Rule(
    code="RT275",
    name="long-server-id",
    severity=Severity.WARNING,
    summary="a server_id is longer than the manual allows",
    fix="Write a shorter name; it does not have to be an address.",
    find=_long_names,
    tell=_long_name,
)
LOOPBACK = Rule(
    code="RT276",
    name="loopback-server",
    severity=Severity.WARNING,
    summary="the host of a node is an address or name that every host has",
    fix="Write the address of the host, or any name that no other host has.",
    find=_loopbacks,
    tell=_loopback,
)
BACKUP_IS_SELF = Rule(
    code="RT277",
    name="backup-is-self",
    severity=Severity.WARNING,
    summary="the backup address of a device is its own",
    fix="Write the device_ip of the other die.",
    find=_backups,
    tell=_backup,
)

RULES = (
    NOT_COMPLETED,
    DUPLICATE_ADDRESS,
    INTERLEAVED,
    MISSING_ADDRESS,
    UNEQUAL_ADDRESSES,
    MIXED_FAMILIES,
    LONG_NAME,
    LOOPBACK,
    BACKUP_IS_SELF,
)
