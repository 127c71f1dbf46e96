"""Cluster specs: the value of a sound one, and the rank table that it describes.

Addresses may follow a pattern: ``10.{node/250}.{node%250}.{chip+1}``.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.generate import make_table
from ranktable.schema.schema_validation import schema_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.model import Node, RankTable

_BRACES = re.compile(r"\{[^{}]*\}?|\}")
_FIELD = re.compile(
    r"\{(?P<name>node|chip)(?:(?P<operator>[/%])(?P<by>[1-9][0-9]{0,6}))?"
    r"(?:\+(?P<plus>[0-9]{1,7}))?\}"
)
_HOST = "{host}"
_HINT = "{node}, {chip} and {host} can stand in braces: {node%250+1}"


class PatternField(NamedTuple):
    """A placeholder in braces: a number with optional division and addition."""

    name: str
    operator: str
    by: int
    plus: int

    def of(self, node: int, chip: int) -> int:
        """Return its number for the place of a node and the number of a chip."""
        number = node if self.name == "node" else chip
        number = number % self.by if self.operator == "%" else number // self.by
        return number + self.plus


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """A text with places for the numbers of fields, and for the host."""

    template: str
    fields: tuple[PatternField, ...]

    def addresses(self, node: int, host: str | None, chips: Sequence[int]) -> list[str]:
        """Return the address of every chip of a node."""
        numbers = ([field.of(node, chip) for field in self.fields] for chip in chips)
        return [self.template.format(*each, host=host or "") for each in numbers]

    @property
    def has_host(self) -> bool:
        """Whether it contains the name of the host."""
        return _HOST in self.template


def parse_pattern(text: str) -> AddressPattern:
    """Return the pattern in a text.

    Raises:
        ArgumentError: There is something else in braces; the error has its place.
    """
    for braces in _BRACES.finditer(text):
        if braces[0] != _HOST and not _FIELD.fullmatch(braces[0]):
            reason, at = f"{braces[0]} is not known here", braces.start()
            raise ArgumentError(reason, text=text, position=at, hint=_HINT)
    fields = tuple(
        PatternField(name, operator, int(by or 1), int(plus or 0))
        for name, operator, by, plus in _FIELD.findall(text)
    )
    return AddressPattern(_FIELD.sub("{}", text), fields)


NAME = "cluster-spec"
"""Name of the format, as in ``ranktable schema``."""

SCHEMA_FILE = "cluster-spec.schema.json"

Order = Literal["as-listed", "by-rack", "across-racks"]
ORDERS: tuple[Order, ...] = get_args(Order)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A cluster; every sequence has one item for each node, in the order of ``nodes``.

    Attributes:
        hosts: Name of every node, None if nodes is a count.
        chips: ``device_id`` of every chip of every node, in ring order if there is a
            ring.
        addresses: Address of every chip, in the same shape, None if there are none.
        racks: Index of the rack of every node, None if there are no racks.
        spares: Indices of the nodes that are left out of the table.
        order: The order in which nodes get their ranks.
        ring: Name of the topology, None if chips keep their order.
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

    It defines keys, types and ranges. ``ranktable gen --spec`` checks that host lists
    are well formed, and that hosts, chips and addresses match.
    """
    return schema_text(SCHEMA_FILE)


def table_from_spec(spec: ClusterSpec, *, is_emulated: bool = False) -> RankTable:
    """Return the table of a spec: the nodes in their order, without the spares."""
    return _table(spec, _node_order(spec), is_emulated=is_emulated)


def spare_nodes(spec: ClusterSpec, *, is_emulated: bool = False) -> tuple[Node, ...]:
    """Return the spares of a spec, with their chips and addresses."""
    return _table(spec, sorted(spec.spares), is_emulated=is_emulated).nodes


def _table(spec: ClusterSpec, order: Sequence[int], *, is_emulated: bool) -> RankTable:
    """Return the table of some nodes of a spec."""
    hosts, addresses = spec.hosts, spec.addresses
    return make_table(
        [spec.chips[index] for index in order],
        addresses=addresses and [addresses[index] for index in order],
        hosts=hosts and [hosts[index] for index in order],
        is_emulated=is_emulated,
    )


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
