"""Merge the tables or the probe lines of several nodes into one table.

A finding names the file and the host, or has the line of a probe. Everything that is
wrong with the nodes is found in one run: nodes that are doubled do not hide missing
ones.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.cluster import merge_rules as rules
from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.generate import ring_order
from ranktable.cluster.host_lists import fold_hosts
from ranktable.cluster.probes.probe_rules import MIXED_CHIPS
from ranktable.cluster.probes.read_probes import is_probe_text, read_probes
from ranktable.cluster.splitting import without_job
from ranktable.schema.declare import LAYOUT_KEY, SPARES_KEY, TOPOLOGY_KEY
from ranktable.schema.file_kind import FileKind
from ranktable.schema.finding import Finding, Findings, Severity
from ranktable.schema.formats import DEFAULT, by_name
from ranktable.schema.json_parser import decode
from ranktable.schema.model import Device, Node, RankTable
from ranktable.schema.plain_data import plain_data, spelt_lists
from ranktable.schema.remembered_layout import (
    LayoutTextError,
    parse_layout,
    world_size_of,
)
from ranktable.schema.report import Options, Report, make_report
from ranktable.schema.rules.ranks import NOT_FROM_ZERO, RANK_GAP
from ranktable.schema.rules.syntax import EMPTY_FILE
from ranktable.schema.super_pods import PODS, objects
from ranktable.schema.text import counted, named_ranks, printable, quoted
from ranktable.schema.topology import BUILT_IN
from ranktable.schema.values import is_loopback
from ranktable.schema.writing import judged_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.cluster.probes.read_probes import ProbedNode
    from ranktable.schema.declare import Format
    from ranktable.schema.document import SourceSpan
    from ranktable.schema.file_kind import Source
    from ranktable.schema.finding import Rule
    from ranktable.schema.topology import Topology

OF_A_PART = (RANK_GAP.code, NOT_FROM_ZERO.code)
"""Findings that do not matter in a part of a table, such as ranks not from 0."""

_NUMBER = re.compile(r"([0-9]+)")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One node of one file.

    Attributes:
        node: The node; in a node of a probe all ranks are 0.
        file: Index of its file.
        probe: The line of a probe, None for a node of a table.
    """

    node: Node
    file: int
    probe: ProbedNode | None = None

    @property
    def called(self) -> str:
        """Its host, as the subject of a sentence."""
        return "a node" if self.node.host is None else printable(self.node.host)

    @property
    def make(self) -> tuple[str | None, str | None]:
        """Maker and model of its chips, as far as they are known."""
        return (None, None) if self.probe is None else self.probe.make

    def names(self, *, with_addresses: bool) -> Iterator[tuple[str, str]]:
        """Yield values that only one node can have, with the kind of each.

        Args:
            with_addresses: Whether an address identifies a node. It does if every node
                has made its own file, but not for parts of one table.
        """
        if self.node.host is not None:
            yield "host", self.node.host
        elif with_addresses:
            for device in self.node.devices:
                address = device.address or ""
                if address and not (device.is_emulated or is_loopback(address)):
                    yield "address", address
        for identifier in self.probe.identifiers if self.probe else ():
            yield "chip", identifier


class _Findings:
    """What is found in the files, at most a given number of each code."""

    def __init__(
        self, files: Sequence[str], texts: Sequence[str | None], limit: int | None
    ) -> None:
        self.files = files
        self.texts = texts
        self.every = Findings(limit=limit)
        self.by_file = [Findings() for _ in files]

    def report(
        self, rule: Rule, part: Part | int, message: str, hint: str | None = None
    ) -> None:
        """Add a finding about a file or about a node in it."""
        file = part if isinstance(part, int) else part.file
        self.add(file, rule.finding(_span(part), message, hint=hint))

    def add(self, file: int, finding: Finding) -> None:
        """Add a finding; of each kind the first ones are kept."""
        before = len(self.every.kept)
        self.every.add(finding)
        if len(self.every.kept) > before:
            self.by_file[file].add(finding)
        else:
            self.by_file[file].omit(finding.rule, 1, finding.severity)

    def merged(self) -> Merged:
        """Return the reports of the files with findings, and no table."""
        parts = zip(self.files, self.texts, self.by_file, strict=True)
        return Merged(
            reports=tuple(
                make_report(found, file=file, text=text)
                for file, text, found in parts
                if found
            )
        )


def _span(part: Part | int) -> SourceSpan | None:
    is_probe = isinstance(part, Part) and part.probe is not None
    return part.probe.span if is_probe else None  # type: ignore[union-attr]


def is_part(report: Report, also: Sequence[str] = ()) -> bool:
    """Whether a file is a sound table, except for ranks that other files may have.

    Args:
        report: Its findings.
        also: Codes of other errors that do not matter.
    """
    errors = report.where_needed().count(Severity.ERROR)
    return errors == sum(report.totals.get(code, 0) for code in (*OF_A_PART, *also))


def merge_tables(
    reports: Sequence[Report], paths: Sequence[str | None], options: MergeOptions
) -> Merged:
    """Return one table with the nodes of several tables.

    Args:
        reports: The report of each file. A file may be a part of a table, whose ranks
            do not begin at 0 or have gaps.
        paths: The real path of each file, None for standard input.
        options: Order of the nodes and numbering of the ranks.

    Raises:
        ArgumentError: The requested order of the nodes is not possible.
    """
    reports = [report.where_needed() for report in reports]
    unsound = [
        report.only(lambda code: code not in OF_A_PART)
        for report in reports
        if not is_part(report)
    ]
    if unsound:
        return Merged(reports=tuple(unsound))
    files = [report.file for report in reports]
    found = _Findings(files, [report.text for report in reports], options.limit)
    once = _given_once(paths, found)
    tables = [
        (at, RankTable.from_columns(report.columns))
        for at, report in enumerate(reports)
        if at in once and report.columns is not None
    ]
    first = tables[0][1]
    for at, table in tables:
        if table.format != first.format:
            message = f"the format is {table.format}, and {first.format} in {files[0]}"
            found.report(rules.PARTS_DISAGREE, at, message)
    if any(rule is not rules.REPEATED_NODE for rule, _ in found.every.counts):
        return found.merged()
    extra, spares = _agreed_keys(tables, found)
    parts = [Part(node=node, file=at) for at, table in tables for node in table.nodes]
    if options.renumber and _is_of_another_size(extra.get(LAYOUT_KEY), parts):
        extra, spares = without_job(extra), ()
    pods = [pod for _, table in tables for pod in objects(table.super_pod_list)]
    # The table has the form of the first file.
    top = first.with_changes(
        nodes=(), spares=spares, extra=extra, super_pod_list=pods or None
    )
    return _merge(parts, top, options, found)


def _given_once(paths: Sequence[str | None], found: _Findings) -> set[int]:
    """Return the files without those that are given again, which are reported."""
    first: dict[str, int] = {}
    once = set()
    for at, path in enumerate(paths):
        before = at if path is None else first.setdefault(path, at)
        if before == at:
            once.add(at)
        else:
            message = "the file is given twice, the first time as "
            found.report(rules.REPEATED_NODE, at, message + found.files[before])
    return once


def _agreed_keys(
    tables: Sequence[tuple[int, RankTable]], found: _Findings
) -> tuple[dict[str, object], tuple[Node, ...]]:
    """Return the keys and spares of a table; RT233 if two files have different ones."""
    agreed: dict[str, tuple[int, object]] = {}
    for at, table in tables:
        lists = spelt_lists(table, by_name(table.format))
        lists.pop(PODS, None)  # every part has its own servers
        for key, value in {"version": table.version, **table.extra, **lists}.items():
            file, other = agreed.setdefault(key, (at, value))
            if other != value:
                message = f"{key} is {quoted(value)}, and {quoted(other)} in "
                found.report(rules.PARTS_DISAGREE, at, message + found.files[file])
    del agreed["version"]
    of_spares, _ = agreed.pop(SPARES_KEY, (0, None))
    spares = dict(tables)[of_spares].spares
    return {key: value for key, (_, value) in agreed.items()}, spares


def _is_of_another_size(layout: object, parts: Sequence[Part]) -> bool:
    """Whether the layout in the files is for another number of ranks."""
    try:
        known = parse_layout(layout) if isinstance(layout, str) else None
    except LayoutTextError:
        return False
    size = sum(len(part.node.devices) for part in parts)
    return known is not None and world_size_of(known) != size


def _judge_probes(source: Source, options: Options) -> list[Report]:
    request = MergeOptions(limit=options.limit)
    found = merge_probes([source.name], [source.data], [None], request).reports
    return list(found) or [Report(file=source.name, format="probe", text="")]


PROBES = FileKind(
    name="probe",
    title="lines of ranktable probe",
    detect=lambda start, _: is_probe_text(start),
    judge=_judge_probes,
    endings=(".json", ".jsonl", ".ndjson", ".log", ".out", ".txt"),
    is_clear=lambda start: start.lstrip().startswith(b'{"probe"'),
    advice="ranktable merge {file} -o TABLE makes their table",
)


def merge_probes(
    files: Sequence[str],
    data: Sequence[bytes],
    paths: Sequence[str | None],
    options: MergeOptions,
) -> Merged:
    """Return the table of the nodes that have printed these lines.

    Ranks count up over the nodes, which are sorted by host unless another order is
    requested. The chips of a node are sorted by device_id, or in ring order if the
    links are known.

    Args:
        files: Name of every file.
        data: Its bytes.
        paths: Its real path, None for standard input.
        options: Order of the nodes, and the links of every host.

    Raises:
        ArgumentError: The requested order of the nodes is not possible, or the chips of
            a node do not form a ring.
    """
    decoded = [decode(content) for content in data]
    texts = [
        data[at].decode("utf-8", "replace") if isinstance(each, Finding) else each[0]
        for at, each in enumerate(decoded)
    ]
    found = _Findings(files, texts, options.limit)
    for at, each in enumerate(decoded):
        for finding in [each] if isinstance(each, Finding) else each[1]:
            found.add(at, finding)
    parts = []
    for at in () if found.every.has_errors else sorted(_given_once(paths, found)):
        for item in read_probes(texts[at]):
            if isinstance(item, Finding):
                found.add(at, item)
            else:
                parts.append(_probed(item, at, options.topology))
    if not parts:
        if not found.every.has_errors:
            found.report(EMPTY_FILE, 0, "there is no line of ranktable probe")
        return found.merged()
    known = options.topology in BUILT_IN  # the table does not name files of links
    extra = {TOPOLOGY_KEY: options.topology.name} if options.topology and known else {}
    top = RankTable(nodes=(), format=DEFAULT.name, extra=extra)
    order = options.order or Order.BY_HOST
    return _merge(parts, top, replace(options, order=order, renumber=True), found)


def _probed(item: ProbedNode, file: int, topology: Topology | None) -> Part:
    addresses = {chip.device_id: chip.address for chip in item.probe.chips}
    order = tuple(sorted(addresses))
    try:
        chips = order if topology is None else _ring(order, topology)
    except ArgumentError as error:
        reason = f"--ring: {item.probe.host}: {error.reason}"
        raise ArgumentError(reason, hint=error.hint) from None
    devices = tuple(Device(rank=0, device_id=c, address=addresses[c]) for c in chips)
    node = Node(devices=devices, host=item.probe.host)
    return Part(node=node, file=file, probe=item)


@lru_cache(maxsize=256)  # the nodes of a cluster have the same few sets of chips
def _ring(device_ids: tuple[int, ...], topology: Topology) -> tuple[int, ...]:
    return tuple(ring_order(device_ids, topology))


def _merge(
    parts: Sequence[Part], top: RankTable, options: MergeOptions, found: _Findings
) -> Merged:
    """Return the table of some nodes, or reports of why there is none."""
    parts = _without_doubles(parts, options, found)
    _check_alike(parts, found)
    parts = _in_order(parts, options, found)
    format_ = by_name(top.format)
    if options.renumber:
        parts = list(_numbered(parts, is_sorted=not format_.keeps_file_order))
    else:
        _check_ranks(parts, found)
    if found.every.has_errors or not parts:
        return found.merged()
    table = top.with_changes(nodes=[part.node for part in parts])
    vendor, _ = parts[0].make
    judged = Options(topology=options.topology, limit=options.limit, vendor=vendor)
    data, defects = judged_document(format_, plain_data(table, format_), judged)
    for defect in defects:
        part = _part_of(defect, parts, format_)
        moved = defect._replace(span=_span(part), related=())
        found.add(part if isinstance(part, int) else part.file, moved)
    for (rule, severity), number in defects.omitted().items():
        found.by_file[0].omit(rule, number, severity)
        found.every.omit(rule, number, severity)
    merged = found.merged()
    is_sound = all(report.ok for report in merged.reports)
    return replace(merged, table=table, data=data) if is_sound else merged


def _part_of(finding: Finding, parts: Sequence[Part], format_: Format) -> Part | int:
    """Return the node that a finding in the merged table is about, else the file 0."""
    path = finding.span.path if finding.span else ()
    is_of_node = path[:1] == (format_.nodes_key,) and len(path) > 1
    return parts[int(path[1])] if is_of_node and not format_.keeps_document else 0


def _without_doubles(
    parts: Sequence[Part], options: MergeOptions, found: _Findings
) -> list[Part]:
    """Return the nodes without those that are there already, which are reported."""
    first: dict[tuple[str, str], Part] = {}
    once = []
    for part in parts:
        for kind, name in part.names(with_addresses=options.renumber):
            other = first.setdefault((kind, name), part)
            # Nodes of one table may share an address.
            if other is not part and (kind != "address" or other.file != part.file):
                place = f"also in {found.files[other.file]}"
                if other.file == part.file:
                    place = "also in an earlier node"
                hint = "leave one of the two out"
                if part.probe is not None:
                    hint = "run probe once per node: srun --ntasks-per-node=1"
                message = f"the {kind} {quoted(name)} is {place}"
                found.report(rules.REPEATED_NODE, part, message, hint)
                break
        else:
            once.append(part)
    return once


def _check_alike(parts: Sequence[Part], found: _Findings) -> None:
    """Report every node with other or fewer chips than most (RT144, RT232)."""
    sizes = Counter(len(part.node.devices) for part in parts)
    usual = max(sizes, key=lambda size: (sizes[size], size), default=0)
    makes = Counter(part.make for part in parts)
    common = makes.most_common(1)[0][0] if makes else (None, None)
    for part in parts:
        size = len(part.node.devices)
        if size != usual:
            found.report(
                rules.UNEQUAL_NODES,
                part,
                f"{part.called} has {counted(size, 'device')}; {sizes[usual]} of "
                f"{len(parts)} nodes have {usual}",
            )
        pairs = zip(part.make, common, strict=True)
        if any(one != other and None not in (one, other) for one, other in pairs):
            message = f"{part.called} has chips of {_make(part.make)}, most nodes have "
            found.report(MIXED_CHIPS, part, message + _make(common))


def _make(make: tuple[str | None, str | None]) -> str:
    return printable(" ".join(filter(None, (make[0] or "unknown make", make[1]))))


def host_key(host: str) -> tuple[tuple[str | int, ...], str]:
    """Return a sort key that compares the numbers in hosts as numbers.

    >>> sorted(["n10", "n9", "n1", "login"], key=host_key)
    ['login', 'n1', 'n9', 'n10']
    """
    pieces = _NUMBER.split(host)
    # Texts and numbers alternate, so that two keys compare the same types.
    return tuple(int(p) if i % 2 else p for i, p in enumerate(pieces)), host


def _in_order(
    parts: Sequence[Part], options: MergeOptions, found: _Findings
) -> Sequence[Part]:
    """Return the nodes in the requested order; each node keeps its ranks.

    Raises:
        ArgumentError: They have no hosts to sort by, or a host is listed twice.
    """
    if options.hosts is not None:
        return _as_listed(parts, options.hosts, found)
    if options.order is Order.BY_RANK:
        return sorted(parts, key=lambda part: part.node.devices[0].rank)
    if options.order is not Order.BY_HOST:
        return parts
    nameless = sum(part.node.host is None for part in parts)
    if nameless:
        raise ArgumentError(
            f"--order by-host: {counted(nameless, 'node')} of {len(parts)} "
            f"{'has' if nameless == 1 else 'have'} no host",
            hint="give the files in the order that you want",
        )
    return sorted(parts, key=lambda part: host_key(part.node.host or ""))


def _as_listed(
    parts: Sequence[Part], hosts: Sequence[str], found: _Findings
) -> list[Part]:
    """Return the nodes in the order of a list; RT235 if the hosts differ.

    A host of the list is the node with that name, or the only node with this name
    without its domain.
    """
    twice = [host for host, times in Counter(hosts).items() if times > 1]
    if twice:
        raise ArgumentError(f"--hosts: the host {twice[0]} is given twice")
    by_name = {part.node.host: part for part in parts if part.node.host is not None}
    uses = Counter(map(_short, by_name))
    by_short = {_short(h): part for h, part in by_name.items() if uses[_short(h)] == 1}
    chosen = [by_name.get(host) or by_short.get(_short(host)) for host in hosts]
    missing = [host for host, part in zip(hosts, chosen, strict=True) if part is None]
    if missing:
        message = f"nothing came from {counted(len(missing), 'host')} of {len(hosts)}: "
        hint = "run ranktable probe there, or take it out of --hosts"
        found.report(rules.NOT_AS_LISTED, 0, message + fold_hosts(missing), hint)
    listed = [part for part in chosen if part is not None]
    known = set(map(id, listed))
    for part in parts:
        if id(part) not in known:
            name = part.node.host or "a node without a host"
            found.report(rules.NOT_AS_LISTED, part, f"{quoted(name)} is not in --hosts")
    return listed


def _short(host: str) -> str:
    """Return a host without its domain; an address is not changed."""
    name = host.partition(".")[0]
    return host if not name or name.isdigit() else name


def _numbered(parts: Sequence[Part], *, is_sorted: bool) -> Iterator[Part]:
    """Yield the nodes with ranks that count up in this order.

    Chips of tables are in numeric order where a file does not give local ranks.
    """
    rank = 0
    for part in parts:
        devices = list(part.node.devices)
        if is_sorted and part.probe is None:
            devices.sort(key=lambda device: device.device_id)
        ranked = [structs.replace(d, rank=rank + at) for at, d in enumerate(devices)]
        rank += len(devices)
        yield replace(part, node=structs.replace(part.node, devices=tuple(ranked)))


def _check_ranks(parts: Sequence[Part], found: _Findings) -> None:
    """Report ranks that two nodes have (RT231) and ranks that are missing (RT234)."""
    owners: dict[int, Part] = {}
    has_clash = False
    for part in parts:
        ranks = [device.rank for device in part.node.devices]
        clashes = sorted(r for r in ranks if owners.setdefault(r, part) is not part)
        if clashes:
            has_clash = True
            verb = "is" if len(clashes) == 1 else "are"
            other = found.files[owners[clashes[0]].file]
            message = f"{named_ranks(clashes)} of {part.called} {verb} also in {other}"
            hint = "--renumber counts the ranks anew, in the order of the nodes"
            found.report(rules.RANK_CLASH, part, message, hint)
    size = len(owners)
    free = [] if has_clash else [rank for rank in range(size) if rank not in owners]
    if free:
        after = owners[min(rank for rank in owners if rank > free[0])]
        found.report(
            rules.MISSING_RANKS,
            after,
            f"no file has {named_ranks(free)}: {counted(size, 'device')} need the "
            f"ranks 0 to {size - 1}",
            "give the file that is missing, or count anew with --renumber",
        )
