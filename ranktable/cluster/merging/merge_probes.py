"""Lines of ``ranktable probe`` as nodes that are to be merged."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.file_findings import FileFinding, FileFindings, InputFile
from ranktable.cluster.generate import ring_order
from ranktable.cluster.merging.merge_checks import (
    check_duplicate_files,
    check_duplicate_nodes,
    check_models,
    check_sizes,
)
from ranktable.cluster.merging.merge_nodes import (
    FileNode,
    Merged,
    Order,
    merge_nodes,
)
from ranktable.cluster.probes.read_probes import read_probes
from ranktable.schema.diagnostic import Finding
from ranktable.schema.formats import DEFAULT
from ranktable.schema.json_parser import decode
from ranktable.schema.model import Device, Node, RankTable
from ranktable.schema.rules.syntax import EMPTY_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.merging.merge_nodes import MergeOptions
    from ranktable.cluster.probes.read_probes import ProbedNode
    from ranktable.schema.topology import Topology


def merge_probes(
    files: Sequence[str],
    data: Sequence[bytes],
    paths: Sequence[str | None],
    options: MergeOptions,
) -> Merged:
    """Return the table of the nodes that printed these lines.

    Ranks count over the nodes in their order, by host unless another one is asked for;
    the chips of a node are in the order of their device_id, or in ring order where the
    links are known.

    Args:
        files: Name of every file.
        data: Its bytes.
        paths: Its real path, None for standard input.
        options: Order of the nodes, and the links of every host.

    Raises:
        ArgumentError: The nodes cannot be put in the order that is asked for, or the
            chips of a node form no ring.
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
    top = RankTable(nodes=(), format=format_.name)
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
