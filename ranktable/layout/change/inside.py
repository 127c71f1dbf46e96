"""Which chip of a node carries which of the ranks that the node takes."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import combinations, islice
from operator import ne
from typing import TYPE_CHECKING

from ranktable.layout.change.assign import Chip, Place, assign

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from ranktable.layout.grid import Groups
    from ranktable.schema.topology import Topology

    _Held = tuple[tuple[int | None, Hashable] | None, ...]

_NOTHING = object()
"""The role of a new chip: different from that of any place."""

_RING_WEIGHT = 1 << 40
_ROLE_WEIGHT = 1 << 20
"""Cost of an open ring or of a chip that loads weights; a new number costs 1."""

_MOST_CHOICES = 128
_MOST_RINGS = 16
"""Most choices of chips, and most rings of each choice, that are compared."""


class Inside:
    """The best chips inside a node, given the ranks of each."""

    def __init__(
        self,
        chips: Sequence[Chip],
        members: Mapping[int, Sequence[int]],
        places: Sequence[Place],
        links: Topology | None,
        tp: Groups | None,
    ) -> None:
        """Prepare empty caches."""
        self.chips = chips
        self.members = members
        self.places = places
        self.links = links
        self.tp = tp
        self._ranks = [chip.rank for chip in chips]
        self._held = [_NOTHING if chip.rank is None else chip.role for chip in chips]
        self._wanted = [place.role for place in places]
        self._known: dict[
            tuple[int, tuple[int, ...]], tuple[list[int], tuple[int, int, int]]
        ] = {}
        self._kinds: dict[Hashable, int] = {}
        self._weights: dict[tuple[int, Hashable], int] = {}
        self._counted: dict[tuple[Hashable, ...], Hashable] = {}
        # Most copies of the model are on nodes that are alike.
        self._orders: dict[tuple[_Held, tuple[Hashable, ...]], tuple[int, ...]] = {}

    def held(self, items: Iterable[Chip | Place]) -> Hashable:
        """Return the roles that a node holds, in any order."""
        roles = tuple([item.role for item in items])
        if roles not in self._counted:
            self._counted[roles] = frozenset(Counter(roles).items())
        return self._counted[roles]

    def weights(
        self, parts: Sequence[Sequence[int]], nodes: Sequence[int]
    ) -> list[list[int]]:
        """Return the cost of every part on every node, each as one number.

        If a node has none of the ranks, its cost depends on the roles alone.
        """
        sides = [self._kind(node) for node in nodes]
        holder = {
            self.chips[at].rank: node for node in nodes for at in self.members[node]
        }
        found = []
        for ranks in parts:
            wanted = tuple([self.places[rank].role for rank in ranks])
            known: dict[Hashable, int] = {}
            here = {holder[rank] for rank in ranks if rank in holder}
            row = []
            for node, side in zip(nodes, sides, strict=True):
                if node in here:
                    row.append(self._weight(node, ranks))
                    continue
                if side not in known:
                    if (side, wanted) not in self._weights:
                        self._weights[side, wanted] = self._weight(node, ranks)
                    known[side] = self._weights[side, wanted]
                row.append(known[side])
            found.append(row)
        return found

    def _kind(self, node: int) -> int:
        """Return a number that nodes with the same roles and chips share."""
        held = tuple(
            (chip.rank is None, chip.role, self.links and chip.device_id)
            for chip in map(self.chips.__getitem__, self.members[node])
        )
        return self._kinds.setdefault(held, len(self._kinds))

    def _weight(self, node: int, ranks: Sequence[int]) -> int:
        rings, loads, moves = self.of(node, ranks)[1]
        return rings * _RING_WEIGHT + loads * _ROLE_WEIGHT + moves

    def of(
        self, node: int, ranks: Sequence[int]
    ) -> tuple[list[int], tuple[int, int, int]]:
        """Return the chips that carry some ranks, in rank order, and the cost.

        The cost is whether their ring is open, how many chips load other weights, and
        how many get another rank.
        """
        key = (node, tuple(ranks))
        if key not in self._known:
            self._known[key] = self._found(self.members[node], ranks)
        return self._known[key]

    def _found(
        self, block: Sequence[int], ranks: Sequence[int]
    ) -> tuple[list[int], tuple[int, int, int]]:
        as_now = list(block[: len(ranks)])
        cost = self._cost(as_now, ranks)
        if cost == (0, 0, 0) or (
            not any(cost[:2]) and self._is_elsewhere(block, ranks)
        ):
            return as_now, cost
        orders = []
        if self.links is not None:
            ids = tuple(self.chips[at].device_id for at in block)
            legal = _legal_orders(self.links, ids, len(ranks))
            orders = [[block[place] for place in order] for order in legal]
        if orders and not cost[0]:  # of orders that cost the same, keep the node's own
            orders.insert(0, as_now)
        if not orders:
            orders = [self._assigned(block, ranks)]
        costs = [self._cost(order, ranks) for order in orders]
        cost = min(costs)
        same = [own for own, one in zip(orders, costs, strict=True) if one == cost]
        return min(same, key=lambda order: self._open_groups(order, ranks)), cost

    def _open_groups(self, order: Sequence[int], ranks: Sequence[int]) -> int:
        """Return how many tensor parallel groups inside the node are not rings."""
        if self.links is None or self.tp is None:
            return 0
        chip_of = {
            rank: self.chips[at].device_id
            for rank, at in zip(ranks, order, strict=True)
        }
        indices = {self.tp.index_of(rank) for rank in ranks}
        return sum(
            _is_open(self.links, tuple([chip_of[rank] for rank in group]))
            for group in (self.tp[index] for index in indices)
            if chip_of.keys() >= set(group)
        )

    def _is_elsewhere(self, block: Sequence[int], ranks: Sequence[int]) -> bool:
        """Whether no chip of a node has one of these ranks, so that all change."""
        return set(ranks).isdisjoint([self._ranks[at] for at in block])

    def _assigned(self, block: Sequence[int], ranks: Sequence[int]) -> list[int]:
        place_of = {rank: place for place, rank in enumerate(ranks)}
        chips = [self.chips[at] for at in block]
        held = tuple(
            [
                None if chip.rank is None else (place_of.get(chip.rank), chip.role)
                for chip in chips
            ]
        )
        wanted = tuple([self.places[rank].role for rank in ranks])
        if (held, wanted) not in self._orders:
            self._orders[held, wanted] = _assigned(held, wanted)
        return [block[at] for at in self._orders[held, wanted]]

    def _cost(self, order: Sequence[int], ranks: Sequence[int]) -> tuple[int, int, int]:
        numbers = [self._ranks[at] for at in order]
        held = map(self._held.__getitem__, order)
        loads = sum(map(ne, held, map(self._wanted.__getitem__, ranks)))
        moves = sum(map(ne, numbers, ranks)) - numbers.count(None)
        is_open = False
        if self.links is not None:
            ids = [self.chips[at].device_id for at in order]
            is_open = _is_open(self.links, tuple(ids))
        return int(is_open), loads, moves


def _assigned(held: _Held, wanted: tuple[Hashable, ...]) -> tuple[int, ...]:
    """Return which chip of a node takes every place.

    Args:
        held: Place and role of every chip. The place is None for a rank that the node
            does not take; the whole entry is None for a new chip.
        wanted: The role of every place.
    """
    own = []
    for at, chip in enumerate(held):
        if chip is None:
            own.append(Chip())
        else:
            place, role = chip
            own.append(Chip(len(wanted) + at if place is None else place, role))
    return tuple(assign(own, [Place(role) for role in wanted]))


@lru_cache(maxsize=4096)
def _is_open(links: Topology, ids: tuple[int, ...]) -> bool:
    return max(ids) >= links.num_chips or bool(links.broken_links(ids))


@lru_cache(maxsize=256)  # the nodes of a cluster have the same few orders of chips
def _legal_orders(
    links: Topology, ids: tuple[int, ...], count: int
) -> tuple[tuple[int, ...], ...]:
    """Return the positions of chips in every order that is a closed ring."""
    place_of = {chip: place for place, chip in enumerate(ids)}
    found: dict[tuple[int, ...], None] = {}
    for chosen in islice(combinations(ids, count), _MOST_CHOICES):
        for ring in links.rings(chosen, _MOST_RINGS):
            places = tuple(place_of[chip] for chip in ring)
            for at in range(count):
                turned = (*places[at:], *places[:at])
                found[turned] = None
                found[turned[::-1]] = None
    return tuple(found)
