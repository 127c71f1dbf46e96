"""The hosts of a job, as in a launcher's file; from a rank table and back."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.host_lists import MAX_HOSTS
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.source_text import MAX_SLOTS, is_host
from ranktable.schema.diagnostic import counted, folded, printable, quoted
from ranktable.schema.model import Device, Node, RankTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ranktable.cluster.source_text import SourceText, Token


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
    """The hosts of a job, in the order of their lowest ranks."""

    hosts: tuple[Host, ...]


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
            if the format cannot express them.
        read: Returns the hosts in a text, None after reporting errors; None for a
            format that is written only.
        matches: Whether a text looks like this format.
        options: Names of the options that the writer uses.
        holds_chips: Whether a file names the chip of every rank.
        names_hosts: Whether the hosts are named after the job, as pods are.
    """

    name: str
    title: str
    write: Callable[[Hostfile, WriterOptions], str]
    read: Callable[[SourceText], Hostfile | None] | None = None
    matches: Callable[[str], object] = bool
    options: tuple[str, ...] = ()
    holds_chips: bool = False
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


def hosts_of_ranks(hostfile: Hostfile) -> list[int]:
    """Return the node of every rank."""
    pairs = [
        (rank, node_rank)
        for node_rank, ranks in enumerate(ranks_of(hostfile))
        for rank in ranks
    ]
    return [node_rank for _, node_rank in sorted(pairs)]


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


@dataclass(slots=True)
class Entry:
    """A host, and its slots as far as the file has been read.

    Attributes:
        word: Its name where it first occurs.
        slots: Number of processes, None if it is not known yet.
    """

    word: Token
    slots: int | None


class HostTable:
    """The hosts of a file, in its order.

    Attributes:
        entries: The hosts by name.
    """

    def __init__(self, source: SourceText) -> None:
        """Start without hosts."""
        self.source = source
        self.entries: dict[str, Entry] = {}
        self.total = 0

    def add(self, word: Token, slots: int | None, twice: str) -> None:
        """Add a host; report one that has been added before.

        Args:
            word: The name.
            slots: Number of processes, None if it is not known.
            twice: What the launcher does with a host that occurs twice.
        """
        first = self.entries.get(word.text)
        if first is not None:
            self.report_twice(word, first.word, twice)
            return
        if len(self.entries) == MAX_HOSTS:
            self.source.too_many(word, "hosts")
        self.entries[word.text] = Entry(word, slots)
        self.grow(word, slots)

    def grow(self, word: Token, slots: int | None) -> None:
        """Add slots to a host; report a host without slots, and too many in total."""
        if slots == 0:
            self.source.report(
                rules.NO_SLOTS,
                word,
                f"{quoted(word.text)} has no slots",
                hint="remove the host, or give it slots",
            )
        before = self.total
        self.total += slots or 0
        if before <= MAX_SLOTS < self.total:
            self.source.too_many(word, "processes")

    def report_twice(self, word: Token, first: Token, twice: str) -> None:
        """Report a host that occurs twice."""
        self.source.report(
            rules.HOST_TWICE,
            word,
            f"{quoted(word.text)} is described twice; {twice}",
            hint="give the host one line with all of its slots",
            first_use=first,
        )

    def hostfile(self, *, are_chips: bool = False) -> Hostfile | None:
        """Return the hosts, None if there were errors.

        Args:
            are_chips: Whether the slots of a host are its chips 0 to slots - 1.
        """
        self.source.refuse_nothing(self.entries)
        if not self.source.is_sound:
            return None
        return Hostfile(
            hosts=tuple(
                Host(
                    name=entry.word.text,
                    slots=entry.slots,
                    device_ids=tuple(range(entry.slots))
                    if are_chips and entry.slots is not None
                    else None,
                )
                for entry in self.entries.values()
            )
        )


@dataclass(slots=True)
class _AssignedHost:
    """The ranks of one host: rank and slot, None for a slot that is not one number."""

    word: Token
    ranks: list[tuple[int, int | None]] = field(default_factory=list)
    slots: dict[int, Token] = field(default_factory=dict)
    has_own_slots: bool = True


class RankAssignment:
    """The ranks of a file, as far as it has been read."""

    def __init__(self, source: SourceText) -> None:
        """Start without ranks."""
        self.source = source
        self.hosts: dict[str, _AssignedHost] = {}
        self.ranks: dict[int, Token] = {}

    def add(
        self,
        name: str,
        host: Token,
        rank: int,
        place: Token,
        slot: tuple[int | None, Token] | None = None,
    ) -> None:
        """Add a rank.

        Args:
            name: The name by which hosts are distinguished.
            host: The host.
            rank: The rank.
            place: The place of the rank.
            slot: Its slot, and the place of the slot.
        """
        if rank in self.ranks:
            self.source.report(
                rules.RANK_TWICE,
                place,
                f"rank {rank} is listed twice",
                first_use=self.ranks[rank],
            )
            return
        self.ranks[rank] = place
        placed = self.hosts.setdefault(name, _AssignedHost(host))
        number, word = slot or (None, host)
        placed.ranks.append((rank, number))
        if number is None:
            placed.has_own_slots = False
        elif number in placed.slots:
            placed.has_own_slots = False
            self.source.report(
                rules.SLOT_TWICE,
                word,
                f"slot {number} of {quoted(placed.word.text)} is given to two ranks",
                hint="the slots then say nothing about chips",
                first_use=placed.slots[number],
            )
        else:
            placed.slots[number] = word

    def hostfile(self) -> Hostfile | None:
        """Return the hosts by their lowest ranks, None if there are errors."""
        self.source.refuse_nothing(self.hosts)
        self._refuse_gaps()
        if not self.source.is_sound:
            return None
        hosts = [self._host(placed) for placed in self.hosts.values()]
        return Hostfile(hosts=tuple(sorted(hosts, key=_first_rank)))

    def _refuse_gaps(self) -> None:
        if not self.ranks or max(self.ranks) == len(self.ranks) - 1:
            return
        missing = [rank for rank in range(max(self.ranks)) if rank not in self.ranks]
        after = min(rank for rank in self.ranks if rank > missing[0])
        what = "rank" if len(missing) == 1 else "ranks"
        verb = "is" if len(missing) == 1 else "are"
        self.source.report(
            rules.RANK_MISSING,
            self.ranks[after],
            f"{what} {folded(missing)} {verb} missing",
            hint="ranks count from 0 without a gap",
        )

    def _host(self, placed: _AssignedHost) -> Host:
        pairs = sorted(placed.ranks, key=lambda pair: pair[0])
        chips = tuple(slot for _, slot in pairs if slot is not None)
        return Host(
            name=placed.word.text,
            slots=len(pairs),
            device_ids=chips if placed.has_own_slots else None,
            ranks=tuple(rank for rank, _ in pairs),
        )


def _first_rank(host: Host) -> int:
    assert host.ranks is not None
    return host.ranks[0]
