"""The name of a node: its host, or its number where it has no host."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import count
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.layout.layout_errors import ChangeError
from ranktable.schema.diagnostic import counted
from ranktable.schema.format import NUMBER_KEY, SPARES_KEY, plain_number
from ranktable.schema.formats import by_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.schema.model import Node, RankTable

_SHOWN = 8
"""Most nodes that a message names; the others are only counted."""


def node_names(nodes: Sequence[Node]) -> list[str]:
    """Return the name of every node: its host, or its number.

    The number is its place, or its place before other nodes were removed.
    """
    known = [node.host or number_of(node) for node in nodes]
    taken = set(known)
    free = (number for number in map(str, count(len(nodes))) if number not in taken)
    return [
        name or (str(place) if str(place) not in taken else next(free))
        for place, name in enumerate(known)
    ]


def find_nodes(table: RankTable, names: Iterable[str]) -> list[int]:
    """Return the places of the named nodes, in the order of the names.

    Several pods of one group may share a host; it then has several places.

    Raises:
        ChangeError: There is no such node, or a name is given twice.
    """
    places: dict[str, list[int]] = {}
    for place, name in enumerate(node_names(table.nodes)):
        places.setdefault(name, []).append(place)
    found: dict[str, list[int]] = {}
    for name in names:
        if name in found:
            raise ChangeError(f"the node {name!r} is given twice")
        if name not in places and name in _hosts_of_spares(table):
            raise ChangeError(
                f"{name} is a spare and carries no rank; "
                f"ranktable spares FILE --remove {name} takes it out of the table"
            )
        if name not in places:
            raise ChangeError(_unknown(name, list(places)))
        found[name] = places[name]
    return [place for here in found.values() for place in here]


def find_node(table: RankTable, name: str) -> int:
    """Return the place of a node.

    Raises:
        ChangeError: There is no such node, or two have the name.
    """
    here = find_nodes(table, [name])
    if len(here) > 1:
        listed = " and ".join(map(str, here))
        raise ChangeError(f"the nodes {listed} are both named {name!r}")
    return here[0]


def _hosts_of_spares(table: RankTable) -> list[object]:
    entries = table.extra.get(SPARES_KEY)
    key = by_name(table.format).host_key
    found = entries if isinstance(entries, list) else []
    return [entry.get(key) for entry in found if isinstance(entry, dict)]


def _unknown(name: str, names: Sequence[str]) -> str:
    close = get_close_matches(name, names, n=2)
    if close:
        return f"there is no node {name!r}; did you mean {' or '.join(close)}?"
    shown = ", ".join(names[:_SHOWN])
    more = len(names) - _SHOWN
    listed = f"{shown} and {counted(more, 'more')}" if more > 0 else shown
    return f"there is no node {name!r}; the nodes are {listed}"


def named(node: Node, name: str) -> Node:
    """Return a node with this name as its host, so that it can be found later."""
    return structs.replace(node, host=name, extra=without_number(node))


def unnamed(node: Node, place: int | None) -> Node:
    """Return a node without the host that ``named`` gave it.

    If its place has changed, the node keeps its old number in a key of its own; so does
    a spare, which has no place.
    """
    number = {} if node.host == str(place) else {NUMBER_KEY: node.host}
    return structs.replace(node, host=None, extra={**node.extra, **number})


def without_number(node: Node) -> dict[str, object]:
    """Return the other facts about a node, without its number."""
    return {key: value for key, value in node.extra.items() if key != NUMBER_KEY}


def number_of(node: Node) -> str | None:
    """Return the number that a node keeps, None if it has none."""
    number = plain_number(node.extra.get(NUMBER_KEY))
    return None if number is None else str(number)
