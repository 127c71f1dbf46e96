"""Topologies by name, or from a file: a matrix of links or a list of linked pairs."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ranktable.schema.diagnostic import Finding, Location, RankTableError
from ranktable.schema.files import UnreadableError, read_file
from ranktable.schema.json_parser import decode, parse, unreadable
from ranktable.schema.rules.shape import BAD_TOPOLOGY
from ranktable.schema.topology import BUILT_IN, Topology, linked

if TYPE_CHECKING:
    from typing import NoReturn

    from ranktable.schema.diagnostic import Rule

MAX_CHIPS = 1024
"""Chips of one host; the vendor's driver knows 64."""

MAX_SIZE_BYTES = 16 * 1024 * 1024
"""A matrix of 1,024 chips is 4 MiB."""

_NO_LINK = -1
_PAIR = 2


def find_topology(name: str) -> Topology:
    """Return a built-in topology, or the one in a file.

    The file is JSON or plain rows of numbers (blanks or commas between them, ``#``
    begins a comment), and holds either

    * a matrix as ``torch_tpu.tpu.get_topology`` fills it: row a, column b is the port
      of the link from a to b, -1 for none; the diagonal is not looked at; or
    * a list of linked pairs, each written once, in either order.

    Args:
        name: ``sophgo-8`` or the path of a file.

    Raises:
        RankTableError: The file cannot be read or is neither.
    """
    for topology in BUILT_IN:
        if topology.name == name:
            return topology
    text = _text(name)
    rows = _rows(name, text)
    label = os.path.splitext(os.path.basename(name))[0]  # noqa: PTH119, PTH122
    pairs = _pairs(name, rows) if _is_list(rows) else _linked_by_matrix(name, rows)
    num_chips = len(rows) if not _is_list(rows) else max(map(max, pairs)) + 1
    return linked(label, num_chips, pairs)


def _text(name: str) -> str:
    try:
        decoded = decode(read_file(name, MAX_SIZE_BYTES))
    except UnreadableError as error:
        finding = unreadable(error)
        known = ", ".join(topology.name for topology in BUILT_IN)
        hint = f"give a file of links, or one of: {known}"
        _fail(name, finding.message, rule=finding.rule, hint=hint)
    if isinstance(decoded, Finding):
        _fail(name, decoded.message, rule=decoded.rule)
    return decoded[0]


def _rows(name: str, text: str) -> list[list[int]]:
    document: object
    if text.lstrip()[:1] in ("[", "{"):
        parsed = parse(text)
        if isinstance(parsed, Finding):
            _fail(name, parsed.message, rule=parsed.rule)
        document = parsed[0]
        if isinstance(document, dict):
            document = document.get("links", document.get("matrix"))
    else:
        lines = [line.partition("#")[0] for line in text.splitlines()]
        document = [
            [int(word) if re.fullmatch(r"-?[0-9]{1,9}", word) else word for word in row]
            for row in (re.split(r"[\s,]+", line.strip(" \t,")) for line in lines)
            if row != [""]
        ]
    if not isinstance(document, list) or not document:
        _fail(name, "there is neither a matrix nor a list of links in it")
    for place, row in enumerate(document):
        if not isinstance(row, list) or not all(type(item) is int for item in row):
            _fail(name, f"row {place} is not a list of integers")
    if len(document) > MAX_CHIPS**2:
        _fail(name, f"there are more than {MAX_CHIPS} chips")
    return document


def _is_list(rows: list[list[int]]) -> bool:
    """Whether the rows are pairs; two rows of two are a matrix if -1 is in them."""
    if any(len(row) != _PAIR for row in rows):
        return False
    return len(rows) != _PAIR or not any(_NO_LINK in row for row in rows)


def _pairs(name: str, rows: list[list[int]]) -> list[tuple[int, int]]:
    for place, (a, b) in enumerate(rows):
        if not (0 <= a < MAX_CHIPS and 0 <= b < MAX_CHIPS) or a == b:
            _fail(name, f"row {place} is {a}, {b}; a link joins two different chips")
    return [(a, b) for a, b in rows]


def _linked_by_matrix(name: str, rows: list[list[int]]) -> list[tuple[int, int]]:
    size = len(rows)
    for place, row in enumerate(rows):
        if len(row) != size:
            _fail(
                name,
                f"row {place} has {len(row)} entries; a matrix of {size} chips has "
                f"{size} in every row, a list of links has 2",
            )
    off_diagonal = {rows[a][b] for a in range(size) for b in range(size) if a != b}
    if off_diagonal == {0, 1}:
        _fail(
            name,
            "this looks like a matrix of 0 and 1; here a link is its port number and "
            "-1 is not a link, so 0 would be a link too",
        )
    for a in range(size):
        for b in range(a):
            if (rows[a][b] < 0) != (rows[b][a] < 0):
                _fail(name, f"chip {a} and chip {b} are linked in one direction only")
    return [(a, b) for a in range(size) for b in range(a) if rows[a][b] >= 0]


def _fail(
    name: str, message: str, *, rule: Rule = BAD_TOPOLOGY, hint: str | None = None
) -> NoReturn:
    finding = rule.finding(None, f"the topology cannot be used: {message}", hint=hint)
    raise RankTableError([finding.diagnostic(Location(file=name))])
