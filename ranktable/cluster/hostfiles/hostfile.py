"""The hosts of a job, as in a launcher's file; from a rank table and back."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.source_text import is_host
from ranktable.schema.model import Device, Node, RankTable
from ranktable.schema.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ranktable.cluster.source_text import SourceText


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host.

    Attributes:
        name: Name or address, None if the launcher chooses the host.
        slots: Number of processes, None if only the host knows it.
        device_ids: Chip of each process, None if the file names none.
        ranks: Rank of each process in increasing order, None if ranks count up over the
            hosts in their order.
    """

    name: str | None
    slots: int | None = None
    device_ids: tuple[int, ...] | None = None
    ranks: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostfile:
    """The hosts of a job, in the order of their lowest ranks.

    Attributes:
        hosts: The hosts.
        table: Their table, if the file has all of it, also the addresses of the chips.
    """

    hosts: tuple[Host, ...]
    table: RankTable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """Values that a host file needs and a rank table lacks.

    Attributes:
        script: The script that is started on every node, with its arguments.
        port: Port of the rendezvous.
        name: Name of a job.
        image: Image of a container.
        resource: Name of the chips as a resource of a cluster: ``nvidia.com/gpu``.
    """

    script: str | None = None
    port: int | None = None
    name: str | None = None
    image: str | None = None
    resource: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherFormat:
    """One format of host files.

    Attributes:
        name: Its name on the command line.
        title: A name for people, with an article.
        write: Returns the text for some hosts; raises ``ArgumentError`` with the reason
            if the format cannot express them. None for a format that is read only.
        read: Returns the hosts in a text, None after reporting errors; None for a
            format that is written only.
        matches: Whether a text looks like this format.
        options: Names of the options that the writer uses.
        holds_chips: Whether a file names the chip of every rank.
        selection: Returns the option of the launcher that names the chips beside the
            file; an empty text if none is needed, or none can.
        names_hosts: Whether the hosts are named after the job, as pods are.
    """

    name: str
    title: str
    write: Callable[[Hostfile, WriterOptions], str] | None
    read: Callable[[SourceText], Hostfile | None] | None = None
    matches: Callable[[str], object] = bool
    options: tuple[str, ...] = ()
    holds_chips: bool = False
    selection: Callable[[Hostfile], str] = lambda _: ""
    names_hosts: bool = False


def sizes_of(hostfile: Hostfile) -> list[int]:
    """Return the number of processes of every host.

    Raises:
        ArgumentError: The number of a host is not known.
    """
    return [_size(node_rank, host) for node_rank, host in enumerate(hostfile.hosts)]


def _size(node_rank: int, host: Host) -> int:
    if host.slots is None:
        raise ArgumentError(
            f"the number of processes of {called(node_rank, host)} is not known",
            hint="give --chips-per-node N, or the chips of every node: --device-id",
        )
    return host.slots


def called(node_rank: int, host: Host) -> str:
    """Return the name of a host for messages."""
    if host.name is None:
        return f"node {node_rank}"
    return f"node {node_rank} ({printable(host.name)})"


def chips_of(hostfile: Hostfile) -> list[tuple[int, ...]]:
    """Return the chips of every host; by default 0 to slots - 1."""
    sizes = sizes_of(hostfile)
    return [
        tuple(range(size)) if host.device_ids is None else host.device_ids
        for host, size in zip(hostfile.hosts, sizes, strict=True)
    ]


def ranks_of(hostfile: Hostfile) -> list[tuple[int, ...]]:
    """Return the ranks of every host."""
    ranks = []
    first = 0
    for host, size in zip(hostfile.hosts, sizes_of(hostfile), strict=True):
        own = tuple(range(first, first + size)) if host.ranks is None else host.ranks
        ranks.append(own)
        first += size
    return ranks


def hostfile_from_table(table: RankTable) -> Hostfile:
    """Return the hosts of a table in the order of their lowest ranks.

    Addresses of devices and extra keys are left out, because launchers do not use them.
    """
    nodes = sorted(table.nodes, key=lambda node: min(d.rank for d in node.devices))
    return Hostfile(hosts=tuple(map(_host, nodes)))


def _host(node: Node) -> Host:
    devices = sorted(node.devices, key=lambda device: device.rank)
    return Host(
        name=node.host,
        slots=len(devices),
        device_ids=tuple(device.device_id for device in devices),
        ranks=tuple(device.rank for device in devices),
    )


def table_from_hostfile(hostfile: Hostfile) -> RankTable:
    """Return the table of some hosts: their chips, or 0 to slots - 1 of each host.

    Raises:
        ArgumentError: The number of processes of a host is not known, or its ranks are
            not consecutive.
    """
    ranks, chips = ranks_of(hostfile), chips_of(hostfile)
    for node_rank, (host, own) in enumerate(zip(hostfile.hosts, ranks, strict=True)):
        if own[-1] - own[0] >= len(own):
            raise ArgumentError(
                f"a rank table has the ranks of a node one after the other, and "
                f"{called(node_rank, host)} has {own[0]} to {own[-1]} with gaps"
            )
    parts = zip(hostfile.hosts, ranks, chips, strict=True)
    return RankTable(nodes=tuple(_node(*part) for part in parts))


def _node(host: Host, ranks: Sequence[int], chips: Sequence[int]) -> Node:
    pairs = zip(ranks, chips, strict=True)
    devices = tuple(Device(rank=rank, device_id=chip) for rank, chip in pairs)
    return Node(devices=devices, host=host.name)


def with_chips(hostfile: Hostfile, chips: Sequence[Sequence[int]]) -> Hostfile:
    """Return the hosts with these chips, in the order of their ranks.

    Raises:
        ArgumentError: The numbers of hosts or of processes differ.
    """
    hosts = hostfile.hosts
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
    return Hostfile(
        hosts=tuple(
            replace(host, slots=len(own), device_ids=tuple(own)) for host, own in pairs
        )
    )


def with_hosts(hostfile: Hostfile, names: Sequence[str]) -> Hostfile:
    """Return the hosts with other names, in their order.

    Raises:
        ArgumentError: There are too few or too many names, or one occurs twice.
    """
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ArgumentError(f"the host {printable(twice[0])} is given twice")
    if len(names) != len(hostfile.hosts):
        raise ArgumentError(
            f"{counted(len(names), 'host')} for {counted(len(hostfile.hosts), 'node')}",
            hint="give one host a node, in the order of the nodes",
        )
    pairs = zip(hostfile.hosts, names, strict=True)
    return Hostfile(hosts=tuple(replace(host, name=name) for host, name in pairs))


DEFAULT_PORT = 29500
"""The rendezvous port of torchrun."""

DEFAULT_SCRIPT = "train.py"


def names_of(hostfile: Hostfile, title: str) -> list[str]:
    """Return the name of every host.

    Raises:
        ArgumentError: A host has no name, or one that a file cannot have, or occurs
            twice, so that its chips would be assigned twice.
    """
    names: list[str] = []
    first: dict[str, int] = {}
    for node_rank, host in enumerate(hostfile.hosts):
        if host.name is None:
            raise ArgumentError(
                f"node {node_rank} has no host, and {title} needs one",
                hint="name the hosts in their order: --hosts n[001-128]",
            )
        if not is_host(host.name):
            raise ArgumentError(
                f"{title} cannot name the host {printable(host.name)}",
                hint="name the hosts in their order: --hosts n[001-128]",
            )
        if first.setdefault(host.name, node_rank) != node_rank:
            raise ArgumentError(
                f"node {first[host.name]} and node {node_rank} are both the host "
                f"{host.name}, so that two processes would share a chip",
                hint="name the hosts in their order: --hosts n[001-128]",
            )
        names.append(host.name)
    return names


def refuse_interleaved(hostfile: Hostfile, title: str) -> None:
    """Raise ArgumentError unless ranks count up over the hosts one after the other."""
    first = 0
    for node_rank, ranks in enumerate(ranks_of(hostfile)):
        if ranks != tuple(range(first, first + len(ranks))):
            host = called(node_rank, hostfile.hosts[node_rank])
            raise ArgumentError(
                f"{title} numbers ranks host by host, and the ranks of {host} are "
                f"{_shown(ranks)}",
                hint="openmpi-rankfile and srun-hostfile place every rank",
            )
        first += len(ranks)


def even_size(hostfile: Hostfile, title: str) -> int:
    """Return the number of processes of every host.

    Raises:
        ArgumentError: The hosts have different numbers.
    """
    sizes = sizes_of(hostfile)
    for node_rank, size in enumerate(sizes):
        if size != sizes[0]:
            host = called(node_rank, hostfile.hosts[node_rank])
            raise ArgumentError(
                f"{title} starts the same number of processes on every node, and "
                f"{called(0, hostfile.hosts[0])} has {sizes[0]}, {host} has {size}"
            )
    return sizes[0]


def script_words(script: str | None) -> list[str]:
    """Return a script and its arguments.

    Raises:
        ArgumentError: A quotation mark is not closed.
    """
    try:
        words = shlex.split(DEFAULT_SCRIPT if script is None else script)
    except ValueError as error:
        raise ArgumentError(f"--script: {str(error).lower()}") from None
    if not words:
        raise ArgumentError("--script names no script")
    return words


def _shown(numbers: tuple[int, ...]) -> str:
    first = ",".join(map(str, numbers[:4]))
    return first + (",..." if len(numbers) > 4 else "")
