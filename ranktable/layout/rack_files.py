"""Racks and pods of hosts, from a list in columns or from Slurm's topology.conf.

A list has one host a line and the groups that it is in: ``n1 rack1 pod1``. Two columns
are a host and its rack; scripts that sort host lists by rack use this form. If the
first line begins with ``host``, it names the columns, and there may be more of them,
the smallest groups first. ``kubectl get nodes -o custom-columns=...`` prints such a
list.

A topology.conf has ``SwitchName=s1 Nodes=n[1-8]`` and ``SwitchName=s0 Switches=s1``.
The output of ``scontrol show topology`` is read too: it adds Level= and, for a switch
of switches, the nodes below it. Source: SchedMD/slurm, topology.conf(5) and
scontrol(1). Names of parameters are not case-sensitive, and a backslash at the end of a
line continues it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from ranktable.cluster.host_lists import MAX_HOSTS
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.slurm import expand_token
from ranktable.cluster.source_text import read_source, words_of
from ranktable.layout.boundaries import Hierarchy, Level
from ranktable.schema.rules.syntax import TOO_MANY
from ranktable.schema.text import counted, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ranktable.cluster.source_text import SourceText, Token
    from ranktable.schema.report import Report

MAX_SIZE_BYTES = 8 * 1024 * 1024
"""A line for each of 100,000 hosts is 3 MB."""

DEFAULT_LIMIT = 20
"""Most findings of each code that are located and shown."""

MAX_HEIGHT = 32
"""Most levels of switches; the largest networks have four."""

MAX_LEVELS = 16
_HEADER = "host"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}")
_COLUMNS = "write a host and its rack, n1 rack1, or name the columns: host rack pod"
_SWITCHES = "write, for example, SwitchName=s1 Nodes=n[1-8]"
_SWITCH = re.compile(r"^[ \t]*SwitchName[ \t]*=", re.IGNORECASE | re.MULTILINE)
_KEYS = ("switchname", "switches", "nodes", "linkspeed", "level")


def is_switch_file(text: str) -> bool:
    """Whether a text is a topology.conf."""
    return _SWITCH.search(text) is not None


def read_rack_file(
    data: bytes, *, file: str, limit: int | None = DEFAULT_LIMIT
) -> tuple[Report, Hierarchy | None]:
    """Return the findings in a file of racks, and its levels if there is no error."""
    is_switches = is_switch_file(data[:MAX_SIZE_BYTES].decode("utf-8", "replace"))
    report, hierarchy, _ = read_source(
        data,
        _read_switches if is_switches else _read_columns,
        file=file,
        name="slurm-topology-conf" if is_switches else "host-columns",
        limit=limit,
        max_size_bytes=MAX_SIZE_BYTES,
    )
    return report, hierarchy


def _lines(source: SourceText, *, may_go_on: bool) -> Iterator[list[Token]]:
    """Yield the words of every line that is not empty, without comments."""
    words: list[Token] = []
    for line in source.lines():
        text = line.text.partition("#")[0].rstrip(" \t\r")
        goes_on = may_go_on and text.endswith("\\")
        words += words_of(line.part(0, len(text) - goes_on))
        if words and not goes_on:
            yield words
            words = []
    if words:
        yield words


def _expanded(source: SourceText, word: Token, known: int) -> list[str]:
    """Return the names in a word; a short list such as n[1-9999999] means many."""
    names = expand_token(source, word)
    if known + len(names) <= MAX_HOSTS:
        return names
    source.report(TOO_MANY, word, f"this is more than {MAX_HOSTS} hosts")
    return []


# Columns


def _read_columns(source: SourceText) -> Hierarchy | None:
    """Return the levels of a list in columns, None after reporting an error."""
    rows = list(_lines(source, may_go_on=False))
    names = ["rack"]
    if rows and rows[0][0].text == _HEADER:
        names = _column_names(source, rows.pop(0))
    hosts: dict[str, list[Token]] = {}
    for words in rows:
        if len(words) != len(names) + 1:
            message = f"the line has {counted(len(words), 'word')}, not"
            message = f"{message} {len(names) + 1}"
            source.report(rules.BAD_LINE, words[-1], message, hint=_COLUMNS)
            continue
        for host in _expanded(source, words[0], len(hosts)):
            if host in hosts:
                message = f"the host {quoted(host)} is listed twice"
                first = hosts[host][0]
                source.report(rules.HOST_TWICE, words[0], message, first_use=first)
            hosts.setdefault(host, words)
    source.refuse_nothing(hosts)
    _refuse_unnested(source, names, hosts.values())
    if not source.is_sound:
        return None
    return Hierarchy(
        levels=tuple(
            Level(name=name, groups={h: words[at].text for h, words in hosts.items()})
            for at, name in enumerate(names, 1)
        )
    )


def _column_names(source: SourceText, words: list[Token]) -> list[str]:
    """Return the names of the columns after the first."""
    seen: dict[str, Token] = {}
    for word in words[1:]:
        if not _NAME.fullmatch(word.text) or word.text in ("node", _HEADER):
            message = f"{quoted(word.text)} cannot be the name of a group of nodes"
            source.report(rules.BAD_LINE, word, message)
        elif word.text in seen:
            message = f"the column {quoted(word.text)} occurs twice"
            source.report(rules.BAD_LINE, word, message, first_use=seen[word.text])
        seen.setdefault(word.text, word)
    if not 0 < len(words) - 1 <= MAX_LEVELS:
        message = f"a list has 1 to {MAX_LEVELS} columns of groups"
        source.report(rules.BAD_LINE, words[0], message, hint=_COLUMNS)
    return [word.text for word in words[1:]]


def _refuse_unnested(
    source: SourceText, names: list[str], rows: Iterable[list[Token]]
) -> None:
    """Report a group that lies in two groups of the next column."""
    for at, (inner, outer) in enumerate(pairwise(names), 1):
        around: dict[str, Token] = {}
        for words in rows:
            here = words[at + 1]
            first = around.setdefault(words[at].text, here)
            if first.text != here.text:
                source.report(
                    rules.COUNTS_DISAGREE,
                    here,
                    f"the {inner} {quoted(words[at].text)} lies in the {outer} "
                    f"{quoted(here.text)} and in {quoted(first.text)}",
                    hint="list the smallest groups first",
                    first_use=first,
                )


# Switches


@dataclass(slots=True)
class _Switches:
    """The switches of a file.

    Attributes:
        source: The text.
        names: Where the name of every switch is written first.
        hosts: Switch of every host.
        above: The switch above a switch, and where that is written.
    """

    source: SourceText
    names: dict[str, Token] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    above: dict[str, tuple[str, Token]] = field(default_factory=dict)

    def add(self, words: list[Token]) -> None:
        """Read one line."""
        found = self.parameters(words)
        switch = found.get("switchname")
        if switch is None or not self.source.host(switch):
            return
        name = switch.text
        if name in self.names:
            self.disagree(switch, f"the switch {quoted(name)} is described twice")
        self.names.setdefault(name, switch)
        below = [key for key in ("switches", "nodes") if key in found]
        if "level" in found and "switches" in found:
            below = ["switches"]  # scontrol lists the nodes below these switches too
        if len(below) != 1:
            message = "a switch has either nodes or other switches below it"
            self.source.report(rules.BAD_LINE, switch, message)
        for key in below:
            place = found[key]
            for one in _expanded(self.source, place, len(self.hosts)):
                if key == "nodes":
                    self.add_host(one, name, place)
                elif one in self.above:
                    both = (
                        f"below {quoted(name)} and below {quoted(self.above[one][0])}"
                    )
                    self.disagree(place, f"the switch {quoted(one)} is {both}")
                else:
                    self.above[one] = name, place

    def parameters(self, words: list[Token]) -> dict[str, Token]:
        """Return the parameters of a line; empty after reporting an error."""
        found: dict[str, Token] = {}
        for word in words:
            name, equals, _ = word.text.partition("=")
            key = name.lower()
            is_first = key == "switchname"
            if (
                not equals
                or key not in _KEYS
                or key in found
                or is_first is bool(found)
            ):
                twice = "occurs twice here" if key in found else "is not known here"
                message = f"{quoted(name)} {twice}"
                self.source.report(rules.BAD_LINE, word, message, hint=_SWITCHES)
                return {}
            found[key] = word.part(len(name) + 1)
        return found

    def add_host(self, host: str, switch: str, place: Token) -> None:
        """Put a host below a switch; report one that is below another already."""
        if host in self.hosts:
            self.source.report(
                rules.HOST_TWICE,
                place,
                f"the host {quoted(host)} is in the switch {quoted(switch)} and in "
                f"{quoted(self.hosts[host])}",
                hint="a host is in one of them",
            )
        self.hosts.setdefault(host, switch)

    def disagree(self, place: Token, message: str) -> None:
        """Report lines that contradict each other."""
        self.source.report(rules.COUNTS_DISAGREE, place, message)

    def paths(self) -> dict[str, list[str]]:
        """Return for every switch with hosts: itself, then the switches above it."""
        for name, (_, place) in self.above.items():
            if name not in self.names:
                self.disagree(place, f"there is no switch {quoted(name)}")
        paths: dict[str, list[str]] = {}
        for leaf in dict.fromkeys(self.hosts.values()):
            path = paths[leaf] = [leaf]
            while path[-1] in self.above:
                above, place = self.above[path[-1]]
                if above in path or len(path) == MAX_HEIGHT:
                    below_itself = f"the switch {quoted(above)} is below itself"
                    too_high = f"this is more than {MAX_HEIGHT} levels"
                    self.disagree(place, below_itself if above in path else too_high)
                    return {}
                path.append(above)
        return paths


def _read_switches(source: SourceText) -> Hierarchy | None:
    """Return the levels of a topology.conf, None after reporting an error."""
    switches = _Switches(source)
    for words in _lines(source, may_go_on=True):
        switches.add(words)
    source.refuse_nothing(switches.hosts)
    paths = switches.paths()
    if not source.is_sound or not paths:
        return None
    levels = []
    for at in range(max(map(len, paths.values()))):
        # A branch with fewer levels counts as a group of its own on the higher ones.
        around = {leaf: path[min(at, len(path) - 1)] for leaf, path in paths.items()}
        groups = {host: around[leaf] for host, leaf in switches.hosts.items()}
        levels.append(Level(name=f"switch {at + 1}" if at else "switch", groups=groups))
    return Hierarchy(levels=tuple(levels))
