"""Convert rank tables from one format to another.

A format has hosts, chips, ranks and addresses, and keys of its own. The conversion adds
what the other format needs, and removes what it cannot express. No pair of formats has
code of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.losses import (
    POD_KEYS,
    losses,
    losses_beside_hosts,
    repeats_a_count,
)
from ranktable.schema.addresses import is_address
from ranktable.schema.check import IN_MEMORY, WRAPPED, check_bytes, loads
from ranktable.schema.diagnostic import (
    Options,
    counted,
    folded,
    named_ranks,
    printable,
    quoted,
)
from ranktable.schema.format import (
    SUPER_POD_KEY,
    Kind,
    NotExpressibleError,
)
from ranktable.schema.formats import by_name
from ranktable.schema.formats.hccl_1_1 import COLLECTIVE_ID
from ranktable.schema.model import Device, Node, RankTable
from ranktable.schema.rules.records import no_global_ranks
from ranktable.schema.super_pods import PODS, pods_of, pods_renamed
from ranktable.schema.writing import dumps, encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.schema.diagnostic import RankTableError
    from ranktable.schema.format import Format

MINDIE = "mindie"
"""A table 1.0 with addresses of containers; this name is for ``--to`` only."""

WRITTEN = (
    *("sccl-1.0", "sccl-2024", "hccl-1.0", "hccl-1.1", "hccl-1.2", "hccl-2.0"),
    *(MINDIE, "cce", "vllm-pd", "hccl-logical", "gaudi-hcl", "paddle-mapping"),
    "kubernetes",
)
"""Formats that can be written from a table of another format."""

SUPER_DEVICE = "super_device_id"
CONTAINER = "container_ip"
FEWEST_MINDIE_SERVERS = 2

_SERVER_LISTS = ("hccl-1.0", "hccl-1.2", "cce", MINDIE)
_WITH_PODS = ("hccl-1.2", "vllm-pd", "cce")
_WITH_HOST_RANKS = ("hccl-1.1", "hccl-logical", "gaudi-hcl", "kubernetes")
_RANK_LISTS = ("hccl-2.0", "hccl-rootinfo", "hccl-changed")
_BY_ADDRESS = ("hccl-1.1", "gaudi-hcl")
_OPTIONS = {
    "super_device_ids": ("--super-device-id", _WITH_PODS),
    "pods": ("--pods", _WITH_PODS),
    "container_ips": ("--container-ip", (MINDIE,)),
    "prefill": ("--prefill", ("vllm-pd",)),
    "collective_id": ("--collective-id", ("hccl-1.1",)),
    "is_skeleton": ("--skeleton", ("hccl-2.0",)),
}
"""The option of each value, and the formats that use it."""
GAP = "FILL IN: {}"
"""Written for a value that only the machine knows; all readers refuse it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Values that one format needs and another one lacks.

    Attributes:
        device_ips: Address of every device, in the order of nodes and ranks.
        super_device_ids: ``super_device_id`` of every device, in the same order.
        pods: Super pod of every server, or one for all.
        container_ips: Address of the container on every server.
        prefill: Number of prefill ranks; the other ranks decode.
        collective_id: Name of the job, which HCCL 1.1 requires.
        is_skeleton: Whether to write marked gaps for values that are not known.
    """

    device_ips: Sequence[Sequence[str]] | None = None
    super_device_ids: Sequence[str] | None = None
    pods: Sequence[str] | None = None
    container_ips: Sequence[str] | None = None
    prefill: int | None = None
    collective_id: str | None = None
    is_skeleton: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A table of another format.

    Attributes:
        data: The bytes of its file.
        losses: What the new file lacks, as texts.
        num_gaps: Number of devices with marked gaps, which must be filled in.
    """

    data: bytes
    losses: tuple[str, ...] = ()
    num_gaps: int = 0


def convert_table(
    table: RankTable, to: str, options: TableOptions | None = None
) -> Conversion:
    """Return a table in another format, and what the new file lacks.

    Args:
        table: A sound table whose ranks are those of one job.
        to: Name of the format, or ``mindie``.
        options: Values that the format needs and the table lacks.

    Raises:
        ArgumentError: There is no such format, it cannot be written, or a value that it
            needs is missing; the hint names the option of ``ranktable convert``.
        RankTableError: The table would not be sound in that format.
    """
    options = options or TableOptions()
    try:
        target = by_name("hccl-1.0" if to == MINDIE else to)
    except ValueError as error:
        raise ArgumentError(str(error)) from None
    _refuse_others(options, to)
    if to in (table.format, WRAPPED) and options == TableOptions():
        return Conversion(data=dumps(table, format=to))
    if to == WRAPPED:
        inner = convert_table(table, table.format, options)
        wrapped = dumps(loads(inner.data), format=to)
        return Conversion(data=wrapped, losses=inner.losses)
    if not table.has_global_ranks:
        finding = no_global_ranks(table.format)
        raise ArgumentError(finding.message, hint=finding.hint)
    if target.name == "hccl-2.0" and table.format not in _RANK_LISTS:
        return _skeleton(table, options)
    _refuse_rank_list(table, to)
    given = _with_given(table, to, options)
    _refuse_host_ranks(table, to)
    _refuse_incomplete(given, to)
    try:
        data = dumps(_stripped(given, target), format=target.name)
    except NotExpressibleError as error:
        raise ArgumentError(str(error)) from None
    options_ = Options(format=target, is_table_wanted=True)
    written = check_bytes(data, options_, file=IN_MEMORY).table
    assert written is not None
    lost = tuple(losses(table, written))
    if options.device_ips is not None and written.nodes[0].devices[0].address:
        lost = tuple(one for one in lost if not one.startswith("device_ip "))
    return Conversion(data=data, losses=lost)


def with_servers(table: RankTable, names: Sequence[str]) -> RankTable:
    """Return a table whose nodes have other hosts, in the same super pods.

    Raises:
        ArgumentError: There are too few or too many names, or one occurs twice.
    """
    _refuse_count("--server-id", names, table.num_nodes)
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ArgumentError(f"the host {printable(twice[0])} is given twice")
    nodes = [
        structs.replace(node, host=name)
        for node, name in zip(table.nodes, names, strict=True)
    ]
    new = {node.host: name for node, name in zip(table.nodes, names, strict=True)}
    extra = dict(table.extra)
    if PODS in extra:
        extra[PODS] = pods_renamed(extra[PODS], new)
    return table.with_changes(nodes=nodes, extra=extra)


def _refuse_others(options: TableOptions, to: str) -> None:
    """Raise ArgumentError for an option that the format does not use."""
    for name, (option, targets) in _OPTIONS.items():
        value = getattr(options, name)
        is_given = value is not None and value is not False
        if is_given and to not in targets:
            raise ArgumentError(f"{to} does not use {option}")


def _refuse_rank_list(table: RankTable, to: str) -> None:
    if table.format in _RANK_LISTS and to in (*_SERVER_LISTS, "vllm-pd"):
        raise ArgumentError(
            f"a table of the format {table.format} names no servers, which {to} needs"
        )


def _with_given(table: RankTable, to: str, options: TableOptions) -> RankTable:
    """Return the table with the values of the options, in its new form."""
    pods = _pods(table, options)
    devices_before = 0
    nodes = []
    for place, node in enumerate(table.nodes):
        added: dict[str, Any] = {}
        if options.container_ips is not None:
            _refuse_count("--container-ip", options.container_ips, table.num_nodes)
            added[CONTAINER] = options.container_ips[place]
        devices = [
            _device_given(device, devices_before + at, place, at, options, table)
            for at, device in enumerate(node.devices)
        ]
        devices_before += len(devices)
        if to in _WITH_PODS and pods[place] is not None:
            added[SUPER_POD_KEY] = pods[place]
        extra = {k: v for k, v in node.extra.items() if k != SUPER_POD_KEY}
        nodes.append(
            structs.replace(
                node, devices=tuple(devices), extra={**extra, **added}, layout=None
            )
        )
    if to == "vllm-pd":
        nodes = _with_roles(nodes, options.prefill)
    extra = dict(table.extra)
    if options.collective_id is not None:
        extra[COLLECTIVE_ID] = options.collective_id
    return table.with_changes(nodes=nodes, extra=extra)


def _device_given(
    device: Device,
    index: int,
    node: int,
    place: int,
    options: TableOptions,
    table: RankTable,
) -> Device:
    address, extra = device.address, dict(device.extra)
    if options.device_ips is not None:
        address = options.device_ips[node][place]
    if options.super_device_ids is not None:
        _refuse_count("--super-device-id", options.super_device_ids, table.world_size)
        extra[SUPER_DEVICE] = options.super_device_ids[index]
    return structs.replace(device, address=address, extra=extra, layout=None)


def _refuse_count(option: str, given: Sequence[object], wanted: int) -> None:
    if len(given) != wanted:
        unit = "device" if option == "--super-device-id" else "server"
        raise ArgumentError(
            f"{option} has {counted(len(given), 'value')} for {counted(wanted, unit)}"
        )


def _pods(table: RankTable, options: TableOptions) -> list[str | None]:
    """Return the super pod of every node, from an option or the table."""
    if options.pods is None:
        return pods_of(table)
    pods = list(options.pods)
    if len(pods) == 1:
        pods *= table.num_nodes
    _refuse_count("--pods", pods, table.num_nodes)
    return list(pods)


def _with_roles(nodes: list[Node], prefill: int | None) -> list[Node]:
    """Return the nodes of vLLM's table: their first ranks are prefill ranks."""
    if prefill is None:
        if all(node.group in ("prefill", "decode") for node in nodes):
            return nodes
        raise ArgumentError(
            "vllm-pd needs to know which devices prefill and which decode",
            hint="give the number of ranks that prefill: --prefill N",
        )
    size = sum(len(node.devices) for node in nodes)
    if not 0 <= prefill <= size:
        raise ArgumentError(
            f"--prefill {prefill} is beyond the {counted(size, 'rank')}"
        )
    parts = []
    for node in nodes:
        for group in ("prefill", "decode"):
            own = [
                d for d in node.devices if (d.rank < prefill) == (group == "prefill")
            ]
            if own:
                devices = tuple(own)
                parts.append(structs.replace(node, devices=devices, group=group))
    return sorted(parts, key=lambda node: node.devices[0].rank)


def _refuse_incomplete(table: RankTable, to: str) -> None:
    """Raise ArgumentError if the format needs a value that the table lacks."""
    if to == "hccl-1.1" and COLLECTIVE_ID not in table.extra:
        raise ArgumentError(
            "hccl-1.1 needs a collective_id, the name of the job",
            hint="give --collective-id NAME",
        )
    if to in _BY_ADDRESS:
        _refuse_names(table.hosts, to)
    if to not in (*_SERVER_LISTS, "vllm-pd"):
        return
    _refuse_nodes([place for place, h in enumerate(table.hosts) if h is None], to)
    nodes, devices = table.nodes, [d for node in table.nodes for d in node.devices]
    without = [d.rank for d in devices if not d.address]
    several = table.num_nodes > 1 and not all("host_ip" in n.extra for n in nodes)
    if without and (to == "vllm-pd" or (several and to != "hccl-1.2")):
        _refuse_ranks(without, "address", "--device-ip LISTS or --hccn-conf FILE")
    if to == "hccl-1.2":
        plain = [d.rank for d in devices if SUPER_DEVICE not in d.extra]
        _refuse_ranks(plain, SUPER_DEVICE, "--super-device-id LIST")
        loose = [at for at, n in enumerate(nodes) if SUPER_POD_KEY not in n.extra]
        if loose:
            raise ArgumentError(
                f"hccl-1.2 needs the super pod of every server; "
                f"{counted(len(loose), 'server')} of {len(nodes)} have none",
                hint="give the pod of every server: --pods 0,0,1,1",
            )
        if without and len({n.extra[SUPER_POD_KEY] for n in nodes}) > 1:
            _refuse_ranks(without, "address", "--device-ip LISTS or --hccn-conf FILE")
    if to == MINDIE:
        _refuse_for_mindie(nodes)


def _refuse_names(hosts: Sequence[str | None], to: str) -> None:
    """Raise ArgumentError for a host that is not an IP address."""
    if to == "gaudi-hcl" and len(hosts) == 1 and hosts[0] is None:
        return
    for host in hosts:
        if host is None or not is_address(host):
            who = "a node has none" if host is None else f"{quoted(host)} is not one"
            raise ArgumentError(
                f"{to} names hosts by their addresses, and {who}",
                hint="give them in the order of the nodes: --server-id LIST",
            )


def _refuse_nodes(nameless: list[int], to: str) -> None:
    if nameless:
        raise ArgumentError(
            f"{to} needs the server_id of every server; "
            f"{counted(len(nameless), 'node')} have no host: {folded(nameless)}"
            if len(nameless) > 1
            else f"{to} needs the server_id of every server; node {nameless[0]} has "
            "no host",
            hint="give the servers in the order of the nodes: --server-id LIST",
        )


def _refuse_host_ranks(table: RankTable, to: str) -> None:
    """Raise ArgumentError for ranks on hosts if the format has ranks on chips only."""
    on_hosts = [d.rank for n in table.nodes for d in n.devices if d.device_id < 0]
    if on_hosts and to not in _WITH_HOST_RANKS:
        verb = "runs" if len(on_hosts) == 1 else "run"
        raise ArgumentError(
            f"{named_ranks(on_hosts)} {verb} on a host, not on a chip, and {to} has "
            "ranks on chips only",
            hint="ranktable subset --ranks LIST writes the table of the others",
        )


def _refuse_ranks(ranks: list[int], what: str, option: str) -> None:
    if ranks:
        verb = "has" if len(ranks) == 1 else "have"
        article = "an" if what == "address" else "a"
        raise ArgumentError(
            f"every device needs {article} {what}; {named_ranks(ranks)} {verb} none",
            hint=f"give {option}",
        )


def _refuse_for_mindie(nodes: Sequence[Node]) -> None:
    if len(nodes) < FEWEST_MINDIE_SERVERS:
        raise ArgumentError("MindIE takes tables of two servers or more, not of one")
    sizes = {len(node.devices) for node in nodes}
    if len(sizes) > 1:
        raise ArgumentError(
            "MindIE needs the same number of devices on every server, and they have "
            f"{' and '.join(map(str, sorted(sizes)))}"
        )
    missing = [node.host for node in nodes if not node.extra.get(CONTAINER)]
    if missing:
        raise ArgumentError(
            f"MindIE needs the container_ip of every server; {quoted(missing[0])} has "
            "none",
            hint="give them in the order of the servers: --container-ip LIST",
        )


def _stripped(table: RankTable, target: Format) -> RankTable:
    """Return the table with only the keys that the format has."""
    if target.name == "hccl-2.0":
        return table
    if not target.joins_addresses:
        table = table.with_changes(nodes=map(_with_one_address, table.nodes))
    if target.name == "vllm-pd":
        return _with_vllm_pods(table)
    if target.name not in _SERVER_LISTS:
        names = (COLLECTIVE_ID,) if target.name == "hccl-1.1" else ()
        top = {key: table.extra[key] for key in names}
        if top:
            top["status"] = "completed"
        return RankTable(nodes=[_bare(node) for node in table.nodes], extra=top)
    source = by_name(table.format)
    own = {*_top_keys(source) - _top_keys(target), *POD_KEYS}
    extra = {
        k: v for k, v in table.extra.items() if k not in own and not repeats_a_count(k)
    }
    if target.name == "hccl-1.2":
        extra[PODS] = _listed_pods(table.nodes)
    drop = {*_device_keys(source) - _device_keys(target), SUPER_POD_KEY}
    if target.name == "hccl-1.0":
        drop.add(SUPER_DEVICE)
    types = {field.key: field.kind for field in target.device_fields}
    nodes = [_kept(node, drop, types) for node in table.nodes]
    version = target.versions[0]
    return RankTable(nodes=nodes, extra=extra, version=version, format=target.name)


def _with_one_address(node: Node) -> Node:
    devices = [
        structs.replace(one, address=one.address.split(",")[0]) if one.address else one
        for one in node.devices
    ]
    return structs.replace(node, devices=tuple(devices))


def _bare(node: Node) -> Node:
    devices = [structs.replace(one, extra={}, layout=None) for one in node.devices]
    return Node(devices=tuple(devices), host=node.host)


def _with_vllm_pods(table: RankTable) -> RankTable:
    """Return the table with super pods as keys of devices, as vLLM's tables have."""

    def moved(node: Node) -> Node:
        keys = (SUPER_DEVICE, SUPER_POD_KEY, "device_hccn_ip")
        pod = {k: v for k, v in node.extra.items() if k == SUPER_POD_KEY}
        devices = [
            structs.replace(
                one, extra={**{k: one.extra[k] for k in keys if k in one.extra}, **pod}
            )
            for one in node.devices
        ]
        return structs.replace(node, devices=tuple(devices), extra={})

    return table.with_changes(nodes=map(moved, table.nodes))


def _top_keys(format_: Format) -> set[str]:
    """Return the keys at the top of a file that a format declares."""
    keys = {field.key for field in format_.table_fields}
    record = getattr(format_, "record", None)
    return keys | {member.key for member in getattr(record, "members", ())}


def _device_keys(format_: Format) -> set[str]:
    """Return the keys of a device that a format declares; HCCL keeps pod_name."""
    keys = {field.key for field in format_.device_fields} - {"pod_name"}
    return keys | {format_.host_key}


def _kept(node: Node, drop: set[str], types: Mapping[str, Kind]) -> Node:
    """Return a node whose devices have the keys of the format, as texts."""
    devices = [
        structs.replace(
            one,
            extra={
                key: str(value) if key in types and type(value) is int else value
                for key, value in one.extra.items()
                if key not in drop and not repeats_a_count(key)
            },
        )
        for one in node.devices
    ]
    # A pod of a lab table is a node here, and has the rank of its only chip.
    repeated = (SUPER_POD_KEY, "rank_id")
    extra = {k: v for k, v in node.extra.items() if k not in repeated}
    return structs.replace(node, devices=tuple(devices), extra=extra, group=None)


def _listed_pods(nodes: Sequence[Node]) -> list[object]:
    servers: dict[str, list[object]] = {}
    for node in nodes:
        pod = str(node.extra[SUPER_POD_KEY])
        servers.setdefault(pod, []).append({"server_id": node.host})
    return [{SUPER_POD_KEY: pod, "server_list": own} for pod, own in servers.items()]


def _skeleton(table: RankTable, options: TableOptions) -> Conversion:
    """Return a table 2.0 with marked gaps for values that only the machine knows."""
    if not options.is_skeleton:
        raise ArgumentError(
            f"a table of the format {table.format} has no layers and no EIDs, which "
            "hccl-2.0 needs",
            hint="--skeleton writes a table with marked gaps, which validate refuses",
        )
    address = {
        "addr_type": "EID",
        "addr": GAP.format("EID"),
        "ports": [GAP.format("port")],
    }
    ranks = [
        {
            "rank_id": device.rank,
            "local_id": device.device_id,
            "device_id": device.device_id,
            "level_list": [
                {
                    "net_layer": 0,
                    "net_instance_id": node.host or str(place),
                    "net_type": "TOPO_FILE_DESC",
                    "net_attr": "",
                    "rank_addr_list": [address],
                }
            ],
        }
        for place, node in enumerate(table.nodes)
        for device in node.devices
    ]
    ranks.sort(key=lambda one: one["rank_id"])  # type: ignore[arg-type,return-value]
    document = {
        "version": "2.0",
        "status": "completed",
        "rank_count": len(ranks),
        "rank_list": ranks,
    }
    lost = tuple(losses_beside_hosts(table))
    return Conversion(data=encode(document), losses=lost, num_gaps=len(ranks))


def unsound_in(to: str, error: RankTableError) -> str:
    """Return why a table cannot be written in a format, given the findings."""
    found = error.diagnostics
    lines = [f"{one.message} ({one.code})" for one in found[:3]]
    return f"the table would not be sound as {to}: " + "; ".join(lines)
