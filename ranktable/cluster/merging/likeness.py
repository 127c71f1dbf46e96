"""RT144, RT232 and RT233: whether nodes and files are alike."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ranktable.cluster.merging.merge_rules import PARTS_DISAGREE, UNEQUAL_NODES
from ranktable.cluster.probes.probe_rules import MIXED_CHIPS
from ranktable.cluster.sources import Place
from ranktable.schema.document import SourceSpan
from ranktable.schema.messages import counted, printable, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.cluster.merging.member import Member
    from ranktable.cluster.sources import Remarks, Source
    from ranktable.schema.formats.format import Format


def check_sizes(members: Sequence[Member], remarks: Remarks) -> None:
    """Remark on every node with another number of devices than most (RT232)."""
    sizes = Counter(len(member.node.devices) for member in members)
    usual = max(sizes, key=lambda size: (sizes[size], size))
    for member in members:
        size = len(member.node.devices)
        if size != usual:
            remarks.add(
                UNEQUAL_NODES,
                member.at(),
                f"{member.host or 'this node'} has {counted(size, 'device')}; "
                f"{sizes[usual]} of {len(members)} nodes have {usual}",
            )


def check_models(members: Sequence[Member], remarks: Remarks) -> None:
    """Remark on every node whose chips are others than the first one's (RT144)."""
    first = members[0]
    known = next((member for member in members if member.model), first)
    for member in members:
        other = first if member.vendor != first.vendor else known
        if member.vendor != first.vendor or member.model not in (None, known.model):
            remarks.add(
                MIXED_CHIPS,
                member.at(),
                f"{printable(str(member.host))} has chips of {_made(member)}, "
                f"{printable(str(other.host))} has chips of {_made(other)}",
                related=(other.at(label="the other node"),),
            )


def _made(member: Member) -> str:
    made = " ".join(filter(None, (member.vendor or "unknown make", member.model)))
    return printable(made)  # whatever a probe line has


def check_formats(
    formats: Sequence[tuple[int, Format]], sources: Sequence[Source], remarks: Remarks
) -> Format:
    """Return the format of the first file; RT233 for each that has another.

    Args:
        formats: Index and format of every file.
        sources: The files.
        remarks: Where to remark.
    """
    first_source, first = formats[0]
    for source, format_ in formats:
        if format_ is not first:
            _disagree(
                Place(source, SourceSpan((format_.nodes_key,), "key")),
                Place(
                    first_source, SourceSpan((first.nodes_key,), "key", label=_OTHER)
                ),
                f"the format is {format_.name}, and {first.name} in "
                f"{sources[first_source].file}",
                remarks,
            )
    return first


def check_tops(
    tops: Sequence[tuple[int, Mapping[str, object]]],
    sources: Sequence[Source],
    remarks: Remarks,
) -> dict[str, object]:
    """Return what the files say of the whole table; RT233 where two of them differ.

    Args:
        tops: Of every file its index and the keys at its top, without the nodes.
        sources: The files.
        remarks: Where to remark.
    """
    agreed: dict[str, tuple[int, object]] = {}
    for source, top in tops:
        for key, value in top.items():
            first, other = agreed.setdefault(key, (source, value))
            if other != value:
                _disagree(
                    Place(source, SourceSpan((key,))),
                    Place(first, SourceSpan((key,), label=_OTHER)),
                    f"{key} is {quoted(value)}, and {quoted(other)} in "
                    f"{sources[first].file}",
                    remarks,
                )
    return {key: value for key, (_, value) in agreed.items()}


_OTHER = "the other file"


def _disagree(place: Place, other: Place, message: str, remarks: Remarks) -> None:
    remarks.add(PARTS_DISAGREE, place, message, related=(other,))
