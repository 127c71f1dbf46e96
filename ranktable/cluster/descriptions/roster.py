"""The hosts of a file while it is read: found by name, in the order of the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.cluster.descriptions.description import (
    MAX_HOSTS,
    MAX_SLOTS,
    Description,
    Host,
)
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.descriptions.source import Source, Word


@dataclass(slots=True)
class Entry:
    """A host and what is known of it so far.

    Attributes:
        word: Its name, where it stands first.
        slots: Number of processes, None while unknown.
    """

    word: Word
    slots: int | None


class Roster:
    """Hosts in the order of a file.

    Attributes:
        entries: The hosts by name.
    """

    def __init__(self, source: Source) -> None:
        """Begin without hosts."""
        self.source = source
        self.entries: dict[str, Entry] = {}
        self.total = 0

    def add(self, word: Word, slots: int | None, twice: str) -> None:
        """Add a host, or say that it stands there already.

        Args:
            word: The name.
            slots: Number of processes, None if unknown.
            twice: What the launcher does with a host that is there twice.
        """
        first = self.entries.get(word.text)
        if first is not None:
            self.say_twice(word, first.word, twice)
            return
        if len(self.entries) == MAX_HOSTS:
            self.source.too_many(word, "hosts")
        self.entries[word.text] = Entry(word, slots)
        self.grow(word, slots)

    def grow(self, word: Word, slots: int | None) -> None:
        """Count the slots of a host; say that it has none, or that all have many."""
        if slots == 0:
            self.source.say(
                rules.NO_SLOTS,
                word,
                f"{quoted(word.text)} has no slots",
                hint="remove the host, or give it slots",
            )
        before = self.total
        self.total += slots or 0
        if before <= MAX_SLOTS < self.total:
            self.source.too_many(word, "processes")

    def say_twice(self, word: Word, first: Word, twice: str) -> None:
        """Say that a host is there twice."""
        self.source.say(
            rules.HOST_TWICE,
            word,
            f"{quoted(word.text)} is described twice; {twice}",
            hint="give the host one line with all of its slots",
            first_use=first,
        )

    def description(self, *, are_chips: bool = False) -> Description | None:
        """Return the hosts, None if something is wrong with them.

        Args:
            are_chips: Whether the slots of a host are its chips 0 to slots - 1.
        """
        self.source.refuse_nothing(self.entries)
        if not self.source.is_sound:
            return None
        return Description(
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
