"""Cluster specs: what one says once it is sound, and the rank table that it makes.

Addresses may follow a pattern: ``10.{node/250}.{node%250}.{chip+1}``.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.generate import make_table
from ranktable.schema.schema_validation import schema_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.model import RankTable

_FIELD = re.compile(
    r"\{(?P<name>node|chip)(?:(?P<operator>[/%])(?P<by>[1-9][0-9]{0,6}))?"
    r"(?:\+(?P<plus>[0-9]{1,7}))?\}|\{(?P<host>host)\}"
)
_HINT = "{node}, {chip} and {host} can stand in braces: {node%250+1}"


@dataclass(frozen=True, slots=True)
class PatternField:
    """What stands in braces: a number that may be divided, and added to."""

    name: str
    operator: str | None = None
    by: int = 1
    plus: int = 0

    def of(self, number: int) -> str:
        """Return the field for the place of a node or the number of a chip."""
        if self.operator == "/":
            number //= self.by
        elif self.operator == "%":
            number %= self.by
        return str(number + self.plus)


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """Text and fields by turns."""

    parts: tuple[str | PatternField, ...]

    def addresses(self, node: int, host: str | None, chips: Sequence[int]) -> list[str]:
        """Return the address of every chip of a node."""
        addresses = [""] * len(chips)
        text = ""  # what all of them have in common since the last chip
        for part in self.parts:
            if isinstance(part, str):
                text += part
            elif part.name == "host":
                text += host or ""
            elif part.name == "node":
                text += part.of(node)
            else:
                addresses = [
                    f"{address}{text}{part.of(chip)}"
                    for address, chip in zip(addresses, chips, strict=True)
                ]
                text = ""
        return [address + text for address in addresses]

    @property
    def has_host(self) -> bool:
        """Whether the name of the host is part of it."""
        return any(
            isinstance(part, PatternField) and part.name == "host"
            for part in self.parts
        )


def parse_pattern(text: str) -> AddressPattern:
    """Return the pattern that a text is.

    Raises:
        ArgumentError: There are braces around something else; it has the place.
    """
    parts: list[str | PatternField] = []
    at = 0
    for match in _FIELD.finditer(text):
        parts += [_plain(text, at, match.start()), _field(match)]
        at = match.end()
    parts.append(_plain(text, at, len(text)))
    return AddressPattern(tuple(part for part in parts if part != ""))


def _plain(text: str, start: int, end: int) -> str:
    brace = re.search(r"[{}]", text[start:end])
    if brace is None:
        return text[start:end]
    position = start + brace.start()
    word = re.match(r"\{[^{}]*\}?|\}", text[position:])
    shown = word[0] if word else brace[0]
    raise ArgumentError(
        f"{shown} is not known here", text=text, position=position, hint=_HINT
    )


def _field(match: re.Match[str]) -> PatternField:
    if match["host"]:
        return PatternField("host")
    by, plus = int(match["by"] or 1), int(match["plus"] or 0)
    return PatternField(match["name"], match["operator"], by, plus)


NAME = "cluster-spec"
"""Name of the format, as ``ranktable schema`` takes it."""

SCHEMA_FILE = "cluster-spec.schema.json"

Order = Literal["as-listed", "by-rack", "across-racks"]
ORDERS: tuple[Order, ...] = get_args(Order)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A cluster; every sequence has one item a node, in the order of ``nodes``.

    Attributes:
        hosts: Name of every node, None where nodes is a count.
        chips: ``device_id`` of every chip of every node, in ring order if there is a
            ring.
        addresses: Address of every chip, in the same shape, None if there are none.
        racks: Index of the rack of every node, None if there are no racks.
        spares: Indices of the nodes that are kept out of the table.
        order: In which order nodes get their ranks.
        ring: Name of the topology, None if chips stay as they are.
    """

    hosts: Sequence[str] | None
    chips: Sequence[Sequence[int]]
    addresses: Sequence[Sequence[str]] | None = None
    racks: Sequence[int] | None = None
    spares: frozenset[int] = frozenset()
    order: Order = "as-listed"
    ring: str | None = None


def spec_schema_text() -> bytes:
    """Return the JSON Schema (draft 2020-12) of a cluster spec as UTF-8 text.

    It is the home of keys, types and ranges; that a host list is well formed, and that
    hosts, chips and addresses agree, is for ``ranktable gen --spec``.
    """
    return schema_text(SCHEMA_FILE)


def table_from_spec(spec: ClusterSpec, *, is_emulated: bool = False) -> RankTable:
    """Return the table of a spec: the nodes in their order, without the spares."""
    order = _node_order(spec)
    hosts, addresses = spec.hosts, spec.addresses
    return make_table(
        [spec.chips[index] for index in order],
        addresses=addresses and [addresses[index] for index in order],
        hosts=hosts and [hosts[index] for index in order],
        is_emulated=is_emulated,
    )


def spare_hosts(spec: ClusterSpec) -> list[str]:
    """Return the hosts that are kept out of the table."""
    return [spec.hosts[index] for index in sorted(spec.spares)] if spec.hosts else []


def _node_order(spec: ClusterSpec) -> list[int]:
    """Return the indices of the nodes of the table in the order of their ranks."""
    racks = spec.racks
    nodes = [index for index in range(len(spec.chips)) if index not in spec.spares]
    if racks is None or spec.order == "as-listed":
        return nodes
    if spec.order == "by-rack":
        return sorted(nodes, key=lambda index: racks[index])
    before: Counter[int] = Counter()
    turns = {}
    for index in nodes:
        turns[index] = (before[racks[index]], racks[index])
        before[racks[index]] += 1
    return sorted(nodes, key=turns.__getitem__)
