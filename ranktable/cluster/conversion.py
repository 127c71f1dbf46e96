"""Convert rank tables from one format to another, and say what is lost.

A format has hosts, chips, ranks and addresses, and keys of its own. The conversion adds
what the other format needs, and removes what it cannot express. The new file is read
again and compared, so that no pair of formats has code of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ranktable.cluster.argument import ArgumentError
from ranktable.schema.check import IN_MEMORY, WRAPPED, check_bytes
from ranktable.schema.config_map import new_config_map
from ranktable.schema.declare import SPARES_KEY, SUPER_POD_KEY
from ranktable.schema.formats import by_name
from ranktable.schema.model import Device, Node, RankTable
from ranktable.schema.report import Options
from ranktable.schema.super_pods import PODS
from ranktable.schema.text import counted, folded, named_ranks, printable
from ranktable.schema.writing import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.schema.declare import Format
    from ranktable.schema.finding import RankTableError

HCCL_1_0, HCCL_1_2 = "hccl-1.0", "hccl-1.2"
WRITTEN = ("sccl-1.0", HCCL_1_0, HCCL_1_2, WRAPPED)
"""Formats that can be written from a table of another format."""

SUPER_DEVICE = "super_device_id"
MAX_CONFIG_MAP_BYTES = 1 << 20
"""Kubernetes refuses a larger ConfigMap."""

_OPTIONS = {
    "super_device_ids": ("--super-device-id", (HCCL_1_2,)),
    "pods": ("--pods", (HCCL_1_2,)),
}
"""The option of each value, and the formats that use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Values that one format needs and another one lacks.

    Attributes:
        device_ips: Address of every device, in the order of nodes and ranks.
        super_device_ids: ``super_device_id`` of every device, in the same order.
        pods: Super pod of every server, or one for all.
    """

    device_ips: Sequence[Sequence[str]] | None = None
    super_device_ids: Sequence[str] | None = None
    pods: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A table of another format.

    Attributes:
        data: The bytes of its file.
        losses: What the new file lacks, as texts.
    """

    data: bytes
    losses: tuple[str, ...] = ()


def convert_table(
    table: RankTable, to: str, options: TableOptions | None = None
) -> Conversion:
    """Return a table in another format, and what the new file lacks.

    Args:
        table: A sound table whose ranks are those of one job.
        to: Name of the format.
        options: Values that the format needs and the table lacks.

    Raises:
        ArgumentError: There is no such format, it cannot be written, or a value that it
            needs is missing; the hint names the option of ``ranktable convert``.
        RankTableError: The table would not be sound in that format.
    """
    options = options or TableOptions()
    if to == WRAPPED:
        return _wrapped(table, options)
    _refuse_others(options, to)
    if to == table.format and options == TableOptions():
        return Conversion(data=dumps(table, format=to))
    try:
        target = by_name(to)
    except ValueError as error:
        raise ArgumentError(str(error)) from None
    if to not in WRITTEN:
        raise ArgumentError(
            f"{to} cannot be written from a table of another format",
            hint=f"{', '.join(WRITTEN)} can",
        )
    given = _with_given(table, options)
    if to != DEFAULT_TARGET:
        _refuse_incomplete(given, to)
    data = dumps(_expressed(given, target), format=to)
    judged = Options(format=target, is_table_wanted=True)
    written = check_bytes(data, judged, file=IN_MEMORY).table
    assert written is not None
    before = table if options.device_ips is None else given
    return Conversion(data=data, losses=tuple(losses(before, written)))


DEFAULT_TARGET = WRITTEN[0]


def _wrapped(table: RankTable, options: TableOptions) -> Conversion:
    """Return the ConfigMap with a table.

    Raises:
        ArgumentError: Kubernetes would refuse it.
    """
    inner = convert_table(table, table.format, options)
    data = new_config_map(inner.data, table.format)
    if len(data) > MAX_CONFIG_MAP_BYTES:
        raise ArgumentError(
            f"the ConfigMap would have {len(data) / MAX_CONFIG_MAP_BYTES:.1f} MiB, and "
            "Kubernetes takes 1 MiB at most",
            hint="put the table itself on a volume that every pod mounts",
        )
    return Conversion(data=data, losses=inner.losses)


def with_servers(
    table: RankTable, names: Sequence[str], option: str = "--server-id"
) -> RankTable:
    """Return a table whose nodes have other hosts, in the same super pods.

    Args:
        table: The table.
        names: The hosts, in the order of the nodes.
        option: What gave them, for errors.

    Raises:
        ArgumentError: There are too few or too many names, or one occurs twice.
    """
    _refuse_count(option, names, table.num_nodes)
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ArgumentError(f"the host {printable(twice[0])} is given twice")
    nodes = [
        structs.replace(node, host=name)
        for node, name in zip(table.nodes, names, strict=True)
    ]
    return table.with_changes(nodes=nodes)


def _refuse_others(options: TableOptions, to: str) -> None:
    """Raise ArgumentError for an option that the format does not use."""
    for name, (option, targets) in _OPTIONS.items():
        if getattr(options, name) is not None and to not in targets:
            raise ArgumentError(f"{to} does not use {option}")


def _refuse_count(option: str, given: Sequence[object], wanted: int) -> None:
    if len(given) != wanted:
        unit = "device" if option == "--super-device-id" else "server"
        raise ArgumentError(
            f"{option} has {counted(len(given), 'value')} for {counted(wanted, unit)}"
        )


def _with_given(table: RankTable, options: TableOptions) -> RankTable:
    """Return the table with the values of the options."""
    pods = list(options.pods or (node.super_pod for node in table.nodes))
    if len(pods) == 1:
        pods *= table.num_nodes
    _refuse_count("--pods", pods, table.num_nodes)
    supers = options.super_device_ids
    if supers is not None:
        _refuse_count("--super-device-id", supers, table.world_size)
    nodes = []
    index = 0
    for place, node in enumerate(table.nodes):
        devices = []
        for at, device in enumerate(node.devices):
            changes: dict[str, Any] = {"layout": None}
            if options.device_ips is not None:
                changes["address"] = options.device_ips[place][at]
            if supers is not None:
                changes["extra"] = {**device.extra, SUPER_DEVICE: supers[index]}
            devices.append(structs.replace(device, **changes))
            index += 1
        nodes.append(
            structs.replace(
                node, devices=tuple(devices), super_pod=pods[place], layout=None
            )
        )
    return table.with_changes(nodes=nodes)


def _refuse_incomplete(table: RankTable, to: str) -> None:
    """Raise ArgumentError if HCCL needs a value that the table lacks."""
    nameless = [place for place, host in enumerate(table.hosts) if host is None]
    if nameless:
        verb = "has" if len(nameless) == 1 else "have"
        what = "node" if len(nameless) == 1 else "nodes"
        raise ArgumentError(
            f"{to} needs the server_id of every server; {what} {folded(nameless)} "
            f"{verb} no host",
            hint="give the servers in the order of the nodes: --server-id LIST",
        )
    nodes, devices = table.nodes, [d for node in table.nodes for d in node.devices]
    needs_addresses = len(nodes) > 1 and not all("host_ip" in n.extra for n in nodes)
    if to == HCCL_1_2:
        plain = [d.rank for d in devices if SUPER_DEVICE not in d.extra]
        _refuse_ranks(plain, f"a {SUPER_DEVICE}", "--super-device-id LIST")
        loose = sum(node.super_pod is None for node in nodes)
        if loose:
            raise ArgumentError(
                f"hccl-1.2 needs the super pod of every server; "
                f"{counted(loose, 'server')} of {len(nodes)} have none",
                hint="give the pod of every server: --pods 0,0,1,1",
            )
        needs_addresses = len({node.super_pod for node in nodes}) > 1
    without = [d.rank for d in devices if not d.address] if needs_addresses else []
    _refuse_ranks(without, "an address", "--device-ip LISTS or --hccn-conf FILE")


def _refuse_ranks(ranks: list[int], what: str, option: str) -> None:
    if ranks:
        verb = "has" if len(ranks) == 1 else "have"
        raise ArgumentError(
            f"every device needs {what}; {named_ranks(ranks)} {verb} none",
            hint=f"give {option}",
        )


def _expressed(table: RankTable, target: Format) -> RankTable:
    """Return the table with only what the format can hold."""
    source = by_name(table.format)
    if not target.joins_addresses:
        kept = _table_keys(target) - {"version"}
        nodes = [_bare(node) for node in table.nodes]
        extra = {key: value for key, value in table.extra.items() if key in kept}
        spares = [_bare(_unspelt(node)) for node in table.spares]
        return RankTable(nodes=nodes, extra=extra, spares=spares)
    lost = {*_table_keys(source) - _table_keys(target), *_POD_KEYS}
    extra = {
        key: value
        for key, value in table.extra.items()
        if key not in lost and not _is_repeated(key)
    }
    drop = {*_device_keys(source) - _device_keys(target), SUPER_POD_KEY}
    if target.name == HCCL_1_0:
        drop.add(SUPER_DEVICE)
    has_pods = target.name == HCCL_1_2
    nodes, spares = (
        [_kept(node, drop, has_pods=has_pods) for node in every]
        for every in (table.nodes, map(_unspelt, table.spares))
    )
    return RankTable(
        nodes=nodes,
        spares=spares,
        extra=extra,
        version=target.versions[0],
        format=target.name,
    )


def _unspelt(node: Node) -> Node:
    """Return a node that is written in the form of its new format."""
    devices = [structs.replace(one, layout=None) for one in node.devices]
    return structs.replace(node, devices=tuple(devices), layout=None)


def _bare(node: Node) -> Node:
    """Return a node whose devices have one address and no keys of their own."""
    devices = [
        structs.replace(
            one, address=one.address and one.address.split(",")[0], extra={}
        )
        for one in node.devices
    ]
    return Node(devices=tuple(devices), host=node.host)


def _kept(node: Node, drop: set[str], *, has_pods: bool) -> Node:
    """Return a node without some keys of its devices; integers become texts."""
    devices = [
        structs.replace(
            one,
            extra={
                key: str(value) if type(value) is int else value
                for key, value in one.extra.items()
                if key not in drop and not _is_repeated(key)
            },
        )
        for one in node.devices
    ]
    extra = {k: v for k, v in node.extra.items() if k not in (SUPER_POD_KEY, "rank_id")}
    pod = node.super_pod if has_pods else None
    return structs.replace(node, devices=tuple(devices), super_pod=pod, extra=extra)


def _table_keys(format_: Format) -> set[str]:
    """Return the keys at the top of a file that a format declares."""
    keys = {field.key for field in format_.table_fields}
    record = getattr(format_, "record", None)
    return keys | {member.key for member in getattr(record, "members", ())}


def _device_keys(format_: Format) -> set[str]:
    """Return the keys of a device that a format declares; HCCL keeps pod_name."""
    keys = {field.key for field in format_.device_fields} - {"pod_name"}
    return keys | {format_.host_key}


def unsound_in(to: str, error: RankTableError) -> str:
    """Return why a table cannot be written in a format, given the findings."""
    found = error.diagnostics
    lines = [f"{one.message} ({one.code})" for one in found[:3]]
    return f"the table would not be sound as {to}: " + "; ".join(lines)


_POD_KEYS = (PODS, SUPER_POD_KEY)
_COUNTS = (
    *("device_num", "server_num", "cluster_id"),
    *("rank_id", "local_rank", "local_id", "device_id"),
)
"""Keys that repeat what the model has, besides those that end in ``_count``."""


def losses_beside_hosts(table: RankTable) -> list[str]:
    """Return what is lost if only hosts, ranks and chips of a table are kept."""
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
    return list(losses(table, bare))


def losses(before: RankTable, after: RankTable) -> Iterator[str]:
    """Yield what the new table lacks, as texts.

    Args:
        before: The table that was converted.
        after: The table that was read from the new file.
    """
    source = by_name(before.format)
    for key, value in before.extra.items():
        is_kept = key in after.extra or key == source.nodes_key or value == "completed"
        if not is_kept and not _repeats(key, source):
            yield f"{printable(key)} of the table"
    if before.spares and not after.spares:
        yield f"{SPARES_KEY} of the table"
    if set(before.hosts) - set(after.hosts) - {None}:
        yield "the names of the hosts"
    pods = [node.super_pod for node in before.nodes if node.super_pod]
    if pods and not any(node.super_pod for node in after.nodes):
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


def _lost_of(before: Device, after: Device) -> Iterator[str]:
    if before.address and before.address != after.address:
        is_first = before.address.split(",")[0] == after.address
        yield "further addresses" if is_first else "device_ip"
    elif before.is_emulated and not after.is_emulated:
        yield "device_ip_emulator"
    yield from (key for key in before.extra if key not in after.extra)


def _repeats(key: str, source: Format) -> bool:
    """Whether a key repeats what the model has."""
    return _is_repeated(key) or key in _POD_KEYS or key == source.host_key


def _is_repeated(key: str) -> bool:
    return key.endswith("_count") or key in _COUNTS
