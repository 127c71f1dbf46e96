"""From a cluster spec to a rank table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.generate import make_table
from ranktable.cluster.specs.order import places_in_order

if TYPE_CHECKING:
    from ranktable.cluster.specs.spec import Spec
    from ranktable.schema.model import RankTable


def table_of(spec: Spec, *, is_emulated: bool = False) -> RankTable:
    """Return the table of a spec: the nodes in their order, without the spares."""
    places = places_in_order(spec)
    hosts, addresses = spec.hosts, spec.addresses
    return make_table(
        [spec.chips[place] for place in places],
        addresses=addresses and [addresses[place] for place in places],
        hosts=hosts and [hosts[place] for place in places],
        is_emulated=is_emulated,
    )


def spare_hosts(spec: Spec) -> list[str]:
    """Return the hosts that are kept out of the table."""
    return [spec.hosts[place] for place in sorted(spec.spares)] if spec.hosts else []
