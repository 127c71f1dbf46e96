"""The order of the nodes of a merged table: as given, by rank, by host or by a list."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.host_folding import fold_hosts
from ranktable.cluster.merging.member import host_key, short
from ranktable.cluster.merging.merge_rules import NOT_AS_LISTED
from ranktable.cluster.merging.wishes import Order
from ranktable.cluster.sources import Place
from ranktable.schema.messages import counted, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.merging.member import Member
    from ranktable.cluster.sources import Remarks


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
