"""The chips that are there after a change: of nodes, of spares and of new hosts.

The name of a node is its host, or its index where it has none.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.layout.change.nodes import (
    IndexName,
    has_own_values,
    listed,
    node_names,
    refuse_same_addresses,
    unknown_node,
)
from ranktable.layout.layout_errors import ChangeError
from ranktable.schema.model import Node
from ranktable.schema.text import counted, fold_numbers, folded
from ranktable.schema.values import is_address

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ranktable.schema.model import Device, RankTable


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """What a caller says of the hosts; ``fit`` describes each."""

    hosts: Iterable[str] | None
    lost: Sequence[str]
    using: Sequence[str | Node]
    spare: Sequence[str | Node]
    lost_chips: Mapping[str, Collection[int]]
    super_pod: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """The chips that are there after a change.

    Attributes:
        left: The devices of every node of the table that may carry ranks.
        using: Other nodes, which carry ranks first.
        waiting: Nodes that carry ranks if there are too few others.
        resting: Nodes that carry no rank.
        num_lost: Number of nodes of the table that are lost.
        notes: What was concluded about new hosts, one sentence each.
    """

    left: Sequence[tuple[Device, ...]]
    using: Sequence[Node]
    waiting: Sequence[Node]
    resting: Sequence[Node]
    num_lost: int
    notes: Sequence[str]


class DoneAlreadyError(ChangeError):
    """The lost nodes are not in the table, and the new ones are."""


def available(table: RankTable, request: FitRequest) -> Available:
    """Return the chips that are there.

    Args:
        table: The table; every node has a host or an ``IndexName``.
        request: What the caller says of the hosts.

    Raises:
        ChangeError: A name is not known, or has two meanings; or the chips of a new
            host are not known.
    """
    return _Finder(table, request).found()


class _Finder:
    """Finds the nodes of one request by their names."""

    def __init__(self, table: RankTable, request: FitRequest) -> None:
        self.table, self.request = table, request
        self.names = _Names(table)
        self.described: dict[str, Node] = {}
        self.using = self.given(request.using, may_be_known=True)
        self.resting = self.given(request.spare, may_be_known=False)
        self.there = dict.fromkeys(map(self.names.of, request.hosts or ()))
        self.refuse_done()
        self.gone = self.lost()
        self.dead = self.lost_chips()
        self.nodes = list(zip(self.names.of_nodes, table.nodes, strict=True))

    def given(
        self, given: Sequence[str | Node], *, may_be_known: bool
    ) -> dict[str, None]:
        """Return the names of given nodes, and describe those that are not only names.

        Several nodes may be those of a whole cluster: of these, only what the table
        lacks is meant.

        Args:
            given: The nodes.
            may_be_known: Whether more chips of a known node are meant too.
        """
        found: dict[str, None] = {}
        is_one = sum(isinstance(one, Node) for one in given) == 1
        lost = {*map(self.names.of, self.request.lost)}
        for one in given:
            if isinstance(one, str):
                found[self.names.of(one)] = None
                continue
            if one.host is None:
                raise ChangeError("a new node needs a host as its name")
            name = self.names.of(one.host)
            is_more = may_be_known and name not in lost and self.lacks(name, one)
            if is_one or is_more or name not in self.names.known:
                found[name] = None
                self.described[name] = one
        return found

    def lacks(self, name: str, node: Node) -> bool:
        """Whether the table does not have some chips of a node."""
        return not self.chips[name].issuperset(one.device_id for one in node.devices)

    @cached_property
    def chips(self) -> dict[str, set[int]]:
        """The chips that the table has of each host, with and without ranks."""
        found: dict[str, set[int]] = defaultdict(set)
        names = [*self.names.of_nodes, *(spare.host for spare in self.table.spares)]
        nodes = [*self.table.nodes, *self.table.spares]
        for name, node in zip(names, nodes, strict=True):
            found[name or ""].update(device.device_id for device in node.devices)
        return found

    def lost(self) -> set[str]:
        """Return the names of all nodes and spares that are not there."""
        known, there = self.names.known, {*self.there, *self.using, *self.resting}
        gone = {self.needed(name) for name in self.request.lost}
        if self.request.hosts is not None:
            if known.isdisjoint(self.there):
                first = next(iter(self.there), "")
                raise ChangeError(
                    f"none of the {counted(len(self.there), 'host')} is in the table; "
                    + unknown_node(first, self.names.of_nodes)
                )
            gone |= known - there
        for name in sorted(gone & there):
            raise ChangeError(f"{name} is lost, and is there too")
        for name in sorted(self.using.keys() & self.resting.keys()):
            raise ChangeError(f"{name} is to carry ranks, and to be a spare too")
        return gone

    def refuse_done(self) -> None:
        """Raise DoneAlreadyError if only nodes are lost that have been replaced."""
        lost = [*self.request.lost, *self.request.lost_chips]
        is_there = any(self.names.of(name) in self.names.known for name in lost)
        more = self.resting or self.request.hosts is not None
        is_done = bool(self.using) and self.using.keys() <= {*self.names.of_nodes}
        if lost and is_done and not is_there and not more:
            verb = "is" if len(self.using) == 1 else "are"
            raise DoneAlreadyError(
                f"there is no node {lost[0]!r}, and {listed(list(self.using))} {verb} "
                "in the table already, so nothing was changed"
            )

    def needed(self, name: str) -> str:
        """Return the name of a node that the table must have."""
        found = self.names.of(name)
        if found in self.names.known:
            return found
        ranks = {device.rank for node in self.table.nodes for device in node.devices}
        gaps = [rank for rank in range(self.table.rank_end) if rank not in ranks]
        if not gaps:
            raise ChangeError(unknown_node(name, self.names.all))
        raise ChangeError(
            f"there is no node {name!r}; {counted(len(gaps), 'rank')} ({folded(gaps)}) "
            f"{'is' if len(gaps) == 1 else 'are'} missing already, so if it was taken "
            "out of the file, leave it out here"
        )

    def lost_chips(self) -> dict[str, set[int]]:
        """Return the lost chips of every node."""
        lost: dict[str, set[int]] = {}
        for name, chips in self.request.lost_chips.items():
            lost.setdefault(self.needed(name), set()).update(chips)
        for name, chips_of_name in lost.items():
            own = self.chips[name]
            if unknown := chips_of_name - own:
                raise ChangeError(
                    f"{name} has no chip {folded(sorted(unknown))}; its chips are "
                    f"{folded(sorted(own))}"
                )
        return lost

    def found(self) -> Available:
        """Return the chips that are there."""
        idle = {*self.gone, *self.resting}
        new, notes = self.new_nodes([node for name, node in self.nodes if name in idle])
        own = [spare for spare in self.table.spares if spare.host not in self.gone]
        others = [node for node in map(self.without_lost_chips, own) if node.devices]
        alive = [node for name, node in self.nodes if name not in self.gone]
        refuse_same_addresses([*alive, *others], *new)
        others += new
        return Available(
            left=[
                () if name in idle else self.without_lost_chips(node).devices
                for name, node in self.nodes
            ],
            using=[node for node in others if node.host in self.using],
            waiting=[
                node
                for node in others
                if node.host not in self.using and node.host not in self.resting
            ],
            resting=[
                *(node for node in others if node.host in self.resting),
                *(
                    self.without_lost_chips(node)
                    for name, node in self.nodes
                    if name in self.resting
                ),
            ],
            num_lost=len(self.nodes) - len(alive),
            notes=notes,
        )

    def without_lost_chips(self, node: Node) -> Node:
        """Return a node without its lost chips."""
        chips = self.dead.get(node.host or "")
        return _without(node, chips) if chips else node

    def new_nodes(self, replaced: Sequence[Node]) -> tuple[list[Node], list[str]]:
        """Return nodes and chips that the table does not have, and notes on them."""
        names = dict.fromkeys([*self.using, *self.there, *self.resting])
        unknown = [name for name in names if name not in self.names.known]
        bare = [name for name in unknown if name not in self.described]
        last = self.table.nodes[-1]
        likes = [*replaced, *[last] * (len(bare) - len(replaced))]
        made = {
            name: _node_like(like, name)
            for name, like in zip(bare, likes, strict=False)
        }
        new = [made.get(name) or self.described[name] for name in unknown]
        notes = [*self.notes_on(list(made.values()), likes)]
        new, of_pods = self.in_pods(new, replaced)
        return [*new, *self.more_chips()], [*notes, *of_pods]

    def more_chips(self) -> Iterable[Node]:
        """Yield the described chips of known hosts that the table does not have."""
        for name, node in self.described.items():
            if name in self.names.known:
                more = _without(node, self.chips[name])
                if more.devices:
                    yield structs.replace(more, host=name)

    def notes_on(self, made: Sequence[Node], likes: Sequence[Node]) -> Iterable[str]:
        """Yield which chips hosts have of which only the name is known."""
        of_chips: dict[tuple[int, ...], list[tuple[str, str]]] = defaultdict(list)
        for node, like in zip(made, likes, strict=False):
            chips = tuple(device.device_id for device in node.devices)
            of_node = "node " if isinstance(like.host, IndexName) else ""
            of_chips[chips].append((str(node.host), f"{of_node}{like.host}"))
        for chips, pairs in of_chips.items():
            new, old = (list(dict.fromkeys(side)) for side in zip(*pairs, strict=True))
            verb = "is" if len(new) == 1 else "are"
            what = "chip" if len(chips) == 1 else "chips"
            yield (
                f"{listed(new)} {verb} new, with the {what} {fold_numbers(chips)} of "
                f"{listed(old)}{self.perhaps_meant(new)}"
            )

    def perhaps_meant(self, new: Sequence[str]) -> str:
        """Return a question for the spare whose name is most like a new name."""
        named = {*self.using, *self.there, *self.resting}
        spares = [name for name in self.names.of_spares if name not in named]
        near = get_close_matches(new[0], spares, n=1) if len(new) == 1 else []
        return f"; did you mean the spare {near[0]}?" if near else ""

    def in_pods(
        self, nodes: list[Node], replaced: Sequence[Node]
    ) -> tuple[list[Node], list[str]]:
        """Return new nodes with their super pods, and a note if those are concluded."""
        if not any(node.super_pod for node in self.table.nodes):
            if self.request.super_pod is not None:
                raise ChangeError("--pod: the table has no super pods")
            return [structs.replace(node, super_pod=None) for node in nodes], []
        pods = {node.super_pod for node in replaced}
        concluded = pods.pop() if len(pods) == 1 else None
        pod = self.request.super_pod or concluded
        bare = [str(node.host) for node in nodes if node.super_pod is None]
        found = [
            structs.replace(node, super_pod=node.super_pod or pod) for node in nodes
        ]
        if not bare or pod is None or self.request.super_pod is not None:
            return found, []
        verb = "is" if len(bare) == 1 else "are"
        note = f"{listed(bare)} {verb} taken to be in super pod {pod}, that of the"
        return found, [f"{note} {'node' if len(replaced) == 1 else 'nodes'} replaced"]


class _Names:
    """The names of the nodes and spares of a table, with or without a domain."""

    def __init__(self, table: RankTable) -> None:
        self.of_nodes = node_names(table.nodes)
        self.of_spares = [one.host for one in table.spares if one.host is not None]
        self.all = [*self.of_nodes, *self.of_spares]
        self.known = {*self.all}
        self.unclear = {
            name.place
            for name in self.of_nodes
            if isinstance(name, IndexName) and name.place in self.known - {name}
        }
        self.of_short: dict[str, list[str]] = defaultdict(list)
        for name in dict.fromkeys(self.all):
            if not isinstance(name, IndexName):
                self.of_short[_short(name)].append(name)

    def of(self, name: str) -> str:
        """Return the name that the table has for a host, the same if it has none.

        Raises:
            ChangeError: The name has two meanings.
        """
        if name in self.unclear:
            raise ChangeError(
                f"{name} is a host, and the index of another node, which has no host; "
                "give every node a host"
            )
        if name in self.known:
            return name
        alike = self.of_short.get(_short(name), [])
        same = [one for one in alike if "." not in name or "." not in one]
        if len(same) > 1:
            raise ChangeError(f"{name!r} may be {' or '.join(same[:2])}")
        return same[0] if same and not is_address(name) else name


def _short(name: str) -> str:
    return name if is_address(name) else name.partition(".")[0]


def _node_like(like: Node, host: str) -> Node:
    """Return a host of which only the name is known: it has the chips of a node."""
    if has_own_values(like):
        raise ChangeError(
            f"the chips of {like.host} have addresses or ids of their own, and those "
            f"of {host} are not known; give its rank table or its line of ranktable "
            "probe: --with FILE"
        )
    devices = tuple(structs.replace(device, extra={}) for device in like.devices)
    return Node(devices=devices, host=host)


def _without(node: Node, chips: Collection[int]) -> Node:
    devices = tuple(one for one in node.devices if one.device_id not in chips)
    return structs.replace(node, devices=devices)
