"""Host files of Open MPI and PRRTE: ``node01 slots=8``.

Source: openpmix/prrte, src/util/hostfile/hostfile.c; tried with Open MPI 4.1.4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.cluster.descriptions.expressing import (
    names_of,
    refuse_interleaved,
    sizes_of,
)
from ranktable.cluster.descriptions.form import Form
from ranktable.cluster.descriptions.openmpi_hosts import (
    host_word,
    identity,
    refuse_names,
)
from ranktable.cluster.descriptions.openmpi_keys import read_keys
from ranktable.cluster.descriptions.openmpi_lines import EQUALS, read_lines
from ranktable.cluster.descriptions.roster import Roster
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.descriptions.description import Description
    from ranktable.cluster.descriptions.form import Settings
    from ranktable.cluster.descriptions.source import Source, Word

TITLE = "an Open MPI host file"
_TWICE = (
    "Open MPI counts one slot for every bare line, and stops or adds up where slots= "
    "is given too"
)
_LINE = re.compile(
    r"^[ \t]*\^?\S+[ \t]+(?:slots|cpu|count|max)[\w-]*[ \t]*=", re.MULTILINE
)


@dataclass(slots=True)
class _Host:
    """A host while the file is read.

    Attributes:
        word: Its name, where it stands first.
        lines: Number of its lines that give no number.
        slots: The number that a line gives.
        maximum: The maximum that a line gives, and where.
    """

    word: Word
    lines: int = 0
    slots: int | None = None
    maximum: tuple[int, Word] | None = None

    @property
    def is_given(self) -> bool:
        return self.slots is not None or self.maximum is not None

    def number(self) -> int | None:
        if self.slots is not None:
            return self.slots
        if self.maximum is not None:
            return self.maximum[0]
        # One bare line means as many as the host has CPUs; two mean two.
        return self.lines if self.lines > 1 else None


@dataclass(slots=True)
class _Reader:
    source: Source
    hosts: dict[str, _Host] = field(default_factory=dict)
    excluded: list[Word] = field(default_factory=list)
    placed: set[str] = field(default_factory=set)

    def line(self, words: list[Word]) -> None:
        first = words[0]
        if first.text == "rank" and len(words) > 1 and words[1].text != EQUALS:
            self.rank(words)
        elif first.text.startswith("+"):
            self.source.say(
                rules.NOT_FIXED,
                first,
                f"{quoted(first.text)} is a place in an allocation, which the file "
                "does not have",
                hint="write the name of the host",
            )
        elif first.text.startswith("^"):
            self.exclusion(words)
        else:
            self.host(words)

    def rank(self, words: list[Word]) -> None:
        """Count a slot for the host of ``rank N=HOST slot=LIST``."""
        shape = [word.text for word in words[2:6]]
        if len(shape) < 2 or shape[0] != EQUALS:  # noqa: PLR2004 - = and a host
            self.source.say(
                rules.BAD_LINE,
                words[1],
                "this is not rank N=HOST",
                hint="write, for example, rank 0=node01 slot=0",
            )
            return
        self.source.number(words[1], "a rank")
        host = host_word(self.source, words[3])
        if host is not None:
            entry = self.entry(host)
            self.placed.add(identity(host.text))
            entry.lines += 1
            if entry.is_given:
                self.twice(host, entry)

    def exclusion(self, words: list[Word]) -> None:
        source = self.source
        host = host_word(source, words[0].part(1))
        for word in words[1:2]:
            source.say(rules.BAD_LINE, word, "nothing follows a host that is excluded")
        source.say(
            rules.NOT_EVERYWHERE,
            words[0],
            "Open MPI 4 does not know ^ and stops; PRRTE leaves the host out",
            hint="remove the lines of the host instead",
        )
        if host is not None:
            self.excluded.append(host)

    def host(self, words: list[Word]) -> None:
        if len(words) > 1 and words[1].text == EQUALS:
            self.source.say(
                rules.BAD_LINE,
                words[0],
                f"there is no host before {quoted(words[0].text)}",
                hint="a line begins with a host; a comment /* */ begins a new one",
            )
            return
        host = host_word(self.source, words[0])
        keys = read_keys(self.source, words[1:])
        if host is None:
            return
        entry = self.entry(host)
        if (keys and (entry.lines or entry.is_given)) or entry.is_given:
            self.twice(host, entry)
        elif keys:
            self.give(entry, keys)
        else:
            entry.lines += 1

    def entry(self, host: Word) -> _Host:
        return self.hosts.setdefault(identity(host.text), _Host(host))

    def twice(self, host: Word, entry: _Host) -> None:
        Roster(self.source).say_twice(host, entry.word, _TWICE)

    def give(self, entry: _Host, keys: dict[str, tuple[int, Word]]) -> None:
        if "slots" in keys:
            entry.slots = keys["slots"][0]
        if "maximum" in keys:
            entry.maximum = keys["maximum"]
        if entry.slots is not None and entry.maximum is not None:
            maximum, place = entry.maximum
            self.source.left_out.add("maximums of slots")
            if maximum < entry.slots:
                self.source.say(
                    rules.ABOVE_MAXIMUM,
                    place,
                    f"the maximum of {maximum} slots is below the {entry.slots} given",
                )
        if not entry.is_given:  # only a port or a user name
            entry.lines += 1


def read(source: Source) -> Description | None:
    """Return the hosts and slots of a host file."""
    reader = _Reader(source)
    for words in read_lines(source):
        reader.line(words)
    for word in reader.excluded:
        reader.hosts.pop(identity(word.text), None)
    roster = Roster(source)
    for name, host in reader.hosts.items():
        # A line of a rank file counts one slot, however few there are.
        slots = host.lines if name in reader.placed else host.number()
        roster.add(host.word, slots, _TWICE)
    return roster.description()


def write(description: Description, _settings: Settings) -> str:
    """Return the host file of a description."""
    refuse_interleaved(description, TITLE)
    names = names_of(description, TITLE)
    refuse_names(names, TITLE)
    sizes = sizes_of(description)
    return "".join(
        f"{name} slots={size}\n" for name, size in zip(names, sizes, strict=True)
    )


OPENMPI_HOSTFILE = Form(
    name="openmpi-hostfile",
    title=TITLE,
    read=read,
    write=write,
    is_known_by=lambda text: _LINE.search(text) is not None,
)
