"""Merge the nodes of several files into one sound table, or report what is wrong."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.file_findings import FileFinding
from ranktable.cluster.host_lists import fold_hosts
from ranktable.cluster.merging.merge_checks import NOT_AS_LISTED, check_ranks
from ranktable.schema.diagnostic import Options, counted, quoted
from ranktable.schema.document import SourceSpan
from ranktable.schema.plain_data import plain_data
from ranktable.schema.writing import encode, judged_document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ranktable.cluster.file_findings import FileFindings, FileSpan
    from ranktable.schema.columns import Columns
    from ranktable.schema.declare import Format
    from ranktable.schema.diagnostic import Report
    from ranktable.schema.model import Node, RankTable
    from ranktable.schema.topology import Topology

_NUMBER = re.compile(r"([0-9]+)")

HostKey = tuple[tuple[str | int, ...], str]


class Order(str, Enum):
    """The order of the nodes of a merged table."""

    GIVEN = "given"
    BY_RANK = "by-rank"
    BY_HOST = "by-host"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions:
    """How to merge nodes.

    Attributes:
        order: Order of the nodes, None for the default of these files.
        hosts: The hosts in the order of the nodes, None if they are not given.
        renumber: Whether ranks are counted again.
        topology: Links of every host, None if they are not known.
        limit: Most findings of each code to keep, None for all.
    """

    order: Order | None = None
    hosts: Sequence[str] | None = None
    renumber: bool = False
    topology: Topology | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNode:
    """One node of one file.

    Attributes:
        node: The node; in a node of a probe all ranks are 0.
        file: Index of its file.
        file_name: Name of its file.
        source: Columns of its table, None for a probe.
        index: Its index in these columns.
        places: The index of each of its devices in these columns.
        line: Returns the span of a probe's host; None for a node of a table.
        identifiers: UUIDs and serial numbers of its chips.
        vendor: Maker of its chips, None if it is not known.
        model: Model of its chips, None if it is not known or they differ.
    """

    node: Node
    file: int
    file_name: str
    source: Columns | None = None
    index: int = 0
    places: Sequence[int] = ()
    line: Callable[[], SourceSpan] | None = field(
        default=None, repr=False, compare=False
    )
    identifiers: frozenset[str] = frozenset()
    vendor: str | None = None
    model: str | None = None

    @property
    def host(self) -> str | None:
        """Its host, None if it is not known."""
        return self.node.host

    def origin(self, other: FileNode) -> str:
        """Return the origin of this node, for a message about another node."""
        return "an earlier node" if self.file == other.file else self.file_name

    def at(self, *steps: str | int, label: str | None = None) -> FileSpan:
        """Return the place of a part of the node, or of a probe's host.

        The index of a device is that in the node, which may be another one in the file.
        """
        if self.source is None:
            assert self.line is not None
            return self.file, replace(self.line(), label=label)
        path = self.source.node_path(self.index)
        if len(steps) > 1 and steps[0] == self.source.format.devices_key:
            path, steps = self.source.device_path(self.places[int(steps[1])]), steps[2:]
        return self.file, SourceSpan((*path, *steps), label=label)

    def with_ranks(self, first: int) -> FileNode:
        """Return the node with ranks that count up from ``first``.

        Chips are in numeric order, unless the file has them in the order of their
        ranks.
        """
        order = list(range(len(self.node.devices)))
        devices = self.node.devices
        if self.source is not None and not self.source.format.keeps_file_order:
            order.sort(key=lambda at: devices[at].device_id)
        counted_anew = (
            structs.replace(devices[at], rank=first + place)
            for place, at in enumerate(order)
        )
        return replace(
            self,
            node=structs.replace(self.node, devices=tuple(counted_anew)),
            places=[self.places[at] for at in order] if self.places else (),
        )


def node_of_table(
    node: Node, index: int, columns: Columns, file: int, file_name: str
) -> FileNode:
    """Return a node of a table, with its index in the columns of its file."""
    start, end = columns.starts[index : index + 2]
    places: Sequence[int] = range(start, end)
    if not columns.format.keeps_file_order:
        ranks: Any = columns.ranks
        places = sorted(places, key=ranks.__getitem__)
    return FileNode(
        node=node,
        file=file,
        file_name=file_name,
        source=columns,
        index=index,
        places=places,
    )


def host_key(host: str) -> HostKey:
    """Return a sort key that compares the numbers in hosts as numbers.

    >>> sorted(["n10", "n9", "n1", "login"], key=host_key)
    ['login', 'n1', 'n9', 'n10']
    """
    pieces = _NUMBER.split(host)
    # Texts and numbers alternate, so that two keys compare the same types.
    return tuple(int(p) if i % 2 else p for i, p in enumerate(pieces)), host


def short(host: str) -> str:
    """Return a host without its domain; an address is not changed.

    >>> short("n1.site"), short("10.0.0.1")
    ('n1', '10.0.0.1')
    """
    name = host.partition(".")[0]
    return host if not name or name.isdigit() else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The result of merging.

    Attributes:
        table: The table, None if there are errors.
        data: The bytes of its file, None if there are errors.
        reports: A report for every file with findings, in the order of the files.
    """

    table: RankTable | None = None
    data: bytes | None = field(default=None, repr=False)
    reports: tuple[Report, ...] = ()


def merge_nodes(
    nodes: Sequence[FileNode],
    top: RankTable,
    format_: Format,
    options: MergeOptions,
    findings: FileFindings,
) -> Merged:
    """Return the table of some nodes, or reports of why there is none.

    Args:
        nodes: The nodes, in the order of their files.
        top: The table without its nodes.
        format_: Its format.
        options: Order of the nodes, and numbering of the ranks.
        findings: The findings so far.

    Raises:
        ArgumentError: The requested order of the nodes is not possible.
    """
    if not findings.has_errors and options.hosts is not None:
        nodes = _in_order_of_hosts(nodes, options.hosts, findings)
    elif not findings.has_errors:
        nodes = in_order(nodes, options.order)
    if options.renumber:
        nodes = numbered(nodes)
    elif not findings.has_errors:
        check_ranks(nodes, findings)
    if findings.has_errors:
        return Merged(reports=findings.reports())
    table = top.with_changes(nodes=(node.node for node in nodes))
    document = plain_data(table, format_)
    is_sound = _judge(document, nodes, format_, options, findings)
    reports = findings.reports()
    if not is_sound:
        return Merged(reports=reports)
    return Merged(table=table, data=encode(document), reports=reports)


def _judge(
    document: dict[str, object],
    nodes: Sequence[FileNode],
    format_: Format,
    options: MergeOptions,
    findings: FileFindings,
) -> bool:
    """Report what the rules find in the table; return whether there is no error.

    Each finding gets the place of its node in its file.
    """

    def origin(span: SourceSpan | None) -> FileSpan:
        if span is None or span.path[:1] != (format_.nodes_key,) or not span.path[1:]:
            return 0, None
        if format_.keeps_document:  # its entries are not the nodes
            return 0, None
        _, index, *steps = span.path
        file, there = nodes[int(index)].at(*steps, label=span.label)
        if there is not None and there.offsets is None:
            there = replace(there, part=span.part)
        return file, there

    return judged(format_, document, origin, options, findings)


def judged(
    format_: Format,
    document: dict[str, object],
    origin: Callable[[SourceSpan | None], FileSpan],
    options: MergeOptions,
    findings: FileFindings,
) -> bool:
    """Report what the rules find in a merged table; return whether no error is.

    Args:
        format_: Its format.
        document: Its plain data.
        origin: Returns where a place in it was read.
        options: The links of the hosts, and how many findings to keep.
        findings: What was found in the files.
    """
    rules = Options(topology=options.topology, limit=options.limit)
    _, found = judged_document(format_, document, rules)
    for finding in found:
        file, span = origin(finding.span)
        related = tuple(map(origin, finding.related))
        moved = replace(finding, span=span, related=())
        findings.add(FileFinding(file, moved, related))
    findings.add_omitted(found)
    return not findings.has_errors


def numbered(nodes: Sequence[FileNode]) -> list[FileNode]:
    """Return the nodes with ranks that count up in this order."""
    sizes = (len(node.node.devices) for node in nodes)
    first_ranks = accumulate(sizes, initial=0)
    return [
        node.with_ranks(first) for node, first in zip(nodes, first_ranks, strict=False)
    ]


def in_order(nodes: Sequence[FileNode], order: Order | None) -> Sequence[FileNode]:
    """Return the nodes in an order; each node keeps its ranks.

    Raises:
        ArgumentError: They have no hosts to sort by.
    """
    if order in (None, Order.GIVEN):
        return nodes
    if order is Order.BY_RANK:
        return sorted(nodes, key=lambda node: node.node.devices[0].rank)
    nameless = sum(node.host is None for node in nodes)
    if nameless:
        raise ArgumentError(
            f"--order by-host: {counted(nameless, 'node')} of {len(nodes)} "
            f"{'has' if nameless == 1 else 'have'} no host",
            hint="give the files in the order that you want",
        )
    return sorted(nodes, key=lambda node: host_key(node.host or ""))


def _in_order_of_hosts(
    nodes: Sequence[FileNode], hosts: Sequence[str], findings: FileFindings
) -> list[FileNode]:
    """Return the nodes in the order of a list; RT235 if the hosts differ.

    A host of the list is the node with that name, or the only node with this name
    without its domain.

    Raises:
        ArgumentError: The list names a host twice.
    """
    twice = [host for host, times in Counter(hosts).items() if times > 1]
    if twice:
        raise ArgumentError(f"--hosts: the host {twice[0]} is given twice")
    by_name = {node.host: node for node in nodes if node.host is not None}
    uses = Counter(map(short, by_name))
    by_short = {short(h): node for h, node in by_name.items() if uses[short(h)] == 1}
    chosen = [by_name.get(host) or by_short.get(short(host)) for host in hosts]
    missing = [h for h, node in zip(hosts, chosen, strict=True) if node is None]
    if missing:
        _report_missing(missing, len(hosts), findings)
    listed = [node for node in chosen if node is not None]
    known = set(map(id, listed))
    for node in nodes:
        if id(node) not in known:
            name = "a node without a host" if node.host is None else node.host
            message = f"{quoted(name)} is not in --hosts"
            findings.report(NOT_AS_LISTED, node.at(), message)
    return listed


def _report_missing(missing: list[str], wanted: int, findings: FileFindings) -> None:
    try:
        names = fold_hosts(missing)
    except ValueError:
        names = ", ".join(missing)
    findings.report(
        NOT_AS_LISTED,
        (0, None),
        f"nothing came from {counted(len(missing), 'host')} of {wanted}: {names}",
        hint="run ranktable probe there, or take it out of --hosts",
    )
