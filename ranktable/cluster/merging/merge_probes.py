"""Lines of ``ranktable probe`` as nodes that are to be merged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.file_findings import Place, Remarks, Source, reports_of
from ranktable.cluster.generate import ring_order
from ranktable.cluster.merging.merge_checks import (
    check_files,
    check_models,
    check_nodes,
    check_sizes,
)
from ranktable.cluster.merging.merge_nodes import Draft, Member, Merged, Order, finish
from ranktable.cluster.probes.read_probes import read_probes
from ranktable.schema.finding import Finding
from ranktable.schema.formats.detect import FORMATS
from ranktable.schema.model import Device, Node, RankTable
from ranktable.schema.reading import decode
from ranktable.schema.rules.syntax import EMPTY_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.merging.merge_nodes import Wishes
    from ranktable.cluster.probes.probe_line import NodeProbe
    from ranktable.cluster.probes.read_probes import ProbedNode
    from ranktable.schema.topology import Topology


def merge_probes(
    files: Sequence[str],
    data: Sequence[bytes],
    paths: Sequence[str | None],
    wishes: Wishes,
) -> Merged:
    """Return the table of the nodes that printed these lines.

    Ranks count over the nodes in their order, by host unless another one is wished
    for; the chips of a node are in the order of their device_id, or in ring order
    where the links are known.

    Args:
        files: Name of every file.
        data: Its bytes.
        paths: Its real path, None for standard input.
        wishes: Order of the nodes, and the links of every host.

    Raises:
        ArgumentError: The nodes cannot be put in the order that is wished for, or the
            chips of a node form no ring.
    """
    remarks = Remarks(wishes.limit)
    sources = [
        _source(index, file, content, path, remarks)
        for index, (file, content, path) in enumerate(
            zip(files, data, paths, strict=True)
        )
    ]
    check_files(sources, remarks)
    members = []
    if not remarks.has_errors:
        members = _members(sources, wishes.topology, remarks)
    if not members and not remarks.has_errors:
        remarks.add(EMPTY_FILE, Place(0), "there is no line of ranktable probe")
    format_ = FORMATS[0]
    if not members:
        return Merged(reports=reports_of(sources, remarks))
    check_nodes(members, format_, remarks)
    check_models(members, remarks)
    check_sizes(members, remarks)
    draft = Draft(
        sources=sources,
        members=members,
        format=format_,
        top=RankTable(nodes=(), format=format_.name),
    )
    order = wishes.order or Order.BY_HOST
    return finish(draft, replace(wishes, order=order, renumber=True), remarks)


def _source(
    index: int, file: str, data: bytes, path: str | None, remarks: Remarks
) -> Source:
    """Return a file with its text; what is wrong with its encoding is remarked on."""
    decoded = decode(data)
    text, found = ("", [decoded]) if isinstance(decoded, Finding) else decoded
    for finding in found:
        remarks.take(finding, Place(index, finding.span))
    if isinstance(decoded, Finding):
        text = data.decode("utf-8", "replace")
    return Source(file=file, text=text, path=path)


def _members(
    sources: Sequence[Source], topology: Topology | None, remarks: Remarks
) -> list[Member]:
    chips = _Chips(topology)
    members = []
    for index, source in enumerate(sources):
        for item in read_probes(source.text or ""):
            if not isinstance(item, Finding):
                members.append(_member(index, source.file, item, chips))
                continue
            related = tuple(Place(index, spot) for spot in item.related)
            finding = replace(item, related=())
            remarks.take(finding, Place(index, item.span), related)
    return members


@dataclass(frozen=True, slots=True)
class _Chips:
    """Puts the chips of a node in order."""

    topology: Topology | None

    def order(self, host: str, device_ids: tuple[int, ...]) -> Sequence[int]:
        if self.topology is None:
            return sorted(device_ids)
        try:
            return _ring(tuple(sorted(device_ids)), self.topology)
        except ArgumentError as error:
            reason = f"--ring: {host}: {error.reason}"
            raise ArgumentError(reason, hint=error.hint) from None


@lru_cache(maxsize=256)  # the nodes of a cluster have the same few sets of chips
def _ring(device_ids: tuple[int, ...], topology: Topology) -> list[int]:
    return ring_order(device_ids, topology)


def _member(source: int, file: str, probed: ProbedNode, chips: _Chips) -> Member:
    probe = probed.probe
    addresses = {chip.device_id: chip.address for chip in probe.chips}
    order = chips.order(probe.host, tuple(addresses))
    devices = [
        Device(rank=0, device_id=device_id, address=addresses[device_id])
        for device_id in order
    ]
    return Member(
        node=Node(devices=tuple(devices), host=probe.host),
        source=source,
        file=file,
        line=lambda: probed.spot,
        identifiers=_identifiers(probe),
        vendor=probe.vendor,
        model=probe.model,
    )


def _identifiers(probe: NodeProbe) -> frozenset[str]:
    names = (name for chip in probe.chips for name in (chip.uuid, chip.serial))
    return frozenset(name for name in names if name)
