"""Cluster specs: what one says once it is sound, and the rank table that it makes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from ranktable.cluster.generate import make_table
from ranktable.cluster.schema_validation import schema_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.model import RankTable

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
