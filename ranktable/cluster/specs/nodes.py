"""The nodes of a cluster spec: hosts by name, or how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.cluster.specs.host_list import read_hosts, refuse_twice
from ranktable.cluster.specs.shape import Place
from ranktable.cluster.specs.spec import MAX_NODES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.cluster.specs.shape import Shape

_PLACE = Place(("nodes",))


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes.

    Attributes:
        count: How many there are.
        places: Place of each host from 0, None where only the count is known.
    """

    count: int
    places: Mapping[str, int] | None

    def called(self, place: int) -> str:
        """Return what to call a node in a message."""
        return f"node {place}" if self.places is None else list(self.places)[place]


def read_nodes(shape: Shape) -> Nodes | None:
    """Return the nodes, None after saying what is wrong with them."""
    if "nodes" not in shape.members:
        return None
    value = shape.members["nodes"]
    if type(value) is int:
        count = shape.number(_PLACE, value, 1, MAX_NODES)
        return None if count is None else Nodes(count, None)
    if not isinstance(value, str):
        shape.wrong_type(_PLACE, value, "a host list or a count")
        return None
    hosts = read_hosts(shape, _PLACE, value)
    if hosts is None or refuse_twice(shape, _PLACE, value, hosts) is None:
        return None
    return Nodes(len(hosts), {host: place for place, host in enumerate(hosts)})
