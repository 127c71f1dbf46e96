"""Racks and pods of hosts, from a list in columns or from Slurm's topology.conf.

A list has one host a line and the groups that it is in: ``n1 rack1 pod1``. Two columns
are a host and its rack; scripts that sort host lists by rack use this form. If the
first line begins with ``host`` or ``name``, it names the columns, and there may be more
of them, the smallest groups first. ``kubectl get nodes -o custom-columns=...`` prints
such a list.

A topology.conf has ``SwitchName=s1 Nodes=n[1-8]`` and ``SwitchName=s0 Switches=s1``.
The output of ``scontrol show topology`` is read too: it adds Level= and, for a switch
of switches, the nodes below it. Source: SchedMD/slurm, topology.conf(5) and
scontrol(1). Names of parameters are not case-sensitive, and a backslash at the end of a
line continues it.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from ranktable.cluster.host_lists import MAX_HOSTS
from ranktable.cluster.hostfiles.slurm import expand_token
from ranktable.cluster.source_text import parse_source, words_of
from ranktable.layout.boundaries import Hierarchy, Level
from ranktable.schema.file_kind import FileKind
from ranktable.schema.finding import Rule
from ranktable.schema.rules.syntax import TOO_MANY
from ranktable.schema.text import counted, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ranktable.cluster.source_text import SourceText, Token
    from ranktable.schema.file_kind import Source
    from ranktable.schema.report import Options, Report

MAX_SIZE_BYTES = 8 * 1024 * 1024
"""A line for each of 100,000 hosts is 3 MB."""

DEFAULT_LIMIT = 20
"""Most findings of each code that are located and shown."""

MAX_LEVELS = 16

BAD_RACKS_LINE = Rule(
    code="RT146",
    name="bad-racks-line",
    summary="a line does not belong in a file of racks",
    why=(
        "A file of racks is a list in columns, a host and its rack on each line, or "
        "Slurm's topology.conf."
    ),
    fix="Write n1 rack1 on a line for each host, or SwitchName=s1 Nodes=n[1-8].",
    bad=b"SwitchName=s1 Nodes=n[1-2]\nSwitch=s2 Nodes=n[3-4]\n",
    good=b"SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\n",
)
RACKS_DISAGREE = Rule(
    code="RT147",
    name="racks-disagree",
    summary="a host, a rack or a switch is in two places",
    why="The bytes between racks cannot be counted if a node could be in two racks.",
    fix="Correct the wrong one of the two lines.",
    bad=b"SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[2-3]\n",
    good=b"SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\n",
)
RULES = (BAD_RACKS_LINE, RACKS_DISAGREE)

SWITCHES_NAME = "slurm-topology-conf"

_HEADERS = ("host", "name")
"""How a line with the names of the columns begins; kubectl's are often in capitals."""

_NO_LABEL = "<none>"
"""What kubectl prints for a node that does not have a label."""

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
    report, hierarchy, _ = parse_source(
        data,
        _read_switches if is_switches else _read_columns,
        file=file,
        name=SWITCHES_NAME if is_switches else "host-columns",
        limit=limit,
        max_size_bytes=MAX_SIZE_BYTES,
    )
    return report, hierarchy


def _judge(source: Source, options: Options) -> list[Report]:
    return [read_rack_file(source.data, file=source.name, limit=options.limit)[0]]


SWITCHES = FileKind(
    name=SWITCHES_NAME,
    title="a topology.conf of Slurm",
    detect=lambda start, _: is_switch_file(start.decode("utf-8", "replace")),
    judge=_judge,
    names=("topology.conf",),
    advice="name the table of the job; --racks {file} adds the racks",
)


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
    if rows and rows[0][0].text.lower() in _HEADERS:
        names = _column_names(source, rows.pop(0))
    hosts: dict[str, list[Token]] = {}
    for words in rows:
        if len(words) != len(names) + 1:
            message = f"the line has {counted(len(words), 'word')}, not"
            message = f"{message} {len(names) + 1}"
            source.report(BAD_RACKS_LINE, words[-1], message, hint=_COLUMNS)
            continue
        if any(word.text == _NO_LABEL for word in words):
            continue  # the racks of this node are not known
        for host in _expanded(source, words[0], len(hosts)):
            if host in hosts:
                message = f"the host {quoted(host)} is listed twice"
                first = hosts[host][0]
                source.report(RACKS_DISAGREE, words[0], message, first_use=first)
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
        name = word.text.lower()
        if not _NAME.fullmatch(name) or name in ("node", *_HEADERS):
            message = f"{quoted(word.text)} cannot be the name of a group of nodes"
            source.report(BAD_RACKS_LINE, word, message)
        elif name in seen:
            message = f"the column {quoted(word.text)} occurs twice"
            source.report(BAD_RACKS_LINE, word, message, first_use=seen[name])
        seen.setdefault(name, word)
    if not 0 < len(words) - 1 <= MAX_LEVELS:
        message = f"a list has 1 to {MAX_LEVELS} columns of groups"
        source.report(BAD_RACKS_LINE, words[0], message, hint=_COLUMNS)
    return [word.text.lower() for word in words[1:]]


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
                    RACKS_DISAGREE,
                    here,
                    f"the {inner} {quoted(words[at].text)} lies in the {outer} "
                    f"{quoted(here.text)} and in {quoted(first.text)}",
                    hint="list the smallest groups first",
                    first_use=first,
                )


# Switches


def _read_switches(source: SourceText) -> Hierarchy | None:
    """Return the levels of a topology.conf, None after reporting an error."""
    names: dict[str, Token] = {}
    switch_of: dict[str, str] = {}  # of every host
    above: dict[str, tuple[str, Token]] = {}  # of every switch below another
    for words in _lines(source, may_go_on=True):
        found = _parameters(source, words)
        switch = found.get("switchname")
        if switch is None or not source.host(switch):
            continue
        name = switch.text
        if name in names:
            message = f"the switch {quoted(name)} is described twice"
            source.report(RACKS_DISAGREE, switch, message)
        names.setdefault(name, switch)
        below = [key for key in ("switches", "nodes") if key in found]
        if "level" in found and "switches" in found:
            below = ["switches"]  # scontrol lists the nodes below these switches too
        if len(below) != 1:
            message = "a switch has either nodes or other switches below it"
            source.report(BAD_RACKS_LINE, switch, message)
            continue
        place = found[below[0]]
        below_it = _expanded(source, place, len(switch_of))
        if below == ["nodes"]:
            _add_hosts(source, place, below_it, name, switch_of)
        for one in below_it if below == ["switches"] else ():
            first, _ = above.setdefault(one, (name, place))
            if first != name:
                both = f"below {quoted(name)} and below {quoted(first)}"
                message = f"the switch {quoted(one)} is {both}"
                source.report(RACKS_DISAGREE, place, message)
    source.refuse_nothing(switch_of)
    paths = _paths(source, names, dict.fromkeys(switch_of.values()), above)
    if not source.is_sound or not paths:
        return None
    return Hierarchy(levels=tuple(_levels(switch_of, paths)))


def _add_hosts(
    source: SourceText,
    place: Token,
    hosts: Iterable[str],
    switch: str,
    switch_of: dict[str, str],
) -> None:
    """Put hosts below a switch; report those that are below another already."""
    for host in hosts:
        if switch_of.setdefault(host, switch) != switch:
            both = f"in the switch {quoted(switch)} and in {quoted(switch_of[host])}"
            message = f"the host {quoted(host)} is {both}"
            hint = "a host is in one of them"
            source.report(RACKS_DISAGREE, place, message, hint=hint)


def _levels(
    switch_of: Mapping[str, str], paths: Mapping[str, Sequence[str]]
) -> Iterator[Level]:
    """Yield the levels of switches, counted from the nodes."""
    for at in range(max(map(len, paths.values()))):
        # A branch with fewer levels counts as a group of its own on the higher ones.
        around = {leaf: path[min(at, len(path) - 1)] for leaf, path in paths.items()}
        groups = {host: around[leaf] for host, leaf in switch_of.items()}
        yield Level(name=f"switch {at + 1}" if at else "switch", groups=groups)


def _parameters(source: SourceText, words: list[Token]) -> dict[str, Token]:
    """Return the parameters of a line; empty after reporting an error."""
    found: dict[str, Token] = {}
    for word in words:
        name, equals, _ = word.text.partition("=")
        key = name.lower()
        is_first = key == "switchname"
        if not equals or key not in _KEYS or key in found or is_first is bool(found):
            twice = "occurs twice here" if key in found else "is not known here"
            message = f"{quoted(name)} {twice}"
            source.report(BAD_RACKS_LINE, word, message, hint=_SWITCHES)
            return {}
        found[key] = word.part(len(name) + 1)
    return found


def _paths(
    source: SourceText,
    names: Mapping[str, Token],
    leaves: Iterable[str],
    above: Mapping[str, tuple[str, Token]],
) -> dict[str, list[str]]:
    """Return for every switch with hosts: itself, then the switches above it."""
    for name, (_, place) in above.items():
        if name not in names:
            message = f"there is no switch {quoted(name)}"
            source.report(RACKS_DISAGREE, place, message)
    paths: dict[str, list[str]] = {}
    for leaf in leaves:
        path = paths[leaf] = [leaf]
        while path[-1] in above:
            over, place = above[path[-1]]
            if over in path:
                message = f"the switch {quoted(over)} is below itself"
                source.report(RACKS_DISAGREE, place, message)
                return {}
            path.append(over)
    return paths
