"""Hosts that a cluster spec puts into groups: each of them into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.specs import spec_rules as rules
from ranktable.cluster.specs.host_list import item_span, named, read_hosts, refuse_twice
from ranktable.cluster.specs.shape import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.specs.nodes import Nodes
    from ranktable.cluster.specs.shape import Shape


def read_places(
    shape: Shape, place: Place, value: object, nodes: Nodes | None
) -> list[int] | None:
    """Return the places in ``nodes`` of the hosts of a list.

    Returns:
        The places; None after saying what is wrong, or where nodes is not known.
    """
    hosts = read_hosts(shape, place, value)
    if hosts is None or refuse_twice(shape, place, str(value), hosts) is None:
        return None
    if nodes is None:
        return None
    if nodes.places is None:
        message = f"{place} names hosts, and nodes is a count"
        shape.report(rules.NO_NAMES, place, message, hint="list the hosts in nodes")
        return None
    unknown = [host for host in hosts if host not in nodes.places]
    if unknown:
        span = item_span(shape, place, str(value), unknown[0])
        message = f"{named(unknown)} in {place}, and not in nodes"
        shape.report(rules.HOST_UNKNOWN, place, message, span=span)
        return None
    return [nodes.places[host] for host in hosts]


def read_groups(
    shape: Shape, key: str, lists: Sequence[tuple[Place, object]], nodes: Nodes | None
) -> list[int] | None:
    """Return the index of the group of every node.

    Args:
        shape: The spec.
        key: The key whose groups they are.
        lists: The host list of every group, with its place.
        nodes: The nodes.

    Returns:
        The indices; None after saying what is wrong, or where nodes is not known.
    """
    found = [read_places(shape, place, value, nodes) for place, value in lists]
    if nodes is None or nodes.places is None or None in found:
        return None
    hosts = list(nodes.places)
    group_of = [-1] * nodes.count
    is_sound = True
    for group, ((place, value), members) in enumerate(zip(lists, found, strict=True)):
        twice = [hosts[at] for at in members or () if group_of[at] >= 0]
        if twice:
            is_sound = False
            span = item_span(shape, place, str(value), twice[0])
            message = f"{named(twice)} in two groups of {key}"
            shape.report(rules.HOST_TWICE, place, message, span=span)
        for at in members or ():
            group_of[at] = group
    left_out = [host for at, host in enumerate(hosts) if group_of[at] < 0]
    if left_out:
        message = f"{named(left_out)} in nodes, and in no group of {key}"
        shape.report(rules.HOST_LEFT_OUT, Place((key,), is_key=True), message)
    return group_of if is_sound and not left_out else None
