"""From nodes of several files to one sound table, or to what is wrong with them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.file_findings import FileFinding
from ranktable.cluster.host_lists import fold_hosts
from ranktable.cluster.merging.merge_checks import NOT_AS_LISTED, check_ranks
from ranktable.schema.diagnostic import Options, Quota, counted, quoted
from ranktable.schema.document import SourceSpan
from ranktable.schema.writing import encode, judge_document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ranktable.cluster.file_findings import FileFindings, FileSpan
    from ranktable.schema.columns import Columns
    from ranktable.schema.diagnostic import Finding, Report
    from ranktable.schema.format import Format
    from ranktable.schema.model import Node, RankTable
    from ranktable.schema.topology import Topology

_NUMBER = re.compile(r"([0-9]+)")

HostKey = tuple[tuple[str | int, ...], str]


class Order(str, Enum):
    """How the nodes of a merged table are put in order."""

    GIVEN = "given"
    BY_RANK = "by-rank"
    BY_HOST = "by-host"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions:
    """How nodes are to be merged.

    Attributes:
        order: Order of the nodes, None for the one that suits the files.
        hosts: The hosts in the order of the nodes, None when they are not listed.
        renumber: Whether ranks are counted anew.
        topology: Links of every host, None when unknown.
        limit: Findings of each code to keep, None for all.
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
        node: The node; the ranks of a probe's are all 0.
        file: Index of its file.
        file_name: Name of its file.
        source: Columns of its table, None for a probe's.
        index: Its index in them.
        places: The index of each of its devices in them.
        line: Gives the span of a probe's host, None for a node of a table.
        identifiers: UUIDs and serial numbers of its chips.
        vendor: Who makes its chips, None when that is not known.
        model: What its chips are, None when that is not known or they differ.
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
        """Its host, None if none is known."""
        return self.node.host

    def origin(self, other: FileNode) -> str:
        """Return where this node is, for a message about another one."""
        return "an earlier node" if self.file == other.file else self.file_name

    def at(self, *steps: str | int, label: str | None = None) -> FileSpan:
        """Return the place of something below the node, or of a probe's host.

        Devices are counted as the node has them, which need not be as the file does.
        """
        if self.source is None:
            assert self.line is not None  # noqa: S101 - a probe's
            return self.file, replace(self.line(), label=label)
        path = self.source.node_path(self.index)
        if len(steps) > 1 and steps[0] == self.source.format.devices_key:
            path, steps = self.source.device_path(self.places[int(steps[1])]), steps[2:]
        return self.file, SourceSpan((*path, *steps), label=label)

    def with_ranks(self, first: int) -> FileNode:
        """Return the node with ranks that count from one on.

        Chips are in numeric order, unless their order in the file is that of the ranks.
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


def host_key(host: str) -> HostKey:
    """Return the key under which hosts are in the order of their numbers.

    >>> sorted(["n10", "n9", "n1", "login"], key=host_key)
    ['login', 'n1', 'n9', 'n10']
    """
    pieces = _NUMBER.split(host)
    # Texts and numbers alternate, so that two keys compare alike with alike.
    return tuple(int(p) if i % 2 else p for i, p in enumerate(pieces)), host


def short(host: str) -> str:
    """Return a host without its domain; an address has none.

    >>> short("n1.site"), short("10.0.0.1")
    ('n1', '10.0.0.1')
    """
    name = host.partition(".")[0]
    return host if not name or name.isdigit() else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The result of merging.

    Attributes:
        table: The table, None when there are errors.
        data: The bytes of its file, None when there are errors.
        reports: Every file with findings, in the order of the files.
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
    """Return the table of nodes, or why there is none.

    Args:
        nodes: The nodes, in the order of their files.
        top: The table without its nodes.
        format_: Its format.
        options: Order of the nodes, and numbering of the ranks.
        findings: What was found in the files.

    Raises:
        ArgumentError: The nodes cannot be put in the order that is asked for.
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
    document = format_.write(table)
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
    """Report what the rules for a table find; return whether that is not an error.

    Each finding is placed where its node was read.
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

    def moved(finding: Finding) -> FileFinding:
        file, span = origin(finding.span)
        related = tuple(map(origin, finding.related))
        return FileFinding(file, replace(finding, span=span, related=()), related)

    quota = Quota(options.limit)
    rules = Options(topology=options.topology)
    for finding in judge_document(format_, document, rules, quota):
        findings.add(moved(finding))
    findings.add_omitted(quota)
    return not findings.has_errors


def numbered(nodes: Sequence[FileNode]) -> list[FileNode]:
    """Return the nodes with ranks that count over them in their order."""
    sizes = (len(node.node.devices) for node in nodes)
    first_ranks = accumulate(sizes, initial=0)
    return [
        node.with_ranks(first) for node, first in zip(nodes, first_ranks, strict=False)
    ]


def in_order(nodes: Sequence[FileNode], order: Order | None) -> Sequence[FileNode]:
    """Return the nodes in an order; ranks stay with their nodes.

    Raises:
        ArgumentError: They have no hosts to go by.
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
    """Return the nodes in the order of a list; RT235 when they are not its hosts.

    A host of the list is the node with that name, else the only one whose name without
    its domain is the same.

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
