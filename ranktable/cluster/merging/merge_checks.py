"""Whether nodes and files go together: duplicates, uniformity, ranks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.cluster.file_findings import Place
from ranktable.cluster.merging.merge_rules import (
    MISSING_RANKS,
    PARTS_DISAGREE,
    RANK_CLASH,
    REPEATED_NODE,
    UNEQUAL_NODES,
)
from ranktable.cluster.probes.probe_rules import MIXED_CHIPS
from ranktable.schema.document import SourceSpan
from ranktable.schema.messages import counted, folded, printable, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ranktable.cluster.file_findings import Remarks, Source
    from ranktable.cluster.merging.merge_nodes import Member
    from ranktable.schema.formats.format import Format

_LEAVE_OUT = "leave one of the two out"
_ONCE_A_NODE = "run probe once a node: srun --ntasks-per-node=1 ranktable probe"


def check_files(sources: Sequence[Source], remarks: Remarks) -> None:
    """Remark on every file that is given twice."""
    first_use: dict[str, int] = {}
    for index, source in enumerate(sources):
        if source.path is None:
            continue
        first = first_use.setdefault(source.path, index)
        if first != index:
            remarks.add(
                REPEATED_NODE,
                Place(index),
                f"the file is given twice, the first time as {sources[first].file}",
            )


def check_nodes(
    members: Sequence[Member],
    format_: Format,
    remarks: Remarks,
    *,
    with_addresses: bool = False,
) -> None:
    """Remark on every node that an earlier one is, too.

    Args:
        members: The nodes.
        format_: Their format.
        remarks: Where to remark.
        with_addresses: Whether an address tells a node that has no host. It does where
            every node made its own file; parts of one table are what they are.
    """
    first_use: dict[tuple[str, str], Member] = {}
    for member in members:
        names = [*_names(member), *(_addresses(member) if with_addresses else ())]
        for kind, name in names:
            first = first_use.setdefault((kind, name), member)
            if first is not member and _are_one(kind, first, member):
                steps = (format_.host_key,) if kind == "host" else ()
                remarks.add(
                    REPEATED_NODE,
                    member.at(*steps),
                    f"the {kind} {quoted(name)} is in {first.whereabouts(member)}, too",
                    hint=_ONCE_A_NODE if member.path is None else _LEAVE_OUT,
                    related=(first.at(*steps, label="the earlier node"),),
                )
                break


def _names(member: Member) -> Iterator[tuple[str, str]]:
    """Yield what only one node has, with the kind of each."""
    if member.host is not None:
        yield "host", member.host
    for identifier in sorted(member.identifiers):
        yield "chip", identifier


def _addresses(member: Member) -> Iterator[tuple[str, str]]:
    for device in member.node.devices:
        address = device.address
        if address and not device.is_emulated and not _is_loopback(address):
            yield "address", address


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def _are_one(kind: str, first: Member, other: Member) -> bool:
    """Whether a shared name makes two members one node.

    Nodes of one table may share an address, and two hosts that are named are believed.
    """
    if kind != "address":
        return True
    return first.source != other.source and None in (first.host, other.host)


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


Owners = dict[int, tuple["Member", int]]
"""Who has a rank: the node and the place of the device in it."""


def numbered(members: Sequence[Member]) -> list[Member]:
    """Return the nodes with ranks that count over them in their order."""
    rank = count()
    return [
        replace(
            member,
            node=structs.replace(
                member.node,
                devices=tuple(
                    structs.replace(device, rank=next(rank))
                    for device in member.node.devices
                ),
            ),
        )
        for member in members
    ]


def check_ranks(members: Sequence[Member], format_: Format, remarks: Remarks) -> None:
    """Remark on ranks that two nodes have (RT231) and that none has (RT234)."""
    owners: Owners = {}
    for member in members:
        clashes = [
            place
            for place, device in enumerate(member.node.devices)
            if owners.setdefault(device.rank, (member, place))[0] is not member
        ]
        if clashes:
            _clash(member, clashes, owners, format_, remarks)
    if sum(len(member.node.devices) for member in members) == len(owners):
        _check_gaps(owners, format_, remarks)


def _clash(
    member: Member,
    clashes: list[int],
    owners: Owners,
    format_: Format,
    remarks: Remarks,
) -> None:
    devices = member.node.devices
    ranks = sorted(devices[place].rank for place in clashes)
    verb = "is" if len(ranks) == 1 else "are"
    first, first_place = owners[devices[clashes[0]].rank]
    remarks.add(
        RANK_CLASH,
        _place(member, clashes[0], format_),
        f"{_named(ranks)} {verb} in {first.whereabouts(member)}, too",
        hint="--renumber counts the ranks anew, in the order of the nodes",
        related=(_place(first, first_place, format_, label="first use"),),
    )


def _check_gaps(owners: Owners, format_: Format, remarks: Remarks) -> None:
    size = len(owners)
    free = [rank for rank in range(size) if rank not in owners]
    if not free:
        return
    beyond = min(rank for rank in owners if rank > free[0])
    remarks.add(
        MISSING_RANKS,
        _place(*owners[beyond], format_),
        f"no file has {_named(free)}: {counted(size, 'device')} need the ranks 0 to "
        f"{size - 1}",
        hint="give the file that is missing, or count anew with --renumber",
    )


def _named(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"the ranks {folded(ranks)}"


def _place(
    member: Member, place: int, format_: Format, label: str | None = None
) -> Place:
    written = {key for key, _ in member.node.devices[place].layout or ()}
    key = next((key for key in format_.rank_keys if key in written), "rank")
    return member.at(format_.devices_key, place, key, label=label)
