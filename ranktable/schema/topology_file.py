"""Topologies by name, or from a file: a matrix of links or a list of linked pairs."""

from __future__ import annotations

import io
import itertools
import os
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ranktable.schema.document import Location, SourceSpan, find_locations
from ranktable.schema.file_kind import FileKind
from ranktable.schema.files import UnreadableError, read_file, read_stream
from ranktable.schema.finding import Finding, RankTableError
from ranktable.schema.json_parser import decode, parse, unreadable
from ranktable.schema.report import Report
from ranktable.schema.rules.shape import BAD_TOPOLOGY
from ranktable.schema.text import quoted
from ranktable.schema.topology import BUILT_IN, Topology, linked

if TYPE_CHECKING:
    from typing import NoReturn

    from ranktable.schema.document import Offsets, Path
    from ranktable.schema.file_kind import Source
    from ranktable.schema.finding import Diagnostic
    from ranktable.schema.report import Options

MAX_CHIPS = 1024
"""Most chips of a host; the vendor's driver supports 64."""

MAX_SIZE_BYTES = 16 * 1024 * 1024
"""A matrix of 1,024 chips is 4 MiB."""

_NO_LINK = -1
_PAIR = 2
_PLAIN = re.compile(r"-?[0-9]{1,9}")
_GAP = re.compile(r"[\s,]+")
_REFUSAL = "the topology cannot be used"
_NONE = "there is neither a matrix nor a list of links in it"


def find_topology(name: str, data: bytes | None = None) -> Topology:
    """Return a built-in topology, or the one in a file.

    The file is JSON or plain rows of numbers, separated by blanks or commas; ``#``
    begins a comment. It has either

    * a matrix as ``torch_tpu.tpu.get_topology`` returns it: row a, column b is the port
      of the link from a to b, -1 for no link; the diagonal is ignored; or
    * a list of linked pairs, each once and in either order.

    Args:
        name: ``sophgo-8`` or the path of a file.
        data: The content of this file, if it has been read already.

    Raises:
        RankTableError: The file cannot be read or is neither.
    """
    for topology in BUILT_IN:
        if topology.name == name and data is None:
            return topology
    source = _read(name, data)
    rows = source.rows
    label = os.path.splitext(os.path.basename(name))[0]
    pairs = _pairs(source) if _is_list(rows) else _linked_by_matrix(source)
    num_chips = len(rows) if not _is_list(rows) else max(map(max, pairs)) + 1
    return linked(label, num_chips, pairs)


# Rows of numbers, not the tasks of srun --multi-prog: "0 train.py".
_ROWS = re.compile(
    rb"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:\[[\[ \t\n]*)?-?[0-9]+[ \t,]\s*[-0-9\[\]]"
)
MATRIX_OF_PATHS = re.compile(
    r"^(?:\x1b\[[0-9;]*m|[ \t])*(?:GPU|NPU|Phy-ID)0[ \t]+X\b", re.MULTILINE
)
"""What nvidia-smi topo -m and npu-smi info -t topo print for chip 0.

They tell the kind of the path between two chips, and no ports.
"""
PATHS_ARE_NO_LINKS = (
    "this is what nvidia-smi topo -m or npu-smi info -t topo prints: kinds of paths "
    "between chips, which are not judged"
)


def _judge(source: Source, _: Options) -> list[Report]:
    text = source.data.decode("utf-8", "replace")
    found: tuple[Diagnostic, ...] = ()
    try:
        find_topology(source.name, source.data)
    except RankTableError as error:
        found = error.diagnostics
    return [Report.of(found, file=source.name, text=text, format=LINKS.name)]


LINKS = FileKind(
    name="topology",
    title="a file of links between chips",
    detect=lambda start, _: _ROWS.match(start) is not None,
    judge=_judge,
    advice="name the table of the job; --topology {file} judges it by these links",
)


@dataclass(frozen=True, kw_only=True)
class _Source:
    """The content of a file of links.

    Attributes:
        name: Name of the file.
        text: Its text.
        data: Its content as plain data.
        is_json: Whether it is JSON, not rows of numbers.
    """

    name: str
    text: str
    data: Any
    is_json: bool

    @cached_property
    def key(self) -> Path:
        """Path of the rows."""
        if not isinstance(self.data, dict):
            return ()
        return ("links",) if "links" in self.data else ("matrix",)

    @property
    def rows(self) -> list[list[int]]:
        """The rows, after their shape was judged."""
        found: list[list[int]] = self.data[self.key[0]] if self.key else self.data
        return found

    def offsets(self, row: str | int = 0, place: str | int | None = None) -> Offsets:
        """Return the place of a row of numbers, or of one word in it."""
        lines = re.finditer(r"^[^\n#]*[^\s,#][^\n#]*", self.text, re.MULTILINE)
        line = next(itertools.islice(lines, int(row), None))
        words = list(re.finditer(r"[^\s,]+", line[0]))
        chosen = words if place is None else [words[int(place)]]
        return line.start() + chosen[0].start(), line.start() + chosen[-1].end()

    def fail(self, message: str, path: Path | None = None) -> NoReturn:
        """Refuse the file; the path is that of the wrong value.

        Raises:
            RankTableError: Always.
        """
        span = None
        if path is not None:
            offsets = None if self.is_json else self.offsets(*path)
            span = SourceSpan(path, offsets=offsets)
        _refuse(self.name, self.text, BAD_TOPOLOGY.finding(span, message))


def _read(name: str, data: bytes | None) -> _Source:
    """Return the content of a file, after its shape was judged."""
    try:
        if data is None:
            data = read_file(name, MAX_SIZE_BYTES)
        decoded = decode(read_stream(io.BytesIO(data), MAX_SIZE_BYTES))
    except UnreadableError as error:
        known = ", ".join(topology.name for topology in BUILT_IN)
        hint = f"give a file of links, or one of: {known}"
        _refuse(name, "", unreadable(error)._replace(hint=hint))
    if isinstance(decoded, Finding):
        _refuse(name, "", decoded)
    text = decoded[0]
    if MATRIX_OF_PATHS.search(text):
        _refuse(name, "", BAD_TOPOLOGY.finding(None, PATHS_ARE_NO_LINKS))
    is_json = text.lstrip()[:1] in ("[", "{")
    content: object = _numbers(text)
    if is_json:
        parsed = parse(text)
        if isinstance(parsed, Finding):
            _refuse(name, text, parsed)
        content, found = parsed
        if found:
            _refuse(name, text, found.kept[0])
    source = _Source(name=name, text=text, data=content, is_json=is_json)
    _judge_shape(source)
    return source


def _refuse(name: str, text: str, finding: Finding) -> NoReturn:
    """Refuse a file, given a finding of another check.

    Raises:
        RankTableError: Always.
    """
    where = Location(file=name)
    if finding.span is not None:
        where = find_locations(text, [finding.span], file=name)[finding.span]
    told = finding._replace(message=f"{_REFUSAL}: {finding.message}")
    raise RankTableError([told.diagnostic(where)])


def _numbers(text: str) -> list[list[int | str]]:
    """Return rows of numbers; a word that is not a plain number stays a text."""
    rows = (line.partition("#")[0].strip(" \t\r,") for line in text.split("\n"))
    return [
        [int(word) if _PLAIN.fullmatch(word) else word for word in _GAP.split(row)]
        for row in rows
        if row
    ]


def _judge_shape(source: _Source) -> None:
    """Refuse a file that does not satisfy the JSON Schema of topologies."""
    lists: list[tuple[Path, Any]] = [((), source.data)]
    if isinstance(source.data, dict):
        keys = [key for key in ("links", "matrix") if key in source.data]
        lists = [((key,), source.data[key]) for key in keys]
    if not lists:
        source.fail(_NONE)
    for path, rows in lists:
        if not isinstance(rows, list) or not rows:
            message = f'"{path[0]}" is not a list of rows' if path else _NONE
            source.fail(message, path or None)
        for number, row in enumerate(rows):
            what = f"row {number} is not a list of integers"
            if not isinstance(row, list):
                source.fail(what, (*path, number))
            if set(map(type, row)) - {int}:
                at = next(i for i, each in enumerate(row) if type(each) is not int)
                where = (*path, number, at)
                source.fail(f"{what}: {quoted(row[at])} is not one", where)


def _is_list(rows: list[list[int]]) -> bool:
    """Whether the rows are pairs; two rows of two are a matrix if they contain -1."""
    if any(len(row) != _PAIR for row in rows):
        return False
    return len(rows) != _PAIR or not any(_NO_LINK in row for row in rows)


def _pairs(source: _Source) -> list[tuple[int, int]]:
    for place, (a, b) in enumerate(source.rows):
        if not (0 <= a < MAX_CHIPS and 0 <= b < MAX_CHIPS) or a == b:
            source.fail(
                f"row {place} is {a}, {b}; a link joins two different chips",
                (*source.key, place),
            )
    return [(a, b) for a, b in source.rows]


def _linked_by_matrix(source: _Source) -> list[tuple[int, int]]:
    rows, size = source.rows, len(source.rows)
    if size > MAX_CHIPS:
        source.fail(f"there are more than {MAX_CHIPS} chips")
    for place, row in enumerate(rows):
        if len(row) != size:
            source.fail(
                f"row {place} has {len(row)} entries; a matrix of {size} chips has "
                f"{size} in every row, a list of links has 2",
                (*source.key, place),
            )
    off_diagonal = {rows[a][b] for a in range(size) for b in range(size) if a != b}
    if off_diagonal == {0, 1}:
        source.fail(
            "this looks like a matrix of 0 and 1; here a link is its port number and "
            "-1 is not a link, so 0 would be a link too",
        )
    for a in range(size):
        for b in range(a):
            if (rows[a][b] < 0) != (rows[b][a] < 0):
                source.fail(
                    f"chip {a} and chip {b} are linked in one direction only",
                    (*source.key, a, b),
                )
    return [(a, b) for a in range(size) for b in range(a) if rows[a][b] >= 0]
