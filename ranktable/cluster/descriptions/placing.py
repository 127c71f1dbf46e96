"""Ranks that a file places one by one, in any order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.cluster.descriptions.description import Description, Host
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.messages import folded, quoted

if TYPE_CHECKING:
    from ranktable.cluster.descriptions.source import Source, Word


@dataclass(slots=True)
class _Placed:
    """The ranks of one host: rank and slot, None where that is no single number."""

    word: Word
    ranks: list[tuple[int, int | None]] = field(default_factory=list)
    slots: dict[int, Word] = field(default_factory=dict)
    has_own_slots: bool = True


class Placing:
    """The ranks of a file, as far as it is read."""

    def __init__(self, source: Source) -> None:
        """Begin without ranks."""
        self.source = source
        self.hosts: dict[str, _Placed] = {}
        self.ranks: dict[int, Word] = {}

    def add(
        self,
        name: str,
        host: Word,
        rank: int,
        place: Word,
        slot: tuple[int | None, Word] | None = None,
    ) -> None:
        """Add a rank.

        Args:
            name: What tells the host from others.
            host: The host.
            rank: The rank.
            place: Where the rank stands.
            slot: Its slot, and where that stands.
        """
        if rank in self.ranks:
            self.source.say(
                rules.RANK_TWICE,
                place,
                f"rank {rank} is placed twice",
                first_use=self.ranks[rank],
            )
            return
        self.ranks[rank] = place
        placed = self.hosts.setdefault(name, _Placed(host))
        number, word = slot or (None, host)
        placed.ranks.append((rank, number))
        if number is None:
            placed.has_own_slots = False
        elif number in placed.slots:
            placed.has_own_slots = False
            self.source.say(
                rules.SLOT_TWICE,
                word,
                f"slot {number} of {quoted(placed.word.text)} is given to two ranks",
                hint="the slots then say nothing about chips",
                first_use=placed.slots[number],
            )
        else:
            placed.slots[number] = word

    def description(self) -> Description | None:
        """Return the hosts by their lowest ranks, None if something is wrong."""
        self.source.refuse_nothing(self.hosts)
        self._refuse_gaps()
        if not self.source.is_sound:
            return None
        hosts = [self._host(placed) for placed in self.hosts.values()]
        return Description(hosts=tuple(sorted(hosts, key=_first_rank)))

    def _refuse_gaps(self) -> None:
        if not self.ranks or max(self.ranks) == len(self.ranks) - 1:
            return
        missing = [rank for rank in range(max(self.ranks)) if rank not in self.ranks]
        after = min(rank for rank in self.ranks if rank > missing[0])
        what = "rank" if len(missing) == 1 else "ranks"
        verb = "is" if len(missing) == 1 else "are"
        self.source.say(
            rules.RANK_MISSING,
            self.ranks[after],
            f"{what} {folded(missing)} {verb} placed nowhere",
            hint="ranks count from 0 without a gap",
        )

    def _host(self, placed: _Placed) -> Host:
        pairs = sorted(placed.ranks, key=lambda pair: pair[0])
        chips = tuple(slot for _, slot in pairs if slot is not None)
        return Host(
            name=placed.word.text,
            slots=len(pairs),
            device_ids=chips if placed.has_own_slots else None,
            ranks=tuple(rank for rank, _ in pairs),
        )


def _first_rank(host: Host) -> int:
    assert host.ranks is not None  # noqa: S101 - a host is here for its ranks
    return host.ranks[0]
