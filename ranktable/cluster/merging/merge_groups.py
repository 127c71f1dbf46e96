"""Merge tables of groups (server-groups): the servers of each group are joined."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.merging.merge_checks import (
    REPEATED_NODE,
    agreed_keys,
    check_ranks,
    check_sizes,
)
from ranktable.cluster.merging.merge_nodes import (
    FileNode,
    Merged,
    host_key,
    in_order,
    judged,
    node_of_table,
    numbered,
)
from ranktable.cluster.tables_of_groups import SERVERS, server_with_ranks
from ranktable.schema.check import loads
from ranktable.schema.diagnostic import printable, quoted
from ranktable.schema.formats.server_groups import FORMAT, KEY
from ranktable.schema.super_pods import PODS, pods_of_all
from ranktable.schema.writing import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.cluster.file_findings import FileFindings, FileSpan
    from ranktable.cluster.merging.merge_nodes import MergeOptions
    from ranktable.schema.columns import Columns
    from ranktable.schema.document import Path, SourceSpan
    from ranktable.schema.model import RankTable

COUNT = "server_count"
_OF_SERVERS = (COUNT, SERVERS, PODS)


@dataclass(slots=True)
class _Group:
    """One group of the merged table.

    Attributes:
        name: Its group_id.
        parts: For each file with the group: index of the file, path there, plain data.
        nodes: Its servers.
    """

    name: str
    parts: list[tuple[int, Path, dict[str, Any]]] = field(default_factory=list)
    nodes: list[FileNode] = field(default_factory=list)


def merge_groups(
    tables: Sequence[RankTable],
    sources: Sequence[Columns],
    options: MergeOptions,
    findings: FileFindings,
) -> Merged:
    """Return one table with the groups of all files; a group may be in several files.

    Args:
        tables: The tables of groups.
        sources: The columns of each.
        options: Order of the servers in a group, and numbering of its ranks.
        findings: The findings so far, to which these are added.

    Raises:
        ArgumentError: The requested order of the servers is not possible.
    """
    if options.hosts is not None:
        raise ArgumentError(
            "--hosts lists the nodes of one job; a table of groups has several jobs"
        )
    documents: list[Any] = [table.document for table in tables]
    tops = ((at, (), _without(one, KEY)) for at, one in enumerate(documents))
    top = agreed_keys(tops, findings)
    groups = _groups_of(tables, sources, findings)
    listed = [_joined(group, options, findings) for group in groups]
    _check_addresses(groups, findings)
    document = {**top, KEY: listed}
    if findings.has_errors or not _is_sound(document, groups, options, findings):
        return Merged(reports=findings.reports())
    data = encode(document)
    return Merged(table=loads(data), data=data, reports=findings.reports())


def _without(members: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key not in keys}


def _groups_of(
    tables: Sequence[RankTable], sources: Sequence[Columns], findings: FileFindings
) -> list[_Group]:
    """Return the groups of all files, in the order of their numbers."""
    groups: dict[str, _Group] = {}
    for file, (table, source) in enumerate(zip(tables, sources, strict=True)):
        document: Any = table.document
        for place, data in enumerate(document[KEY]):
            name = str(data["group_id"])
            group = groups.setdefault(name, _Group(name))
            group.parts.append((file, (KEY, place), data))
        file_name = findings.files[file].file
        for index, node in enumerate(table.nodes):
            found = node_of_table(node, index, source, file, file_name)
            groups[str(node.group)].nodes.append(found)
    return sorted(groups.values(), key=lambda group: host_key(group.name))


def _joined(
    group: _Group, options: MergeOptions, findings: FileFindings
) -> dict[str, Any]:
    """Return the plain data of a group; its nodes become those of the data."""
    parts = (
        (file, path, _without(one, *_OF_SERVERS)) for file, path, one in group.parts
    )
    of = f" of the group {printable(group.name)}"
    keys: dict[str, Any] = agreed_keys(parts, findings, of)
    nodes = list(_different(group.nodes, findings))
    busy = [node for node in nodes if node.node.devices]
    if busy and not findings.has_errors:
        check_sizes(busy, findings)
        busy = list(in_order(busy, options.order))
        if options.renumber:
            busy = numbered(busy)
        elif not _begins_anew(busy):
            check_ranks(busy, findings)
    group.nodes = [node for node in nodes if not node.node.devices] + busy
    joined = {**keys, SERVERS: [_server(node) for node in group.nodes]}
    first = group.parts[0][2]
    if COUNT in first:
        joined[COUNT] = type(first[COUNT])(len(group.nodes))
    pods = pods_of_all(part.get(PODS) for _, _, part in group.parts)
    return {**{key: joined[key] for key in first if key in joined}, **joined, **pods}


def _different(nodes: Sequence[FileNode], findings: FileFindings) -> Iterator[FileNode]:
    """Yield the servers of a group, each once; RT230 for a repeated one.

    A coordinator or a controller without chips may be in every file. Servers of one
    host with different chips are different pods.
    """
    first_use: dict[tuple[str | None, int], FileNode] = {}
    idle: list[FileNode] = []
    for node in nodes:
        chips = [(node.host, device.device_id) for device in node.node.devices]
        firsts = [first_use.setdefault(chip, node) for chip in chips]
        first = next((one for one in firsts if one is not node), node)
        if first is not node:
            findings.report(
                REPEATED_NODE,
                node.at(),
                f"the server {quoted(node.host)} is also in {first.origin(node)}",
                hint="leave one of the two out",
                related=(first.at(label="the earlier server"),),
            )
        elif chips or all(one.node != node.node for one in idle):
            idle += [] if chips else [node]
            yield node


def _check_addresses(groups: Sequence[_Group], findings: FileFindings) -> None:
    """Report every address of a device that an earlier file also has (RT230)."""
    first_use: dict[str, tuple[FileNode, int]] = {}
    nodes = [node for group in groups for node in group.nodes]
    for node in nodes:
        for at, device in enumerate(node.node.devices):
            if device.address is None:
                continue
            first, place = first_use.setdefault(device.address, (node, at))
            if first.file != node.file:
                steps = FORMAT.devices_key, at, "device_ip"
                findings.report(
                    REPEATED_NODE,
                    node.at(*steps),
                    f"the address {quoted(device.address)} is also in "
                    f"{first.origin(node)}",
                    related=(first.at(*steps[:1], place, *steps[2:]),),
                )
                break


def _begins_anew(nodes: Sequence[FileNode]) -> bool:
    """Whether ranks begin at 0 in each server, as MindIE counts them on one host.

    If files of several hosts do so, they were made separately, and their ranks clash.
    """
    ranks = [sorted(device.rank for device in node.node.devices) for node in nodes]
    is_anew = all(found == list(range(len(found))) for found in ranks)
    return is_anew and 1 in (
        len({node.host for node in nodes}),
        len({node.file for node in nodes}),
    )


def _server(node: FileNode) -> dict[str, Any]:
    assert node.source is not None
    read: Any = node.source.document.get(*node.source.node_path(node.index))
    return server_with_ranks(read, node.node)


def _is_sound(
    document: dict[str, object],
    groups: Sequence[_Group],
    options: MergeOptions,
    findings: FileFindings,
) -> bool:
    """Report what the rules find in the whole table; return whether it has no error."""

    def origin(span: SourceSpan | None) -> FileSpan:
        path: Any = span.path if span is not None else ()
        if span is None or len(path) < len((KEY, 0, SERVERS, 0)):
            return 0, None
        node = groups[path[1]].nodes[path[3]]
        file, server = node.at()
        assert server is not None
        return file, replace(span, path=(*server.path, *path[4:]))

    return judged(FORMAT, document, origin, options, findings)
