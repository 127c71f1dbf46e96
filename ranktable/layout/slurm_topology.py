"""Slurm's topologies: switches, blocks and rings of nodes.

A topology.conf has ``SwitchName=s1 Nodes=n[1-8]`` and ``SwitchName=s0 Switches=s1``, or
``BlockName=b1 Nodes=n[1-18]`` (a rack of chips that share NVLink), or
``RingName=r1 Nodes=n[1-4]``. The output of ``scontrol show topology`` is read too: it
adds Level= and, for a switch of switches, the nodes below it. A topology.yaml holds
several topologies by name, and a partition names its own; the one with
``cluster_default`` is taken, else the only one with groups. Each task also has its own
place in ``SLURM_TOPOLOGY_ADDR``: the output of ``srun env`` is enough.

Names of parameters are not case-sensitive, blanks may be around the equals sign, and a
backslash at the end of a line continues it, also within a word. Source: SchedMD/slurm,
topology.conf(5), topology.yaml(5), scontrol(1), src/common/parse_config.c.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.cluster.source_text import Token
from ranktable.cluster.submissions.submission_rules import NOT_JUDGED
from ranktable.layout.boundaries import Hierarchy, Level
from ranktable.layout.rack_rules import (
    BAD_RACKS_LINE,
    MAX_LEVELS,
    RACKS_DISAGREE,
    TOPOLOGY_SIZE,
    known_hosts,
)
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted, printable, quoted
from ranktable.schema.yaml_parser import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ranktable.cluster.source_text import SourceText
    from ranktable.schema.document import Document, Path

_HINT = "write, for example, SwitchName=s1 Nodes=n[1-8] or BlockName=b1 Nodes=n[1-18]"
_FIRST = r"(?:Switch|Block|Ring)Name|BlockSizes|BlockLevels|AggregatedBlock"
_LINE = re.compile(rf"^[ \t]*(?:{_FIRST})[ \t]*=", re.IGNORECASE | re.MULTILINE)
_YAML = re.compile(r"^[ \t]*-[ \t]+[\"']?topology[\"']?[ \t]*:", re.MULTILINE)
_PLACES = re.compile(r"^(?:[0-9 ]+: )?SLURM_TOPOLOGY_ADDR=", re.MULTILINE)
_PLACE = re.compile(r"\b(SLURM_TOPOLOGY_ADDR(?:_PATTERN)?)=(.*)")
_INCLUDE = re.compile(r"include[ \t]+\S+[ \t]*", re.IGNORECASE)
# scontrol prints "Nodes= BlockSize=4" for an empty block: what has an equals sign is
# not the value before it.
_PARAMETER = re.compile(
    r'(?=\S)([^\s=]*)(?:[ \t]*(=)(?:[ \t]*(?:"([^"]*)"|([^\s="]+)(?!\S))|(\S*)))?'
)
_SIZE = re.compile(r"[0-9]{1,9}")

_MAX_BLOCK_LEVEL = 15
"""Slurm has 16 sizes of blocks: the base size times 1, 2, 4, ... 32,768."""

_MAX_RING = 16
"""Most nodes of a ring; ring_record.c of Slurm 26.05."""

_KEYS: Final = {
    "switchname": ("switches", "nodes", "linkspeed", "level"),
    "blockname": ("nodes", "blockindex", "blocksize"),
    "aggregatedblock": ("nodes", "blockindex", "blocksize"),
    "ringname": ("nodes",),
    "blocksizes": (),
    "blocklevels": (),
}
"""The parameters after the first one of a line."""

_KINDS: Final = {"switchname": "switch", "blockname": "block", "ringname": "ring"}


def is_slurm_topology(text: str) -> bool:
    """Whether a text describes the places of nodes as Slurm does."""
    is_known = any(form.search(text) for form in (_LINE, _YAML, _PLACES))
    return is_known or _only_includes(text)


def _only_includes(text: str) -> bool:
    """Whether all lines name other files, as a topology.conf of many racks does."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    written = list(filter(None, lines))
    return bool(written) and all(map(_INCLUDE.fullmatch, written))


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
        self.is_partial = False  # what an Include names is not read
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
        if self.is_partial:
            refusal = "what its Include names is not read; write all lines in one file"
            return Hierarchy(levels=(), refusal=refusal)
        if self.kind == "block" and self.names and not self.group_of:
            # Nodes that register later may fill them, since Slurm 25.05.
            return Hierarchy(levels=(), refusal="its blocks have no nodes")
        self.source.refuse_nothing(self.group_of)
        paths = dict(self._paths())
        if not self.source.is_sound or not paths:
            return None
        return Hierarchy(levels=tuple(_levels(self.kind, self.group_of, paths)))

    def judge_sizes(self, sizes: Sequence[Token]) -> None:
        """Report sizes with which Slurm does not start.

        Args:
            sizes: The sizes of blocks as they are written, the base size first.

        Source: block_record.c and ring_record.c of Slurm. Until 24.11 a block had at
        least as many nodes as the base size says.
        """
        numbers = [int(w.text) if _SIZE.fullmatch(w.text) else 0 for w in sizes]
        base = numbers[0] if numbers else 0
        for word, number in zip(sizes, numbers, strict=True):
            times, rest = divmod(number, base) if base else (0, 0)
            if number == 0:
                message = f"{quoted(word.text)} is not a size of blocks"
            elif rest or times.bit_count() > 1 or times >> _MAX_BLOCK_LEVEL > 1:
                powers = f"{base}, {2 * base}, {4 * base}, ..."
                message = f"the size {number} of blocks is none of {powers}"
            else:
                continue
            self.source.report(TOPOLOGY_SIZE, word, message)
            return
        for name, number in Counter(self.group_of.values()).items():
            has = f"the {self.kind} {quoted(name)} has {counted(number, 'node')}"
            if number < base:
                message = f"{has}, and the base size is {base}"
                hint = "Slurm before 25.05 does not start; later versions do"
                weight = Severity.WARNING
            elif self.kind == "ring" and number > _MAX_RING:
                message = f"{has}; Slurm takes at most {_MAX_RING}"
                hint, weight = None, Severity.ERROR
            else:
                continue
            place = self.names[name]
            self.source.report(
                TOPOLOGY_SIZE, place, message, hint=hint, severity=weight
            )

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


class _Line(NamedTuple):
    """A line with those that continue it.

    Attributes:
        text: The text, without comments.
        pieces: The piece of every line of the file, in order.
        starts: Where each piece begins in the text.
    """

    text: str
    pieces: Sequence[Token]
    starts: Sequence[int]

    def part(self, start: int, end: int) -> Token:
        """Return a part of the text, with its place in the file."""
        first, last = (bisect_right(self.starts, at) - 1 for at in (start, end - 1))
        piece = self.pieces[max(first, 0)]
        if start == end or first == last:
            at = self.starts[max(first, 0)]
            return piece.part(start - at, end - at)
        begin = piece.start + start - self.starts[first]
        ending = self.pieces[last].start + end - self.starts[last]
        return _Broken(self.text[start:end], begin, ending)


class _Broken(Token):
    """A word that a backslash divides: each part of it has the place of the whole."""

    def part(self, start: int, end: int | None = None) -> Token:
        return _Broken(self.text[start:end], self.start, self.end)


def _lines(source: SourceText) -> Iterator[_Line]:
    """Yield every line that is not empty."""
    pieces: list[Token] = []
    for line in source.lines():
        text = line.text.partition("#")[0].rstrip(" \t\r")
        goes_on = text.endswith("\\")
        pieces.append(line.part(0, len(text) - goes_on))
        if not goes_on:
            yield from _joined(pieces)
            pieces = []
    yield from _joined(pieces)


def _joined(pieces: Sequence[Token]) -> Iterator[_Line]:
    text = "".join(piece.text for piece in pieces)
    if text.strip():
        lengths = (len(piece.text) for piece in pieces)
        starts = [0, *accumulate(lengths)][:-1]
        yield _Line(text, pieces, starts)


def _read_conf(source: SourceText) -> Hierarchy | None:
    groups: _Groups | None = None
    included: Token | None = None
    sizes: Token | None = None
    for line in _lines(source):
        if _INCLUDE.fullmatch(line.text):
            included = line.part(0, len(line.text))
            message = "not judged: what Include names is not read"
            source.report(NOT_JUDGED, included, message)
            continue
        found = _parameters(source, line)
        first = next(iter(found), None)
        if first == "blocksizes":
            sizes = found[first]  # Slurm takes the last one
        if first not in _KINDS:
            continue  # sizes of blocks, and the blocks that Slurm joins by size
        groups = groups or _Groups(source, _KINDS[first])
        name = found[first]
        if _KINDS[first] != groups.kind:
            source.report(
                BAD_RACKS_LINE,
                name,
                f"{_KINDS[first]} {quoted(name.text)} beside a {groups.kind}: "
                "a topology has one of them",
                hint=_HINT,
            )
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
        source.refuse_nothing(() if included is None else (included,))
        return None
    groups.is_partial = included is not None
    groups.judge_sizes([] if sizes is None else [*sizes.parts(",")])
    return groups.hierarchy()


def _parameters(source: SourceText, line: _Line) -> dict[str, Token]:
    """Return the parameters of a line; empty after reporting an error."""
    found: dict[str, Token] = {}
    known: tuple[str, ...] = tuple(_KEYS)
    for match in _PARAMETER.finditer(line.text):
        key = match[1].lower()
        if not match[2] or key not in known or key in found:
            twice = "occurs twice here" if key in found else "is not known here"
            message = f"{quoted(match[1])} {twice}"
            word = line.part(match.start(), match.end())
            source.report(BAD_RACKS_LINE, word, message, hint=_HINT)
            return {}
        known = known if found else _KEYS[key]
        value = next((at for at in (3, 4, 5) if match[at] is not None), 5)
        found[key] = line.part(match.start(value), match.end(value))
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
    if found.has_errors or not documents:
        return None
    document = documents[0]
    listed = document.data if isinstance(document.data, list) else []
    read: dict[int, Hierarchy] = {}
    for at in range(len(listed)):
        kinds = [
            k for k in (*_FORMS, "flat") if document.get(at, k) not in (None, False)
        ]
        if len(kinds) != 1:
            message = f"this topology has {' and '.join(kinds) or 'no kind'}"
            hint = f"give it one of {', '.join(_FORMS)} and flat"
            span = document.span_of(at)
            source.report(BAD_RACKS_LINE, span, message, hint=hint)
        elif kinds[0] != "flat":
            hierarchy = _read_topology(source, document, at, kinds[0])
            if hierarchy is not None:
                read[at] = hierarchy
    if not source.is_sound:
        return None
    return _chosen(document, read)


def _chosen(document: Document, read: Mapping[int, Hierarchy]) -> Hierarchy:
    """Return the topology to order by, or why there is none.

    Slurm takes the first with ``cluster_default`` for a partition that names none.
    """
    if not read:
        return Hierarchy(levels=(), refusal="a flat topology has no groups of nodes")
    defaults = [at for at in read if document.get(at, "cluster_default") is True]
    if defaults or len(read) == 1:
        return read[(defaults or [*read])[0]]
    names = ", ".join(str(document.get(at, "topology")) for at in read)
    refusal = (
        f"several topologies have groups of nodes ({printable(names)}); set "
        "cluster_default: true at the one of the job's partition"
    )
    return Hierarchy(levels=(), refusal=refusal)


def _read_topology(
    source: SourceText, document: Document, at: int, kind: str
) -> Hierarchy | None:
    form = _FORMS[kind]
    groups = _Groups(source, form.title)
    for here in _items(document, at, kind, form.list_key):
        name = _text_at(document, (*here, form.name_key))
        if name is None:
            message = f"a {form.title} needs a name, {form.name_key}"
            source.report(BAD_RACKS_LINE, document.span_of(*here), message)
            continue
        inner = _text_at(document, (*here, form.inner_key)) if form.inner_key else None
        groups.add(name, _text_at(document, (*here, "nodes")), inner)
    sizes = (_text_at(document, p) for p in _items(document, at, kind, "block_sizes"))
    groups.judge_sizes([size for size in sizes if size is not None])
    return groups.hierarchy()


def _items(document: Document, *path: str | int) -> list[Path]:
    """Return the paths of the members of a list."""
    value = document.get(*path)
    return [(*path, i) for i in range(len(value) if isinstance(value, list) else 0)]


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
