"""Which chip has which rank after a change, so that as few ranks move as possible.

Two things can change. A chip with another role, such as another stage of the pipeline,
has to load other weights: this is avoided first. A chip that only gets another number
loads nothing, but its peers have to learn of it.

Both counts are the least possible. Each role has some places, and as many of its chips
as there are places keep it; no assignment can do better. A chip keeps its number if the
place with that number has its role. If chips have to change their role, those are
chosen first whose number is a place of the new role, so they keep it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


class Chip(NamedTuple):
    """A chip that can carry a rank.

    Attributes:
        rank: The rank that it has, None for one that is new.
        role: What it holds, None for one that is new.
        copy: Which copy of the model it belongs to.
        node: The node that it is in.
        device_id: Its number there.
    """

    rank: int | None = None
    role: Hashable = None
    copy: int | None = None
    node: int = 0
    device_id: int = 0


class Place(NamedTuple):
    """A rank that needs a chip.

    Attributes:
        role: The role that the chip must have.
        copy: Which copy of the model it belongs to.
    """

    role: Hashable = None
    copy: int | None = None


def assign(chips: Sequence[Chip], places: Sequence[Place]) -> list[int]:
    """Return the index of the chip of every rank.

    Args:
        chips: The chips; those that are new come last. There are at least as many as
            places.
        places: Role and copy of every rank.
    """
    return _Assignment(chips, places).found()


class _Assignment:
    def __init__(self, chips: Sequence[Chip], places: Sequence[Place]) -> None:
        self.chips = chips
        self.places = places
        self.taken: list[int | None] = [None] * len(places)
        self.free: dict[Hashable, list[int]] = defaultdict(list)
        self.new: list[int] = []
        self.open: dict[Hashable, list[int]] = defaultdict(list)
        self.size = Counter(chip.copy for chip in chips if chip.rank is not None)

    def found(self) -> list[int]:
        self._stay()
        self._keep_roles()
        self._fill()
        return [chip for chip in self.taken if chip is not None]

    def _stay(self) -> None:
        """Leave chips where they can stay; sort the others, and the open places."""
        for index, chip in enumerate(self.chips):
            rank = chip.rank
            if rank is None:
                self.new.append(index)
            elif rank < len(self.places) and self.places[rank].role == chip.role:
                self.taken[rank] = index
            else:
                self.free[chip.role].append(index)
        for rank, place in enumerate(self.places):
            if self.taken[rank] is None:
                self.open[place.role].append(rank)

    def _keep_roles(self) -> None:
        """Give every open place to a chip of its role, as long as there are any."""
        short = [
            rank
            for role, ranks in self.open.items()
            if len(ranks) > len(self.free.get(role, ()))
            for rank in ranks
        ]
        # New chips take places first; only when there are none left, chips change role.
        missing = sum(
            max(0, len(ranks) - len(self.free.get(role, ())))
            for role, ranks in self.open.items()
        )
        wanted = set(short) if missing > len(self.new) else set()

        def order(index: int) -> tuple[bool, int, int]:
            """Sort chips that are needed elsewhere last, whole copies first."""
            chip = self.chips[index]
            assert chip.rank is not None
            return chip.rank in wanted, -self.size[chip.copy], chip.rank

        best = {role: sorted(self.free.get(role, ()), key=order) for role in self.free}
        # Numbers of chips without a place of their role: they may keep these numbers.
        surplus = {
            self.chips[index].rank
            for role, chips in best.items()
            for index in chips[len(self.open.get(role, ())) :]
        } & wanted
        for role, ranks in self.open.items():
            chips = best.get(role, [])[: len(ranks)]
            by_copy = {
                self.chips[index].copy: index
                for index in chips
                if self.chips[index].copy is not None
            }
            left = dict.fromkeys(chips)
            later = []
            for rank in sorted(ranks, key=lambda rank: (rank in surplus, rank)):
                copy = self.places[rank].copy
                index = by_copy.get(copy)
                if index in left and rank not in surplus:
                    self._take(rank, index)
                    del left[index]
                else:
                    later.append(rank)
            for rank, index in zip(later, left, strict=False):
                self._take(rank, index)

    def _fill(self) -> None:
        """Give the remaining ranks to new chips, then to chips of other roles."""
        used = {index for index in self.taken if index is not None}
        left = [
            index
            for indices in self.free.values()
            for index in indices
            if index not in used
        ]
        still = [rank for rank, index in enumerate(self.taken) if index is None]
        spared = len(still) - len(self.new)
        own = {self.chips[index].rank: index for index in left}
        for rank in still if spared > 0 else ():
            if rank in own and spared > 0:
                self._take(rank, own[rank])
                spared -= 1
        taken = set(self.taken)
        rest = (rank for rank in still if self.taken[rank] is None)
        others = sorted(index for index in left if index not in taken)
        for rank, index in zip(rest, (*self.new, *others), strict=False):
            self._take(rank, index)

    def _take(self, rank: int, index: int) -> None:
        self.taken[rank] = index
