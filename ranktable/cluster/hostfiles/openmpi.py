"""Host files and rank files of Open MPI and PRRTE.

A host file has ``node01 slots=8``. Comments are ``#``, ``//`` and ``/* */``. The last
kind ends a line on both sides. A comment up to the end of the line needs a newline:
Open MPI 4.1 refused one at the very end of a file.

A rank file has ``rank 0=node01 slot=0``. A slot is a CPU of the host by its logical
number; here it is the chip of the rank table. Open MPI 4.1.4 binds to CPU 0 if a slot
is not a number.

Source: openpmix/prrte, src/util/hostfile/hostfile.c, hostfile_lex.l,
src/mca/rmaps/rank_file/rmaps_rank_file_lex.l, rmaps_rank_file.c and docs,
detail-placement-rankfiles.rst; tried with Open MPI 4.1.4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.hostfile import (
    HostTable,
    LauncherFormat,
    RankAssignment,
    chips_of,
    names_of,
    ranks_of,
    refuse_interleaved,
    sizes_of,
)
from ranktable.cluster.source_text import MAX_SLOTS, Token, port_number
from ranktable.schema.addresses import is_address
from ranktable.schema.diagnostic import printable, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ranktable.cluster.hostfiles.hostfile import Hostfile, WriterOptions
    from ranktable.cluster.source_text import SourceText

EQUALS = "="

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\f\v]+)
      | (?P<line>\n)
      | (?P<comment>(?:\#|//)[^\n]*)
      | (?P<block>/\*.*?\*/)
      | (?P<word>=|[^\s=#"/\0-\x1f\x7f]+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ODD = {
    '"': "a quotation mark cannot stand here",
    "\r": "a carriage return ends this line; Open MPI takes it for a part of it",
}


def read_lines(source: SourceText) -> Iterator[list[Token]]:
    """Yield the words of every line that is not empty; ``=`` is a word."""
    words: list[Token] = []
    text = source.text
    at, end = 0, len(text)
    while at < end:
        match = _TOKEN.match(text, at)
        assert match is not None
        kind = match.lastgroup
        if kind == "word":
            words.append(Token(match[0], at, match.end()))
        elif kind == "other":
            _report_odd(source, match[0], at)
            # The rest of the line has no meaning.
            words = []
            at = text.find("\n", at) + 1 or end
            continue
        elif kind != "blank":
            if kind == "comment" and match.end() == end:
                _report_no_newline(source, Token(match[0], at, end))
            if kind != "comment" and words:
                yield words
                words = []
        at = match.end()
    if words:
        yield words


def _report_odd(source: SourceText, character: str, at: int) -> None:
    message = _ODD.get(character, f"{quoted(character)} cannot stand here")
    if source.text.startswith("/*", at):
        message = "a comment begins here and does not end"
    hint = "convert the file: sed -i 's/\\r$//' FILE" if character == "\r" else None
    word = Token(character, at, at + 1)
    source.report(rules.BAD_LINE, word, message, hint=hint)


def _report_no_newline(source: SourceText, comment: Token) -> None:
    source.report(
        rules.NOT_EVERYWHERE,
        comment,
        "for Open MPI 4 a comment at the end of the file is a parse error",
        hint="end the last line with a newline",
    )


SLOTS = ("slots", "cpu", "count")
SLOTS_MAX = tuple(
    f"{pair[0]}{joint}{pair[1]}"
    for name in SLOTS
    for joint in "-_"
    for pair in ((name, "max"), ("max", name))
)
USER_NAMES = ("username", "user-name", "user_name")
KEYWORDS = frozenset((*SLOTS, *SLOTS_MAX, *USER_NAMES, "rank", "slot", "port"))
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def host_word(source: SourceText, word: Token) -> Token | None:
    """Return the host of ``[user@]host``, None after reporting an error."""
    users = list(word.parts("@"))
    host = users[-1]
    if len(users) > 2 or not users[0].text:
        source.report(
            rules.BAD_HOST, word, f"{quoted(word.text)} is not a host or user@host"
        )
        return None
    if len(users) > 1:
        source.left_out.add("user names")
    reason = _problem(host.text)
    if reason is not None:
        source.report(rules.BAD_HOST, host, f"{quoted(host.text)} {reason}")
        return None
    return None if source.host(host) is None else host


def _problem(text: str) -> str | None:
    if text in KEYWORDS:
        return "is a word of Open MPI's host files, which cannot name a host"
    number = text.lstrip("0") or "0"
    if text.isascii() and text.isdigit() and text != number:
        return f"is a number to Open MPI, which makes {quoted(number)} of it"
    return None


def compared_name(name: str) -> str:
    """Return the name that Open MPI compares: names without domain, whole addresses."""
    return name if is_address(name) else name.partition(".")[0]


def refuse_names(names: Iterable[str], title: str) -> None:
    """Raise ArgumentError for hosts that Open MPI cannot read or cannot distinguish."""
    seen: dict[str, str] = {}
    for name in names:
        shown = printable(name)
        problem = _problem(name)
        if problem is None and not (_NAME.fullmatch(name) or is_address(name)):
            problem = "is not a name that it reads"
        if problem is not None:
            raise ArgumentError(f"{title} cannot name the host {shown}: it {problem}")
        first = seen.setdefault(compared_name(name), name)
        if first != name:
            raise ArgumentError(
                f"{title} cannot hold both {printable(first)} and {shown}: Open MPI "
                "cuts names at the first dot",
                hint="name the hosts without their domains: --hosts LIST",
            )


_PAIR = 3  # key = value
_REACHING = {"user": "user names", "port": "ports"}


def read_keys(source: SourceText, words: list[Token]) -> dict[str, tuple[int, Token]]:
    """Return ``slots`` and ``maximum`` with their places, as far as they are given.

    A port and a user name only help to reach the host: they are checked and left out.
    """
    found: dict[str, tuple[int, Token]] = {}
    at = 0
    while at < len(words):
        key = words[at]
        kind = _kind(key.text)
        has_value = len(words) >= at + _PAIR and words[at + 1].text == EQUALS
        if kind is None or not has_value:
            _report_odd_key(source, key, is_known=kind is not None)
            break
        value = words[at + 2]
        at += _PAIR
        if kind in _REACHING:
            source.left_out.add(_REACHING[kind])
        if kind == "user":
            continue
        if kind in found:
            source.report(
                rules.BAD_LINE, key, f"{key.text} is given twice in this line"
            )
        if kind == "port":
            number = port_number(source, value)
        else:
            number = source.count(value, hint="write, for example, slots=8")
        if number is not None:
            found[kind] = (number, value)
    return {kind: value for kind, value in found.items() if kind != "port"}


def _kind(key: str) -> str | None:
    if key in SLOTS:
        return "slots"
    if key in SLOTS_MAX:
        return "maximum"
    if key in USER_NAMES:
        return "user"
    return "port" if key == "port" else None


def _report_odd_key(source: SourceText, word: Token, *, is_known: bool) -> None:
    if is_known:
        message = f"{word.text} needs a value"
    elif word.text == EQUALS:
        message = "there is nothing before this ="
    else:
        message = f"{quoted(word.text)} is not a key; Open MPI ignores it or stops"
    hint = "a line is one host and keys: node01 slots=8 max_slots=16"
    source.report(rules.BAD_LINE, word, message, hint=hint)


HOSTFILE_TITLE = "an Open MPI host file"
_TWICE = (
    "Open MPI counts one slot for every bare line, and stops or adds up where slots= "
    "is given too"
)
_HOST_LINE = re.compile(
    r"^[ \t]*\S+[ \t]+(?:slots|cpu|count|max)[\w-]*[ \t]*=", re.MULTILINE
)


@dataclass(slots=True)
class _ListedHost:
    """A host of the file, as far as it has been read.

    Attributes:
        word: Its name where it first occurs.
        lines: Number of its lines without a number.
        slots: The number in one of its lines.
        maximum: The maximum in one of its lines, and its place.
    """

    word: Token
    lines: int = 0
    slots: int | None = None
    maximum: tuple[int, Token] | None = None

    @property
    def is_given(self) -> bool:
        return self.slots is not None or self.maximum is not None

    def number(self) -> int | None:
        if self.slots is not None:
            return self.slots
        if self.maximum is not None:
            return self.maximum[0]
        # One line without a number means all CPUs of the host; two mean two slots.
        return self.lines if self.lines > 1 else None


@dataclass(slots=True)
class _HostfileReader:
    source: SourceText
    hosts: dict[str, _ListedHost] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)

    def line(self, words: list[Token]) -> None:
        first = words[0]
        if first.text == "rank" and len(words) > 1 and words[1].text != EQUALS:
            self.rank(words)
        else:
            self.host(words)

    def rank(self, words: list[Token]) -> None:
        """Add a slot to the host of ``rank N=HOST slot=LIST``."""
        shape = [word.text for word in words[2:6]]
        if len(shape) < 2 or shape[0] != EQUALS:
            self.source.report(
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
            self.placed.add(compared_name(host.text))
            entry.lines += 1
            if entry.is_given:
                self.twice(host, entry)

    def host(self, words: list[Token]) -> None:
        if len(words) > 1 and words[1].text == EQUALS:
            self.source.report(
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

    def entry(self, host: Token) -> _ListedHost:
        return self.hosts.setdefault(compared_name(host.text), _ListedHost(host))

    def twice(self, host: Token, entry: _ListedHost) -> None:
        HostTable(self.source).report_twice(host, entry.word, _TWICE)

    def give(self, entry: _ListedHost, keys: dict[str, tuple[int, Token]]) -> None:
        if "slots" in keys:
            entry.slots = keys["slots"][0]
        if "maximum" in keys:
            entry.maximum = keys["maximum"]
        if entry.slots is not None and entry.maximum is not None:
            maximum, place = entry.maximum
            self.source.left_out.add("maximums of slots")
            if maximum < entry.slots:
                self.source.report(
                    rules.ABOVE_MAXIMUM,
                    place,
                    f"the maximum of {maximum} slots is below the {entry.slots} given",
                )
        if not entry.is_given:  # the line has only a port or a user name
            entry.lines += 1


def read_hostfile(source: SourceText) -> Hostfile | None:
    """Return the hosts and slots of a host file."""
    reader = _HostfileReader(source)
    for words in read_lines(source):
        reader.line(words)
    table = HostTable(source)
    for name, host in reader.hosts.items():
        # A line of a rank file adds one slot, even if the host has fewer.
        slots = host.lines if name in reader.placed else host.number()
        table.add(host.word, slots, _TWICE)
    return table.hostfile()


def write_hostfile(hostfile: Hostfile, _options: WriterOptions) -> str:
    """Return the text of a host file."""
    refuse_interleaved(hostfile, HOSTFILE_TITLE)
    names = names_of(hostfile, HOSTFILE_TITLE)
    refuse_names(names, HOSTFILE_TITLE)
    sizes = sizes_of(hostfile)
    return "".join(
        f"{name} slots={size}\n" for name, size in zip(names, sizes, strict=True)
    )


OPENMPI_HOSTFILE = LauncherFormat(
    name="openmpi-hostfile",
    title=HOSTFILE_TITLE,
    read=read_hostfile,
    write=write_hostfile,
    matches=_HOST_LINE.search,
)


RANKFILE_TITLE = "an Open MPI rank file"
_EXAMPLE = "write, for example, rank 0=node01 slot=0"
_SHAPE = (("rank",), None, (EQUALS,), None, ("slot", "slots"), (EQUALS,), None)
# [package:]cores, with more of them after semicolons.
_CORES = r"(?:\*|[0-9]{1,9}(?:-[0-9]{1,9})?(?:,[0-9]{1,9}(?:-[0-9]{1,9})?)*)"
_SLOTS = re.compile(rf"(?:[0-9]{{1,9}}:)?{_CORES}(?:;(?:[0-9]{{1,9}}:)?{_CORES})*")
_COUNTS_DOWN = re.compile(r"([0-9]+)-([0-9]+)")
_RANK_LINE = re.compile(r"^[ \t]*rank[ \t]+\S+[ \t]*=", re.MULTILINE)


def read_rankfile(source: SourceText) -> Hostfile | None:
    """Return the hosts of a rank file, with the ranks and slots of each host."""
    assignment = RankAssignment(source)
    for words in read_lines(source):
        _read_line(source, words, assignment)
    return assignment.hostfile()


def _read_line(
    source: SourceText, words: list[Token], assignment: RankAssignment
) -> None:
    for place, wanted in enumerate(_SHAPE):
        text = words[place].text if place < len(words) else ""
        if not text or (text == EQUALS if wanted is None else text not in wanted):
            _report_shape(source, words, place)
            return
    for word in words[len(_SHAPE) : len(_SHAPE) + 1]:
        source.report(
            rules.BAD_LINE,
            word,
            f"{quoted(word.text)} follows the slots; Open MPI ignores it",
            hint="give every rank a line of its own",
        )
    rank = source.number(words[1], "a rank", hint=_EXAMPLE)
    host = host_word(source, words[3])
    slot = _slot(source, words[6])
    if rank is not None and rank >= MAX_SLOTS:
        source.too_many(words[1], "ranks")
    elif rank is not None and host is not None:
        assignment.add(compared_name(host.text), host, rank, words[1], slot)


def _report_shape(source: SourceText, words: list[Token], place: int) -> None:
    if place < len(words):
        word = words[place]
        message = f"{quoted(word.text)} is not what a line of a rank file has here"
    else:
        last = words[-1]
        word = Token(last.text, last.start, last.end)
        message = f"the line ends after {quoted(last.text)}"
        if place >= len(_SHAPE) - 3:
            message += "; a rank needs a slot"
    source.report(rules.BAD_LINE, word, message, hint=_EXAMPLE)


def _slot(source: SourceText, word: Token) -> tuple[int | None, Token]:
    """Return the slot if the list is a single number, and its place."""
    if not _SLOTS.fullmatch(word.text):
        source.report(
            rules.BAD_COUNT,
            word,
            f"{quoted(word.text)} is not a list of slots; Open MPI 4 binds to CPU 0",
            hint="write 3, 0-1,4 or 1:0-2",
        )
        return None, word
    for low, high in _COUNTS_DOWN.findall(word.text):
        if int(high) < int(low):
            source.report(rules.BAD_COUNT, word, f"the range {low}-{high} counts down")
    is_one = word.text.isdigit()
    return int(word.text) if is_one else None, word


def write_rankfile(hostfile: Hostfile, _options: WriterOptions) -> str:
    """Return the text of a rank file, with one line for each rank in their order."""
    names = names_of(hostfile, RANKFILE_TITLE)
    refuse_names(names, RANKFILE_TITLE)
    placed = zip(names, ranks_of(hostfile), chips_of(hostfile), strict=True)
    lines = sorted(
        (rank, name, chip)
        for name, ranks, chips in placed
        for rank, chip in zip(ranks, chips, strict=True)
    )
    return "".join(f"rank {rank}={name} slot={chip}\n" for rank, name, chip in lines)


OPENMPI_RANKFILE = LauncherFormat(
    name="openmpi-rankfile",
    title=RANKFILE_TITLE,
    read=read_rankfile,
    write=write_rankfile,
    matches=_RANK_LINE.search,
    holds_chips=True,
)
