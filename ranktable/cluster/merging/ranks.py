"""RT231 and RT234: the ranks of several files together; and counting them anew."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.cluster.merging.merge_rules import MISSING_RANKS, RANK_CLASH
from ranktable.schema.messages import counted, folded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.merging.member import Member
    from ranktable.cluster.sources import Place, Remarks
    from ranktable.schema.formats.format import Format

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
