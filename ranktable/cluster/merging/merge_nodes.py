"""From nodes of several files to one sound table, or to what is wrong with them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.file_findings import Place, Remarks, reports_of
from ranktable.cluster.host_lists import fold_hosts
from ranktable.cluster.merging.merge_checks import check_ranks, numbered
from ranktable.cluster.merging.merge_rules import NOT_AS_LISTED
from ranktable.schema.check import Options
from ranktable.schema.document import SourceSpan
from ranktable.schema.messages import counted, quoted
from ranktable.schema.model import RankTable
from ranktable.schema.quota import Quota
from ranktable.schema.writing import encode, judge_document, to_document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ranktable.cluster.file_findings import Remarks, Source
    from ranktable.schema.check import Report
    from ranktable.schema.document import Path
    from ranktable.schema.finding import Finding
    from ranktable.schema.formats.format import Format
    from ranktable.schema.model import Node
    from ranktable.schema.topology import Topology


class Order(str, Enum):
    """How the nodes of a merged table are put in order."""

    GIVEN = "given"
    BY_RANK = "by-rank"
    BY_HOST = "by-host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
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


_NUMBER = re.compile(r"([0-9]+)")

HostKey = tuple[tuple[str | int, ...], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One node of one file.

    Attributes:
        node: The node; the ranks of a probe's are all 0.
        source: Index of its file.
        file: Name of its file.
        path: Path of the node in the document of its file, None for a probe's.
        line: Gives the spot of a probe's host, None for a node of a table.
        identifiers: UUIDs and serial numbers of its chips.
        vendor: Who makes its chips, None when that is not known.
        model: What its chips are, None when that is not known or they differ.
    """

    node: Node
    source: int
    file: str
    path: Path | None = None
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

    def whereabouts(self, other: Member) -> str:
        """Return where this node is, for a message about another one."""
        return "an earlier node" if self.source == other.source else self.file

    def at(self, *steps: str | int, label: str | None = None) -> Place:
        """Return the place of something below the node, or of a probe's host."""
        if self.path is not None:
            return Place(self.source, SourceSpan((*self.path, *steps), label=label))
        assert self.line is not None  # noqa: S101 - a probe's
        return Place(self.source, replace(self.line(), label=label))


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


def in_order(members: Sequence[Member], order: Order) -> list[Member]:
    """Return the nodes in an order; ranks stay with their nodes.

    Raises:
        ArgumentError: They have no hosts to go by.
    """
    if order is Order.GIVEN:
        return list(members)
    if order is Order.BY_RANK:
        return sorted(members, key=lambda member: member.node.devices[0].rank)
    nameless = sum(member.host is None for member in members)
    if nameless:
        raise ArgumentError(
            f"--order by-host: {counted(nameless, 'node')} of {len(members)} "
            f"{'has' if nameless == 1 else 'have'} no host",
            hint="give the files in the order that you want",
        )
    return sorted(members, key=lambda member: host_key(member.host or ""))


def in_order_of_hosts(
    members: Sequence[Member], hosts: Sequence[str], remarks: Remarks
) -> list[Member]:
    """Return the nodes in the order of a list; RT235 when they are not its hosts.

    A host of the list is the node with that name, else the only one whose name without
    its domain is the same.

    Raises:
        ArgumentError: The list names a host twice.
    """
    twice = [host for host, count in Counter(hosts).items() if count > 1]
    if twice:
        raise ArgumentError(f"--hosts: the host {twice[0]} is given twice")
    by_name = {member.host: member for member in members if member.host is not None}
    by_short = _unambiguous(by_name)
    chosen = [by_name.get(host) or by_short.get(short(host)) for host in hosts]
    missing = [h for h, m in zip(hosts, chosen, strict=True) if m is None]
    if missing:
        _lament(missing, len(hosts), remarks)
    listed = [member for member in chosen if member is not None]
    known = set(map(id, listed))
    for member in members:
        if id(member) not in known:
            name = "a node without a host" if member.host is None else member.host
            remarks.add(NOT_AS_LISTED, member.at(), f"{quoted(name)} is not in --hosts")
    return listed


def _unambiguous(by_name: dict[str, Member]) -> dict[str, Member]:
    found = Counter(map(short, by_name))
    return {
        short(host): member
        for host, member in by_name.items()
        if found[short(host)] == 1
    }


def _lament(missing: list[str], wanted: int, remarks: Remarks) -> None:
    try:
        names = fold_hosts(missing)
    except ValueError:
        names = ", ".join(missing)
    remarks.add(
        NOT_AS_LISTED,
        Place(0),
        f"nothing came of {counted(len(missing), 'host')} of {wanted}: {names}",
        hint="run ranktable probe there, or take it out of --hosts",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What came of it.

    Attributes:
        table: The table, None when there are errors.
        data: The bytes of its file, None when there are errors.
        reports: Every file that something is said of, in the order of the files.
    """

    table: RankTable | None = None
    data: bytes | None = field(default=None, repr=False)
    reports: tuple[Report, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Nodes that go together, before they are put in order.

    Attributes:
        sources: The files.
        members: The nodes, in the order of the files.
        format: Format of the table.
        top: The table without its nodes.
    """

    sources: Sequence[Source]
    members: Sequence[Member]
    format: Format
    top: RankTable


def finish(draft: Draft, wishes: Wishes, remarks: Remarks) -> Merged:
    """Return the table of a draft, or why there is none.

    Raises:
        ArgumentError: The nodes cannot be put in the order that is wished for.
    """
    members = list(draft.members)
    if not remarks.has_errors and wishes.hosts is not None:
        members = in_order_of_hosts(members, wishes.hosts, remarks)
    elif not remarks.has_errors:
        members = in_order(members, wishes.order or Order.GIVEN)
    if wishes.renumber:
        members = numbered(members)
    elif not remarks.has_errors:
        check_ranks(members, draft.format, remarks)
    if remarks.has_errors:
        return Merged(reports=reports_of(draft.sources, remarks))
    return _judged(replace(draft, members=members), wishes, remarks)


def _judged(draft: Draft, wishes: Wishes, remarks: Remarks) -> Merged:
    """Return the table, if the rules for a table find no error in it either."""
    nodes = tuple(member.node for member in draft.members)
    top = draft.top
    table = RankTable(
        nodes=nodes,
        version=top.version,
        format=top.format,
        extra=top.extra,
        layout=top.layout,
    )
    document = to_document(table, draft.format)
    quota = Quota(wishes.limit)
    options = Options(topology=wishes.topology)
    for finding in judge_document(table, draft.format, document, options, quota):
        _take(finding, draft, remarks)
    remarks.take_omitted(quota)
    reports = reports_of(draft.sources, remarks)
    if remarks.has_errors:
        return Merged(reports=reports)
    return Merged(table=table, data=encode(document), reports=reports)


def _take(finding: Finding, draft: Draft, remarks: Remarks) -> None:
    """Keep a finding about the merged table where its node was read."""
    place = Place(0) if finding.span is None else _home(finding.span, draft)
    related = tuple(_home(spot, draft) for spot in finding.related)
    remarks.take(replace(finding, span=place.spot, related=()), place, related)


def _home(spot: SourceSpan, draft: Draft) -> Place:
    """Return the place of a spot of the merged document in the file it came from."""
    key, *steps = spot.path or ("",)
    if key != draft.format.nodes_key or not steps:
        return Place(0)
    member = draft.members[int(steps[0])]
    place = member.at(*steps[1:], label=spot.label)
    if place.spot is not None and place.spot.offsets is None:
        return replace(place, spot=replace(place.spot, part=spot.part))
    return place
