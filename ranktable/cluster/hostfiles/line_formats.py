"""Host files with one host or one rank a line: five formats, one reader, one writer.

A line is a head, such as ``node01:8`` or ``rank 0=node01``, and keys, ``slots=8``. Keys
that only say how a host is reached are left out of what is read.

Sources: openpmix/prrte, src/util/hostfile/hostfile.c and
src/mca/rmaps/rank_file/rmaps_rank_file.c; pmodels/mpich,
src/pm/hydra/lib/utils/args.c; microsoft/DeepSpeed, deepspeed/launcher/runner.py,
_parse_hostfile; SchedMD/slurm, slurm_read_hostfile in src/api/allocate.c; tried with
Open MPI 4.1.4, MPICH 4.0.2 and Slurm 22.05.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.host_lists import MAX_HOSTS
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.hostfile import (
    Host,
    Hostfile,
    LauncherFormat,
    chips_of,
    names_of,
    ranks_of,
    refuse_interleaved,
)
from ranktable.cluster.hostfiles.slurm import expand_token
from ranktable.cluster.source_text import MAX_SLOTS, Token
from ranktable.schema.rules.hccl import LOOPBACK
from ranktable.schema.rules.nodes import REACHABLE
from ranktable.schema.text import named_ranks, printable, quoted
from ranktable.schema.values import is_address, is_loopback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.cluster.hostfiles.hostfile import WriterOptions
    from ranktable.cluster.source_text import SourceText

_END = r"(?=[ \t\r]|$)"
_COUNT = re.compile(r"[0-9]{1,9}\Z")
_SLOT_LIST = re.compile(r"[0-9*][0-9:;,*-]*(?<![-:;,])")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFormat:
    """One format with one host or one rank a line.

    Attributes:
        name: Its name on the command line.
        title: A name for people, with an article.
        head: The beginning of a line; its groups are host, and slots, rank or times.
        keys: What the value of each key is: ``slots``, ``slot``, or what is left out.
        needed: The value that every line needs.
        equals: The pattern between a key and its value.
        comment: The pattern of comments.
        blanks: Characters that may end a line.
        ignored: What the launcher does with other words after the keys; if it is empty,
            they are refused.
        slots: Processes of a host without a number, None if only the host knows it.
        repeats: Which lines of one host are added up: those without a number, or those
            that follow each other; other repetitions are refused.
        twice: What the launcher does with these.
        is_short: Whether names are compared up to their first dot.
        by_rank: Whether a line is a rank.
        written: The template of a line that is written.
        selects: The launcher's option that names the slots to use: w1:2,3@w2.
        like: What a text of this format contains.
        has_repeats: Whether a list of nothing but addresses is of this format if one of
            them is repeated, or if none is; None if it never is.
    """

    name: str
    title: str
    head: re.Pattern[str]
    keys: Mapping[str, str] = field(default_factory=dict)
    needed: str = ""
    equals: str = "="
    comment: re.Pattern[str] = re.compile(r"#[^\n]*")
    blanks: str = " \t\r"
    ignored: str = ""
    slots: int | None = None
    repeats: Literal["", "bare", "next"] = ""
    twice: str = "it stops"
    is_short: bool = False
    by_rank: bool = False
    written: str
    selects: str = ""
    like: re.Pattern[str]
    has_repeats: bool | None = None

    def matches(self, text: str) -> bool:
        """Whether a text looks like this format."""
        if self.has_repeats is None or not _ADDRESSES.match(text):
            return self.like.search(text) is not None
        names = [line.partition("#")[0].strip() for line in text.split("\n")]
        number = len(names) - names.count("")
        return (len({*names} - {""}) < number) is self.has_repeats

    def read(self, source: SourceText) -> Hostfile | None:
        """Return the hosts of a text, None after reporting errors."""
        reader = _Reader(source, self)
        text = self._without_comments(source.text)
        at = 0
        for line in text.split("\n"):
            if line.strip(self.blanks):
                reader.line(Token(line, at, at + len(line)))
            at += len(line) + 1
        return reader.hostfile()

    def _without_comments(self, text: str) -> str:
        """Return a text with blanks in place of comments.

        A comment of several lines is searched only where one can end: each that never
        ends would be followed to the end of the text.
        """
        if self.comment is not _OPENMPI_COMMENT:
            return self.comment.sub(_blanked, text)
        end = max(text.rfind("*/") + 2, 0) if "*/" in text else 0
        rest = _LINE_COMMENT.sub(_blanked, text[end:])
        return self.comment.sub(_blanked, text[:end]) + rest

    def write(self, hostfile: Hostfile, _options: WriterOptions) -> str:
        """Return the text for some hosts.

        Raises:
            ArgumentError: The format cannot express them.
        """
        if not self.by_rank:
            refuse_interleaved(hostfile, self.title)
        names = names_of(hostfile, self.title)
        ranks, chips = ranks_of(hostfile), chips_of(hostfile)
        first: dict[str, str] = {}
        lines: list[tuple[int, str]] = []
        is_selected = bool(self.selection(hostfile))
        for name, own, slots in zip(names, ranks, chips, strict=True):
            count = max(slots) + 1 if is_selected else len(own)
            line = partial(self.written.format, host=name, slots=count)
            self._refuse_name(name, line(rank=0, slot=0), first)
            pairs = list(zip(own, slots, strict=True))
            lines += [
                (rank, line(rank=rank, slot=slot))
                for rank, slot in (pairs if self.by_rank else pairs[:1])
            ]
        return "".join(f"{line}\n" for _, line in sorted(lines))

    def selection(self, hostfile: Hostfile) -> str:
        """Return the option with which processes get their chips.

        Returns:
            An empty text if each has the chip of its number, or no option can say it:
            a name with a colon ends at that.
        """
        chips = chips_of(hostfile)
        are_first = all(own == tuple(range(len(own))) for own in chips)
        is_large = any(max(own, default=0) >= MAX_SLOTS for own in chips)
        if not self.selects or are_first or is_large:
            return ""
        names = names_of(hostfile, self.title)
        if any(":" in name or "@" in name for name in names):
            return ""
        used = [
            # Without numbers, all slots that the file gives the host.
            name if own == tuple(range(len(own))) else f"{name}:{_comma_list(own)}"
            for name, own in zip(names, chips, strict=True)
        ]
        return f"{self.selects} {'@'.join(used)}"

    def _refuse_name(self, name: str, line: str, first: dict[str, str]) -> None:
        """Raise ArgumentError for a name that would not be read back."""
        match = self.head.match(line)
        if match is None or match["host"] != name:
            raise ArgumentError(
                f"{self.title} cannot name the host {printable(name)}",
                hint="name the hosts: --hosts LIST",
            )
        other = first.setdefault(self.compared(name), name)
        if other != name:
            raise ArgumentError(
                f"{self.title} cannot hold both {printable(other)} and "
                f"{printable(name)}: names are cut at the first dot",
                hint="name the hosts without their domains: --hosts LIST",
            )

    @property
    def hint(self) -> str:
        """How a line is written."""
        example = self.written.format(host="node01", slots=8, rank=0, slot=0)
        return f"a line is, for example, {example}"

    def compared(self, name: str) -> str:
        """Return the name by which hosts are distinguished."""
        is_cut = self.is_short and not is_address(name)
        return name.partition(".")[0] if is_cut else name


def _blanked(comment: re.Match[str]) -> str:
    """Return blanks in place of a comment; one of several lines ends its line."""
    end = "\n" if comment[0].startswith("/*") else " "
    return end + re.sub(r"[^\n]", " ", comment[0][1:])


@dataclass(slots=True)
class _Entry:
    """A host, as far as the text has been read.

    Attributes:
        word: Its name where it first occurs.
        slots: Number of its processes, None if it is not known.
        bare: Number of its lines without a number.
        ranks: Its ranks with their slots, None for a slot that is not one number.
    """

    word: Token
    slots: int | None = None
    bare: int = 0
    ranks: list[tuple[int, int | None]] = field(default_factory=list)


class _Reader:
    """Reads the lines of one text."""

    def __init__(self, source: SourceText, form: LineFormat) -> None:
        self.source = source
        self.form = form
        self.pair = re.compile(rf"[ \t]+([^\s=]+){form.equals}([^\s=]+){_END}")
        self.entries: dict[str, _Entry] = {}
        self.ranks: dict[int, Token] = {}
        self.taken: dict[tuple[str, int], Token] = {}
        self.last: _Entry | None = None
        self.before: _Entry | None = None
        self.total = 0
        self.hint = form.hint

    def line(self, line: Token) -> None:
        """Read one line."""
        self.before, self.last = self.last, None
        head = self.form.head.match(line.text)
        if head is None:
            self.refuse(line, 0)
            return
        parts = {
            name: line.part(*head.span(name))
            for name in self.form.head.groupindex
            if head[name] is not None
        }
        at = self._keys(line, head.end(), parts)
        is_rest = bool(line.text[at:].strip(self.form.blanks))
        if self.form.needed and self.form.needed not in parts:
            self.refuse(line, at if is_rest else head.start("host"))
        elif is_rest and not self.form.ignored:
            self.refuse(line, at)
        else:
            if is_rest:
                self._ignore(line, at)
            if "user" in parts:
                self.source.left_out.add("user names")
            self._add(parts)

    def _keys(self, line: Token, at: int, parts: dict[str, Token]) -> int:
        """Add the values of the keys to the parts; return where they end."""
        while match := self.pair.match(line.text, at):
            meaning = self.form.keys.get(match[1])
            if meaning is None:
                break
            if meaning in parts:
                word, message = line.part(*match.span(1)), f"{match[1]} is given twice"
                self.source.report(rules.BAD_LINE, word, message)
            parts[meaning] = line.part(*match.span(2))
            if meaning == _MAXIMUM:
                self._refuse_maximum(parts)
            if meaning not in ("slots", "slot"):
                self.source.left_out.add(meaning)
            at = match.end()
        return at

    def _refuse_maximum(self, parts: Mapping[str, Token]) -> None:
        """Report a maximum below the number before it, as Open MPI does."""
        most, slots = parts[_MAXIMUM], parts.get("slots")
        if slots is None or not (_COUNT.match(most.text) and _COUNT.match(slots.text)):
            return
        if int(most.text) < int(slots.text):
            message = f"the maximum {most.text} is less than the {slots.text} slots"
            hint = f"write {slots.text} or more, or leave the maximum out"
            self.source.report(rules.COUNTS_DISAGREE, most, message, hint=hint)

    def refuse(self, line: Token, at: int) -> None:
        """Report the first word from an offset on."""
        match = re.compile(r"[ \t]*([^ \t]+)").match(line.text, at)
        word = line.part(*match.span(1)) if match else line
        message = f"{quoted(word.text)} does not belong here"
        hint = self.hint
        if word.text.endswith("\r"):
            hint = "a carriage return ends the line: sed -i 's/\\r$//' FILE"
        self.source.report(rules.BAD_LINE, word, message, hint=hint)

    def _ignore(self, line: Token, at: int) -> None:
        rest = line.text[at:].strip(self.form.blanks)
        start = line.text.index(rest, at)
        word = line.part(start, start + len(rest))
        message = f"{self.form.ignored} {quoted(word.text)}"
        self.source.report(rules.IGNORED_TEXT, word, message)

    def _add(self, parts: dict[str, Token]) -> None:
        """Add the host or the ranks of a line."""
        source, host = self.source, parts["host"]
        numbers = {
            name: source.count(parts[name], what, hint=self.hint)
            for name, what in _NUMBERS.items()
            if name in parts
        }
        if self.form.by_rank and "rank" not in parts:
            names = expand_token(source, host)
        else:
            names = [host.text] if source.host(host) is not None else []
        if not names or None in numbers.values():
            return
        times = numbers.get("times", 1) or 0
        if len(names) * times + self.total > MAX_SLOTS:
            source.too_many(host, "processes")
            return
        for name in names * times:
            if self.form.by_rank:
                rank = numbers.get("rank", len(self.ranks))
                self._add_rank(host._replace(text=name), rank or 0, parts)
            else:
                self._add_host(host, numbers.get("slots"))
        if times == 0 or numbers.get("slots") == 0:
            message = f"{quoted(host.text)} has no slots"
            source.report(rules.NO_SLOTS, host, message, hint="remove the host")

    def _entry(self, host: Token) -> _Entry:
        if len(self.entries) == MAX_HOSTS:
            self.source.too_many(host, "hosts")
        return self.entries.setdefault(self.form.compared(host.text), _Entry(host))

    def _add_host(self, host: Token, slots: int | None) -> None:
        form = self.form
        is_new = form.compared(host.text) not in self.entries
        entry = self._entry(host)
        number = form.slots if slots is None else slots
        if is_new:
            entry.slots = number
        elif form.repeats == "next" and entry is self.before:
            entry.slots = (entry.slots or 0) + (number or 0)
        elif form.repeats == "bare" and slots is None and entry.bare:
            entry.slots = entry.bare + 1
        else:
            self.source.report(
                rules.HOST_TWICE,
                host,
                f"{quoted(host.text)} is described twice; {form.twice}",
                hint="give the host one line with all of its slots",
                first_use=entry.word,
            )
        entry.bare += slots is None
        self.last = entry
        self._count(host, number or 0)

    def _add_rank(self, host: Token, rank: int, parts: dict[str, Token]) -> None:
        place = parts.get("rank", host)
        if rank in self.ranks:
            message = f"rank {rank} is listed twice"
            first = self.ranks[rank]
            self.source.report(rules.RANK_TWICE, place, message, first_use=first)
            return
        self.ranks[rank] = place
        self._entry(host).ranks.append((rank, self._slot(host, parts.get("slot"))))
        self._count(host, 1)

    def _slot(self, host: Token, word: Token | None) -> int | None:
        """Return the chip that a slot means, None if it is not one number."""
        if word is None:
            return None
        if not _SLOT_LIST.fullmatch(word.text):
            message = f"{quoted(word.text)} is not a list of slots"
            self.source.report(rules.BAD_COUNT, word, message, hint="write 3 or 0-1,4")
            return None
        if not word.text.isdigit():
            return None
        number = self.source.count(word)
        if number is None:
            return None
        first = self.taken.setdefault((self.form.compared(host.text), number), word)
        if first is not word:
            self.source.report(
                rules.SLOT_TWICE,
                word,
                f"slot {number} of {quoted(host.text)} is given to two ranks",
                hint="the slots then say nothing about chips",
                first_use=first,
            )
            return None
        return number

    def _count(self, word: Token, processes: int) -> None:
        before = self.total
        self.total += processes
        if before <= MAX_SLOTS < self.total:
            self.source.too_many(word, "processes")

    def hostfile(self) -> Hostfile | None:
        """Return the hosts by their lowest ranks, None if there are errors."""
        self.source.refuse_nothing(self.entries)
        here = [one.word for one in self.entries.values() if is_loopback(one.word.text)]
        for word in here if len(here) < len(self.entries) else ():
            message = f"{quoted(word.text)} is what every host calls itself"
            self.source.report(LOOPBACK, word, message, hint=REACHABLE)
        missing = [r for r in range(max(self.ranks, default=0)) if r not in self.ranks]
        if missing:
            after = min(rank for rank in self.ranks if rank > missing[0])
            verb = "is" if len(missing) == 1 else "are"
            message = f"{named_ranks(missing)} {verb} missing"
            self.source.report(rules.RANK_MISSING, self.ranks[after], message)
        if not self.source.is_sound:
            return None
        hosts = [_host(entry) for entry in self.entries.values()]
        if self.form.by_rank:
            hosts.sort(key=lambda host: host.ranks or ())
        return Hostfile(hosts=tuple(hosts))


_NUMBERS = {
    "slots": "a number of processes",
    "rank": "a rank",
    "times": "a number of repetitions",
}


def _host(entry: _Entry) -> Host:
    if not entry.ranks:
        return Host(name=entry.word.text, slots=entry.slots)
    pairs = sorted(entry.ranks, key=lambda pair: pair[0])
    chips = tuple(slot for _, slot in pairs if slot is not None)
    return Host(
        name=entry.word.text,
        slots=len(pairs),
        device_ids=chips if len(chips) == len(pairs) else None,
        ranks=tuple(rank for rank, _ in pairs),
    )


_LINE_COMMENT = re.compile(r"#[^\n]*|//[^\n]*")
_OPENMPI_COMMENT = re.compile(r"#[^\n]*|//[^\n]*|/\*.*?\*/", re.DOTALL)
_MAXIMUM = "maximums of slots"
_LEFT_OUT = {
    **{
        key: _MAXIMUM
        for name in ("slots", "cpu", "count")
        for joint in "-_"
        for key in (f"{name}{joint}max", f"max{joint}{name}")
    },
    **dict.fromkeys(("username", "user-name", "user_name"), "user names"),
    "port": "ports",
}
_SHARED = r"[ \t]*(?:(?P<user>[^\s@=]+)@)?(?P<host>[^\s@=]+)"

_COMMENT = r"[ \t]*(?:#[^\n]*)?\r?"
_NAME = rf"[ \t]*[A-Za-z0-9][A-Za-z0-9._-]*{_COMMENT}"
_HOST = (
    r"[ \t]*(?=[A-Za-z-]*[0-9.])(?![0-9._]*[ \t\r]*(?:[#\n]|\Z))"  # no number alone
    rf"[A-Za-z0-9][A-Za-z0-9._-]*{_COMMENT}"
)
_ADDRESS = r"[ \t]*(?:[0-9]{1,3}\.){3}[0-9]{1,3}"
_ADDRESSES = re.compile(
    rf"(?:{_COMMENT}\n)*{_ADDRESS}{_COMMENT}(?:\n(?:{_ADDRESS})?{_COMMENT})*\Z"
)
LINE_FORMATS = (
    LineFormat(
        name="openmpi-hostfile",
        title="an Open MPI host file",
        head=re.compile(_SHARED + _END),
        keys={**dict.fromkeys(("slots", "cpu", "count"), "slots"), **_LEFT_OUT},
        equals=r"[ \t]*=[ \t]*",
        comment=_OPENMPI_COMMENT,
        blanks=" \t",
        repeats="bare",
        twice="Open MPI stops or adds up",
        is_short=True,
        written="{host} slots={slots}",
        like=re.compile(
            r"^[ \t]*\S+[ \t]+(?:slot|cpu|count|max)[\w-]*[ \t]*=", re.MULTILINE
        ),
    ),
    LineFormat(
        name="openmpi-rankfile",
        title="an Open MPI rank file",
        head=re.compile(r"[ \t]*rank[ \t]+(?P<rank>[^\s=]+)[ \t]*=" + _SHARED + _END),
        keys={"slot": "slot", "slots": "slot"},
        needed="slot",
        equals=r"[ \t]*=[ \t]*",
        comment=_OPENMPI_COMMENT,
        blanks=" \t",
        is_short=True,
        by_rank=True,
        written="rank {rank}={host} slot={slot}",
        like=re.compile(r"^[ \t]*rank[ \t]+\S+[ \t]*=", re.MULTILINE),
    ),
    LineFormat(
        name="mpich-machinefile",
        title="an MPICH machine file",
        head=re.compile(r"[ \t]*(?P<host>[^\s:]*)(?::(?P<slots>[^\s:]*))?" + _END),
        keys={"user": "user names", "binding": "bindings"},
        # Recent sources of MPICH read a comment only at the beginning of a line.
        comment=re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE),
        slots=1,
        repeats="next",
        twice="MPICH starts a second group of processes there, whose local ranks "
        "begin at 0 again",
        written="{host}:{slots}",
        like=re.compile(r"^[ \t]*[A-Za-z0-9_.-]+:[0-9]+(?:[ \t].*)?$", re.MULTILINE),
    ),
    LineFormat(
        name="deepspeed-hostfile",
        title="a DeepSpeed host file",
        head=re.compile(r"[ \t]*(?P<host>[^\s=]+)" + _END),
        keys={"slots": "slots"},
        needed="slots",
        ignored="DeepSpeed ignores",
        twice="DeepSpeed stops",
        written="{host} slots={slots}",
        selects="--include",
        like=re.compile(r"^[ \t]*[^#\s]\S*[ \t]+slots=[0-9]", re.MULTILINE),
    ),
    LineFormat(
        name="srun-hostfile",
        title="an srun host file",
        head=re.compile(r"[ \t]*(?P<host>[^\s*]+)(?:\*(?P<times>[^\s]*))?" + _END),
        by_rank=True,
        written="{host}",
        # A host with a number of repetitions.
        like=re.compile(rf"\A(?:{_COMMENT}\n)*[A-Za-z0-9][^\s:=\[]*\*[0-9]+\s"),
        has_repeats=True,
    ),
    # $PBS_NODEFILE and LSF's $LSB_DJOB_HOSTFILE name a host once for each slot.
    LineFormat(
        name="host-list",
        title="a list of hosts",
        head=re.compile(r"[ \t]*(?P<host>[^\s=]+)" + _END),
        repeats="bare",
        written="",
        # Nothing but names, two of them at least, or one that looks like a host.
        like=re.compile(
            rf"\A(?:{_COMMENT}\n)*(?:{_NAME}(?:\n{_COMMENT})*\n{_NAME}|{_HOST})"
            rf"(?:\n(?:{_NAME}|{_COMMENT}))*\Z"
        ),
        has_repeats=False,
    ),
)


def _comma_list(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


LINE_LAUNCHERS = tuple(
    LauncherFormat(
        name=form.name,
        title=form.title,
        read=form.read,
        write=form.write if form.written else None,
        matches=form.matches,
        holds_chips=form.needed == "slot",
        selection=form.selection,
    )
    for form in LINE_FORMATS
)
