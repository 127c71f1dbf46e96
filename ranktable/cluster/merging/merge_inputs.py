"""The inputs of merge: rank tables, parts of tables, or ``ranktable probe`` lines."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.file_findings import FileFinding, FileFindings, InputFile
from ranktable.cluster.generate import ring_order
from ranktable.cluster.merging.merge_checks import (
    agreed_keys,
    check_duplicate_files,
    check_duplicate_nodes,
    check_formats,
    check_models,
    check_sizes,
)
from ranktable.cluster.merging.merge_nodes import (
    FileNode,
    Merged,
    Order,
    merge_nodes,
    node_of_table,
)
from ranktable.cluster.probes.read_probes import read_probes
from ranktable.cluster.splitting import without_job
from ranktable.schema.declare import LAYOUT_KEY, TOPOLOGY_KEY
from ranktable.schema.diagnostic import Finding, Severity
from ranktable.schema.formats import DEFAULT
from ranktable.schema.json_parser import decode
from ranktable.schema.model import Device, Node, RankTable
from ranktable.schema.remembered_layout import (
    LayoutTextError,
    parse_layout,
    world_size_of,
)
from ranktable.schema.rules.ranks import NOT_FROM_ZERO, RANK_GAP
from ranktable.schema.rules.shape import no_global_ranks
from ranktable.schema.rules.syntax import EMPTY_FILE
from ranktable.schema.super_pods import PODS, pods_of_all
from ranktable.schema.topology import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.cluster.merging.merge_nodes import MergeOptions
    from ranktable.cluster.probes.read_probes import ProbedNode
    from ranktable.schema.columns import Columns
    from ranktable.schema.diagnostic import Report
    from ranktable.schema.topology import Topology

OF_A_PART = (RANK_GAP.code, NOT_FROM_ZERO.code)
"""Findings that do not matter in a part of a table, such as ranks not from 0."""


def is_part(report: Report, also: Sequence[str] = ()) -> bool:
    """Whether a file is a sound table, except for ranks that other files may have.

    Args:
        report: Its findings.
        also: Codes of other errors that do not matter.
    """
    errors = report.count(Severity.ERROR)
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
    unsound = [_as_part(report) for report in reports if not is_part(report)]
    if unsound:
        return Merged(reports=tuple(unsound))
    files = [
        InputFile(file=report.file, text=report.text, format=report.format, path=path)
        for report, path in zip(reports, paths, strict=True)
    ]
    columns = [_columns(report) for report in reports]
    tables = [RankTable.from_columns(item) for item in columns]
    findings = FileFindings(files, options.limit)
    check_duplicate_files(findings)
    for index, item in enumerate(columns):
        if not item.format.has_global_ranks:
            found = no_global_ranks(item.format.name)
            findings.report(found.rule, (index, None), found.message, hint=found.hint)
    if findings.has_errors:
        return Merged(reports=findings.reports())
    format_ = check_formats([item.format for item in columns], findings)
    tops = [{"version": table.version, **table.extra} for table in tables]
    pods = pods_of_all(top.pop(PODS, None) for top in tops)
    tops_of_files = ((at, (), top) for at, top in enumerate(tops))
    extra = {**agreed_keys(tops_of_files, findings), **pods}
    extra.pop("version", None)
    nodes = [
        node
        for index, (table, source) in enumerate(zip(tables, columns, strict=True))
        for node in _nodes_of(table, source, index, files[index].file)
    ]
    if not findings.has_errors:
        check_duplicate_nodes(nodes, format_, findings, with_addresses=options.renumber)
        check_sizes(nodes, findings)
    if options.renumber and _is_of_another_size(extra.get(LAYOUT_KEY), nodes):
        extra = without_job(extra)
    # The table has the form of the first file.
    top = tables[0].with_changes(nodes=(), extra=extra)
    return merge_nodes(nodes, top, format_, options, findings)


def _is_of_another_size(layout: object, nodes: Sequence[FileNode]) -> bool:
    """Whether the layout in the files is for another number of ranks."""
    try:
        known = parse_layout(layout) if isinstance(layout, str) else None
    except LayoutTextError:
        return False
    size = sum(len(node.node.devices) for node in nodes)
    return known is not None and world_size_of(known) != size


def _nodes_of(
    table: RankTable, columns: Columns, file: int, file_name: str
) -> Iterator[FileNode]:
    """Yield the nodes of a table, with the places of each node and its devices."""
    ranks: Any = columns.ranks
    index_of = {min(ranks[start:end]): at for at, start, end in columns.nodes()}
    for node in table.nodes:
        index = index_of[min(device.rank for device in node.devices)]
        yield node_of_table(node, index, columns, file, file_name)


def _columns(report: Report) -> Columns:
    assert report.columns is not None
    return report.columns


def _as_part(report: Report) -> Report:
    """Return a report without the findings that do not matter in a part."""
    return report.only(lambda code: code not in OF_A_PART)


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
    read: list[InputFile] = []
    findings = FileFindings(read, options.limit)
    for file, content, path in zip(files, data, paths, strict=True):
        decoded = decode(content)
        if isinstance(decoded, Finding):
            decoded = content.decode("utf-8", "replace"), [decoded]
        text, found = decoded
        for finding in found:
            findings.add(FileFinding(len(read), finding))
        read.append(InputFile(file=file, text=text, path=path))
    check_duplicate_files(findings)
    nodes = [] if findings.has_errors else _nodes(options.topology, findings)
    if not nodes and not findings.has_errors:
        message = "there is no line of ranktable probe"
        findings.report(EMPTY_FILE, (0, None), message)
    if not nodes:
        return Merged(reports=findings.reports())
    format_ = DEFAULT
    check_duplicate_nodes(nodes, format_, findings)
    check_models(nodes, findings)
    check_sizes(nodes, findings)
    known = options.topology in BUILT_IN  # the table does not name files of links
    extra = {TOPOLOGY_KEY: options.topology.name} if options.topology and known else {}
    top = RankTable(nodes=(), format=format_.name, extra=extra)
    options = replace(options, order=options.order or Order.BY_HOST, renumber=True)
    return merge_nodes(nodes, top, format_, options, findings)


def _nodes(topology: Topology | None, findings: FileFindings) -> list[FileNode]:
    nodes = []
    for index, file in enumerate(findings.files):
        for item in read_probes(file.text or ""):
            if not isinstance(item, Finding):
                nodes.append(_node(index, file.file, item, topology))
                continue
            related = tuple((index, span) for span in item.related)
            findings.add(FileFinding(index, replace(item, related=()), related))
    return nodes


def _node(
    file: int, file_name: str, probed: ProbedNode, topology: Topology | None
) -> FileNode:
    probe = probed.probe
    addresses = {chip.device_id: chip.address for chip in probe.chips}
    devices = [
        Device(rank=0, device_id=device_id, address=addresses[device_id])
        for device_id in _in_order(probe.host, tuple(sorted(addresses)), topology)
    ]
    names = (name for chip in probe.chips for name in (chip.uuid, chip.serial))
    return FileNode(
        node=Node(devices=tuple(devices), host=probe.host),
        file=file,
        file_name=file_name,
        line=lambda: probed.span,
        identifiers=frozenset(name for name in names if name),
        vendor=probe.vendor,
        model=probe.model,
    )


def _in_order(
    host: str, device_ids: tuple[int, ...], topology: Topology | None
) -> Sequence[int]:
    """Return the chips of a node in the order of their ranks."""
    if topology is None:
        return device_ids
    try:
        return _ring(device_ids, topology)
    except ArgumentError as error:
        reason = f"--ring: {host}: {error.reason}"
        raise ArgumentError(reason, hint=error.hint) from None


@lru_cache(maxsize=256)  # the nodes of a cluster have the same few sets of chips
def _ring(device_ids: tuple[int, ...], topology: Topology) -> list[int]:
    return ring_order(device_ids, topology)
