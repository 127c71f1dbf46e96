"""Racks, spares and the order in which the nodes of a cluster spec get ranks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ranktable.cluster.specs import spec_rules as rules
from ranktable.cluster.specs.groups import read_groups, read_places
from ranktable.cluster.specs.shape import Place
from ranktable.cluster.specs.spec import MAX_NODES, ORDERS
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.specs.nodes import Nodes
    from ranktable.cluster.specs.shape import Shape
    from ranktable.cluster.specs.spec import Order, Spec

_RACKS = Place(("racks",))
_SPARES = Place(("spares",))
_ORDER = Place(("order",))


def read_racks(shape: Shape, nodes: Nodes | None) -> list[int] | None:
    """Return the index of the rack of every node, None if there are no racks."""
    if "racks" not in shape.members:
        return None
    value = shape.members["racks"]
    if type(value) is int:
        size = shape.number(_RACKS, value, 1, MAX_NODES)
        if size is None or nodes is None:
            return None
        return [place // size for place in range(nodes.count)]
    if not isinstance(value, dict):
        wanted = "a number of hosts or a mapping of racks to their hosts"
        shape.wrong_type(_RACKS, value, wanted)
        return None
    if not value:
        shape.report(rules.WRONG_TYPE, _RACKS, "racks names no rack")
        return None
    lists = [(_RACKS.item(name), hosts) for name, hosts in value.items()]
    return read_groups(shape, "racks", lists, nodes)


def read_spares(shape: Shape, nodes: Nodes | None) -> frozenset[int]:
    """Return the places of the spares."""
    if "spares" not in shape.members:
        return frozenset()
    places = read_places(shape, _SPARES, shape.members["spares"], nodes)
    spares = frozenset(places or ())
    if nodes is not None and len(spares) == nodes.count:
        message = "every host is a spare, so that none is left for the table"
        shape.report(rules.NOTHING_LEFT, _SPARES, message)
    return spares


def read_order(shape: Shape) -> Order:
    """Return the order of the nodes."""
    text = shape.text("order")
    found = next((order for order in ORDERS if order == text), None)
    if text is None:
        return "as-listed"
    if found is None:
        message = f"there is no order {quoted(text)}"
        hint = f"write {', '.join(ORDERS[:-1])} or {ORDERS[-1]}"
        shape.report(rules.UNKNOWN_ORDER, _ORDER, message, hint=hint)
        return "as-listed"
    if found != "as-listed" and "racks" not in shape.members:
        message = f"the order {found} needs racks, and there are none"
        shape.report(rules.NO_RACKS, _ORDER, message)
    return found


def places_in_order(spec: Spec) -> list[int]:
    """Return the places of the nodes of the table in the order of their ranks."""
    racks = spec.racks
    places = [place for place in range(len(spec.chips)) if place not in spec.spares]
    if racks is None or spec.order == "as-listed":
        return places
    if spec.order == "by-rack":
        return sorted(places, key=lambda place: racks[place])
    before: Counter[int] = Counter()
    turns = {}
    for place in places:
        turns[place] = (before[racks[place]], racks[place])
        before[racks[place]] += 1
    return sorted(places, key=turns.__getitem__)
