"""Hosts and ranks of a file while it is read, by name and in the order of the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.cluster.host_lists import MAX_HOSTS
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.hostfile import Host, Hostfile
from ranktable.cluster.source_text import MAX_SLOTS
from ranktable.schema.diagnostic import folded, quoted

if TYPE_CHECKING:
    from ranktable.cluster.source_text import SourceText, Token


@dataclass(slots=True)
class Entry:
    """A host and what is known of it so far.

    Attributes:
        word: Its name, where it stands first.
        slots: Number of processes, None while unknown.
    """

    word: Token
    slots: int | None


class HostTable:
    """Hosts in the order of a file.

    Attributes:
        entries: The hosts by name.
    """

    def __init__(self, source: SourceText) -> None:
        """Begin without hosts."""
        self.source = source
        self.entries: dict[str, Entry] = {}
        self.total = 0

    def add(self, word: Token, slots: int | None, twice: str) -> None:
        """Add a host, or say that it stands there already.

        Args:
            word: The name.
            slots: Number of processes, None if unknown.
            twice: What the launcher does with a host that is there twice.
        """
        first = self.entries.get(word.text)
        if first is not None:
            self.report_twice(word, first.word, twice)
            return
        if len(self.entries) == MAX_HOSTS:
            self.source.too_many(word, "hosts")
        self.entries[word.text] = Entry(word, slots)
        self.grow(word, slots)

    def grow(self, word: Token, slots: int | None) -> None:
        """Count the slots of a host; say that it has none, or that all have many."""
        if slots == 0:
            self.source.report(
                rules.NO_SLOTS,
                word,
                f"{quoted(word.text)} has no slots",
                hint="remove the host, or give it slots",
            )
        before = self.total
        self.total += slots or 0
        if before <= MAX_SLOTS < self.total:
            self.source.too_many(word, "processes")

    def report_twice(self, word: Token, first: Token, twice: str) -> None:
        """Say that a host is there twice."""
        self.source.report(
            rules.HOST_TWICE,
            word,
            f"{quoted(word.text)} is described twice; {twice}",
            hint="give the host one line with all of its slots",
            first_use=first,
        )

    def hostfile(self, *, are_chips: bool = False) -> Hostfile | None:
        """Return the hosts, None if something is wrong with them.

        Args:
            are_chips: Whether the slots of a host are its chips 0 to slots - 1.
        """
        self.source.refuse_nothing(self.entries)
        if not self.source.is_sound:
            return None
        return Hostfile(
            hosts=tuple(
                Host(
                    name=entry.word.text,
                    slots=entry.slots,
                    device_ids=tuple(range(entry.slots))
                    if are_chips and entry.slots is not None
                    else None,
                )
                for entry in self.entries.values()
            )
        )


@dataclass(slots=True)
class _AssignedHost:
    """The ranks of one host: rank and slot, None where that is not a single number."""

    word: Token
    ranks: list[tuple[int, int | None]] = field(default_factory=list)
    slots: dict[int, Token] = field(default_factory=dict)
    has_own_slots: bool = True


class RankAssignment:
    """The ranks of a file, as far as it is read."""

    def __init__(self, source: SourceText) -> None:
        """Begin without ranks."""
        self.source = source
        self.hosts: dict[str, _AssignedHost] = {}
        self.ranks: dict[int, Token] = {}

    def add(
        self,
        name: str,
        host: Token,
        rank: int,
        place: Token,
        slot: tuple[int | None, Token] | None = None,
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
            self.source.report(
                rules.RANK_TWICE,
                place,
                f"rank {rank} is placed twice",
                first_use=self.ranks[rank],
            )
            return
        self.ranks[rank] = place
        placed = self.hosts.setdefault(name, _AssignedHost(host))
        number, word = slot or (None, host)
        placed.ranks.append((rank, number))
        if number is None:
            placed.has_own_slots = False
        elif number in placed.slots:
            placed.has_own_slots = False
            self.source.report(
                rules.SLOT_TWICE,
                word,
                f"slot {number} of {quoted(placed.word.text)} is given to two ranks",
                hint="the slots then say nothing about chips",
                first_use=placed.slots[number],
            )
        else:
            placed.slots[number] = word

    def hostfile(self) -> Hostfile | None:
        """Return the hosts by their lowest ranks, None if something is wrong."""
        self.source.refuse_nothing(self.hosts)
        self._refuse_gaps()
        if not self.source.is_sound:
            return None
        hosts = [self._host(placed) for placed in self.hosts.values()]
        return Hostfile(hosts=tuple(sorted(hosts, key=_first_rank)))

    def _refuse_gaps(self) -> None:
        if not self.ranks or max(self.ranks) == len(self.ranks) - 1:
            return
        missing = [rank for rank in range(max(self.ranks)) if rank not in self.ranks]
        after = min(rank for rank in self.ranks if rank > missing[0])
        what = "rank" if len(missing) == 1 else "ranks"
        verb = "is" if len(missing) == 1 else "are"
        self.source.report(
            rules.RANK_MISSING,
            self.ranks[after],
            f"{what} {folded(missing)} {verb} placed nowhere",
            hint="ranks count from 0 without a gap",
        )

    def _host(self, placed: _AssignedHost) -> Host:
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
