"""Slurm's topologies: switches, blocks and rings of nodes.

A topology.conf has ``SwitchName=s1 Nodes=n[1-8]`` and ``SwitchName=s0 Switches=s1``, or
``BlockName=b1 Nodes=n[1-18]`` (a rack of chips that share NVLink), or
``RingName=r1 Nodes=n[1-4]``. The output of ``scontrol show topology`` is read too: it
adds Level= and, for a switch of switches, the nodes below it. A topology.yaml holds
several topologies by name; the one with ``cluster_default`` is taken, else the first
with groups. Each task also has its own place in ``SLURM_TOPOLOGY_ADDR``: the output of
``srun env`` is enough.

Names of parameters are not case-sensitive, and a backslash at the end of a line
continues it. Source: SchedMD/slurm, topology.conf(5), topology.yaml(5), scontrol(1).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.cluster.source_text import Token, words_of
from ranktable.layout.boundaries import Hierarchy, Level
from ranktable.layout.rack_rules import (
    BAD_RACKS_LINE,
    MAX_LEVELS,
    RACKS_DISAGREE,
    known_hosts,
)
from ranktable.schema.text import quoted
from ranktable.schema.yaml_parser import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ranktable.cluster.source_text import SourceText
    from ranktable.schema.document import Document, Path

_HINT = "write, for example, SwitchName=s1 Nodes=n[1-8] or BlockName=b1 Nodes=n[1-18]"
_FIRST = r"(?:Switch|Block|Ring)Name|BlockSizes|AggregatedBlock"
_LINE = re.compile(rf"^[ \t]*(?:{_FIRST})[ \t]*=", re.IGNORECASE | re.MULTILINE)
_YAML = re.compile(r"^[ \t]*-[ \t]+[\"']?topology[\"']?[ \t]*:", re.MULTILINE)
_PLACES = re.compile(r"^(?:[0-9 ]+: )?SLURM_TOPOLOGY_ADDR=", re.MULTILINE)
_PLACE = re.compile(r"\b(SLURM_TOPOLOGY_ADDR(?:_PATTERN)?)=(.*)")

_KEYS: Final = {
    "switchname": ("switches", "nodes", "linkspeed", "level"),
    "blockname": ("nodes", "blockindex", "blocksize"),
    "aggregatedblock": ("nodes", "blockindex", "blocksize"),
    "ringname": ("nodes",),
    "blocksizes": (),
}
"""The parameters after the first one of a line."""

_KINDS: Final = {"switchname": "switch", "blockname": "block", "ringname": "ring"}


def is_slurm_topology(text: str) -> bool:
    """Whether a text describes the places of nodes as Slurm does."""
    return any(form.search(text) for form in (_LINE, _YAML, _PLACES))


def reader_of(text: str) -> tuple[str, Callable[[SourceText], Hierarchy | None]]:
    """Return the name of the format of such a text, and its reader."""
    if _PLACES.search(text):
        return "slurm-topology-addr", _read_places
    if _YAML.search(text) and not _LINE.search(text):
        return "slurm-topology-yaml", _read_yaml
    return "slurm-topology-conf", _read_conf


class _Groups:
    """The groups of nodes, and which groups lie in which."""

    def __init__(self, source: SourceText, kind: str) -> None:
        self.source = source
        self.kind = kind
        self.names: dict[str, Token] = {}
        self.group_of: dict[str, str] = {}  # of every host
        self.above: dict[str, tuple[str, Token]] = {}  # of every group in another

    def add(self, name: Token, nodes: Token | None, inner: Token | None) -> None:
        """Add a group of nodes, or of other groups; report what contradicts."""
        if self.source.host(name) is None:
            return
        if name.text in self.names:
            message = f"the {self.kind} {quoted(name.text)} is described twice"
            self.source.report(RACKS_DISAGREE, name, message)
        self.names.setdefault(name.text, name)
        if nodes is not None:
            for host in known_hosts(self.source, nodes, len(self.group_of)):
                self._add_host(host, nodes, name.text)
        if inner is not None:
            for one in known_hosts(self.source, inner, len(self.above)):
                first, _ = self.above.setdefault(one, (name.text, inner))
                if first != name.text:
                    both = f"below {quoted(name.text)} and below {quoted(first)}"
                    message = f"the {self.kind} {quoted(one)} is {both}"
                    self.source.report(RACKS_DISAGREE, inner, message)

    def _add_host(self, host: str, place: Token, group: str) -> None:
        first = self.group_of.setdefault(host, group)
        if first != group:
            both = f"in the {self.kind} {quoted(group)} and in {quoted(first)}"
            message = f"the host {quoted(host)} is {both}"
            hint = "a host is in one of them"
            self.source.report(RACKS_DISAGREE, place, message, hint=hint)

    def hierarchy(self) -> Hierarchy | None:
        """Return the levels, None after reporting an error."""
        self.source.refuse_nothing(self.group_of)
        paths = dict(self._paths())
        if not self.source.is_sound or not paths:
            return None
        return Hierarchy(levels=tuple(_levels(self.kind, self.group_of, paths)))

    def _paths(self) -> Iterator[tuple[str, list[str]]]:
        """Yield every group with hosts: itself, then the groups around it."""
        for name, (_, place) in self.above.items():
            if name not in self.names:
                message = f"there is no {self.kind} {quoted(name)}"
                self.source.report(RACKS_DISAGREE, place, message)
        for leaf in dict.fromkeys(self.group_of.values()):
            path = [leaf]
            while path[-1] in self.above and len(path) <= MAX_LEVELS:
                over, place = self.above[path[-1]]
                if over in path:
                    message = f"the {self.kind} {quoted(over)} is below itself"
                    self.source.report(RACKS_DISAGREE, place, message)
                    return
                path.append(over)
            if len(path) > MAX_LEVELS:
                message = f"{quoted(leaf)} is below more than {MAX_LEVELS} levels"
                self.source.report(BAD_RACKS_LINE, self.names[leaf], message)
                return
            yield leaf, path


def _levels(
    kind: str, group_of: Mapping[str, str], paths: Mapping[str, list[str]]
) -> Iterator[Level]:
    """Yield the levels, counted from the nodes."""
    for at in range(max(map(len, paths.values()))):
        # A branch with fewer levels counts as a group of its own on the higher ones.
        around = {leaf: path[min(at, len(path) - 1)] for leaf, path in paths.items()}
        groups = {host: around[leaf] for host, leaf in group_of.items()}
        yield Level(name=f"{kind} {at + 1}" if at else kind, groups=groups)


# topology.conf


def _lines(source: SourceText) -> Iterator[list[Token]]:
    """Yield the words of every line that is not empty, without comments."""
    words: list[Token] = []
    for line in source.lines():
        text = line.text.partition("#")[0].rstrip(" \t\r")
        goes_on = text.endswith("\\")
        words += words_of(line.part(0, len(text) - goes_on))
        if words and not goes_on:
            yield words
            words = []
    if words:
        yield words


def _read_conf(source: SourceText) -> Hierarchy | None:
    groups: _Groups | None = None
    for words in _lines(source):
        found = _parameters(source, words)
        first = next(iter(found), None)
        if first not in _KINDS:
            continue  # sizes of blocks, and the blocks that Slurm joins by size
        groups = groups or _Groups(source, _KINDS[first])
        name = found[first]
        if _KINDS[first] != groups.kind:
            key = quoted(words[0].text.partition("=")[0])
            message = f"{key} beside a {groups.kind}: a topology has one of them"
            source.report(BAD_RACKS_LINE, words[0], message, hint=_HINT)
            continue
        nodes, inner = found.get("nodes"), found.get("switches")
        if first == "switchname" and "level" in found and inner is not None:
            nodes = None  # scontrol lists the nodes below these switches too
        if first == "switchname" and (nodes is None) is (inner is None):
            message = "a switch has either nodes or other switches below it"
            source.report(BAD_RACKS_LINE, name, message)
            continue
        groups.add(name, nodes, inner)  # a block may be empty
    if groups is None:
        source.refuse_nothing(())
        return None
    return groups.hierarchy()


def _parameters(source: SourceText, words: list[Token]) -> dict[str, Token]:
    """Return the parameters of a line; empty after reporting an error."""
    found: dict[str, Token] = {}
    known: tuple[str, ...] = tuple(_KEYS)
    for word in words:
        name, equals, _ = word.text.partition("=")
        key = name.lower()
        if not equals or key not in known or key in found:
            twice = "occurs twice here" if key in found else "is not known here"
            message = f"{quoted(name)} {twice}"
            source.report(BAD_RACKS_LINE, word, message, hint=_HINT)
            return {}
        known = known if found else _KEYS[key]
        found[key] = word.part(len(name) + 1)
    return found


# topology.yaml


class _Form(NamedTuple):
    """How a kind of topology is written: its list, its name, and what is below."""

    title: str
    list_key: str
    name_key: str
    inner_key: str = ""


_FORMS: Final = {
    "tree": _Form("switch", "switches", "switch", "children"),
    "block": _Form("block", "blocks", "block"),
    "ring": _Form("ring", "rings", "ring"),
    "torus3d": _Form("torus", "toruses", "name"),
}


def _read_yaml(source: SourceText) -> Hierarchy | None:
    documents, found = parse_yaml(source.text)
    source.found.extend(found)
    if not source.is_sound or not documents:
        return None
    document = documents[0]
    listed = document.data if isinstance(document.data, list) else []
    described = [
        (at, kind)
        for at in range(len(listed))
        for kind in _FORMS
        if isinstance(document.get(at, kind), dict)
    ]
    if not described:
        message = "no topology here has switches, blocks or rings of nodes"
        source.report(BAD_RACKS_LINE, None, message)
        return None
    defaults = [one for one in described if document.get(one[0], "cluster_default")]
    return _read_topology(source, document, *(defaults or described)[0])


def _read_topology(
    source: SourceText, document: Document, at: int, kind: str
) -> Hierarchy | None:
    form = _FORMS[kind]
    groups = _Groups(source, form.title)
    listed = document.get(at, kind, form.list_key)
    for number in range(len(listed) if isinstance(listed, list) else 0):
        here = (at, kind, form.list_key, number)
        name = _text_at(document, (*here, form.name_key))
        if name is None:
            message = f"a {form.title} needs a name, {form.name_key}"
            source.report(BAD_RACKS_LINE, document.span_of(*here), message)
            continue
        inner = _text_at(document, (*here, form.inner_key)) if form.inner_key else None
        groups.add(name, _text_at(document, (*here, "nodes")), inner)
    return groups.hierarchy()


def _text_at(document: Document, path: Path) -> Token | None:
    value = document.get(*path)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    return Token(str(value), *(document.values or {}).get(path, (0, 0)))


# SLURM_TOPOLOGY_ADDR


def _read_places(source: SourceText) -> Hierarchy | None:
    """Return the levels of the places of tasks: ``s0.s4.n1`` with its pattern.

    A name of a node may have dots, and the pattern says how many parts are groups. A
    ring says the position too: ``r1:3.n1``.
    """
    found = [
        (line, match)
        for line in source.lines()
        if (match := _PLACE.search(line.text.rstrip())) is not None
    ]
    patterns = [match[2] for _, match in found if match[1].endswith("_PATTERN")]
    depth = patterns[0].count(".") if patterns else None
    kind = patterns[0].partition(".")[0].partition(":")[0] if depth else "switch"
    rows: dict[str, list[str]] = {}
    for line, match in found:
        if match[1].endswith("_PATTERN"):
            continue
        parts = match[2].split(".")
        number = min(len(parts) - 1, MAX_LEVELS if depth is None else depth)
        host = ".".join(parts[number:])
        path = [part.partition(":")[0] for part in reversed(parts[:number])] or [host]
        if rows.setdefault(host, path) != path:
            message = f"the host {quoted(host)} has two places"
            source.report(RACKS_DISAGREE, line, message)
    source.refuse_nothing(rows)
    if not source.is_sound:
        return None
    leaves = {host: "\0".join(path) for host, path in rows.items()}
    paths = {leaves[host]: path for host, path in rows.items()}
    return Hierarchy(levels=tuple(_levels(kind, leaves, paths)))
