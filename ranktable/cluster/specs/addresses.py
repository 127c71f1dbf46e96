"""The addresses of a cluster spec: one for every chip, from a pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.specs import spec_rules as rules
from ranktable.cluster.specs.pattern import parse_pattern
from ranktable.cluster.specs.shape import Place
from ranktable.schema.address import is_address
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.specs.nodes import Nodes
    from ranktable.cluster.specs.pattern import Pattern
    from ranktable.cluster.specs.shape import Shape

_PLACE = Place(("addresses",))


def read_pattern(shape: Shape, nodes: Nodes | None) -> Pattern | None:
    """Return the pattern of a spec, None if there is none."""
    text = shape.text("addresses")
    if text is None:
        return None
    try:
        pattern = parse_pattern(text)
    except ArgumentError as error:
        shape.report(rules.BAD_PATTERN, _PLACE, error.reason, hint=error.hint)
        return None
    if pattern.has_host and nodes is not None and nodes.places is None:
        message = "addresses has {host}, and nodes is a count"
        shape.report(rules.NO_NAMES, _PLACE, message, hint="write {node}")
        return None
    return pattern


def make_addresses(
    shape: Shape, pattern: Pattern, nodes: Nodes, chips: Sequence[Sequence[int]]
) -> list[list[str]] | None:
    """Return the address of every chip, None after saying what is wrong with one."""
    hosts = [None] * nodes.count if nodes.places is None else list(nodes.places)
    node_of: dict[str, int] = {}
    found = []
    for node, (host, own) in enumerate(zip(hosts, chips, strict=True)):
        addresses = pattern.addresses(node, host, own)
        for chip, address in zip(own, addresses, strict=True):
            other = node_of.setdefault(address, node)
            if other != node:
                _report_twice(shape, nodes, address, (other, node))
                return None
            if not is_address(address):
                message = f"chip {chip} of {nodes.called(node)} gets {quoted(address)}"
                shape.report(
                    rules.BAD_ADDRESS, _PLACE, f"{message}, which is no address"
                )
                return None
        found.append(addresses)
    return found


def _report_twice(
    shape: Shape, nodes: Nodes, address: str, both: tuple[int, int]
) -> None:
    first, second = map(nodes.called, both)
    message = f"{first} and {second} both get {quoted(address)}"
    shape.report(rules.ADDRESS_TWICE, _PLACE, message)
