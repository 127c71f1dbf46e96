"""RT230: the same node twice, in two files or in two lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.merging.merge_rules import REPEATED_NODE
from ranktable.cluster.sources import Place
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.cluster.merging.member import Member
    from ranktable.cluster.sources import Remarks, Source
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
