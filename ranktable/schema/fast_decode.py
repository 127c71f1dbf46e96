"""The fast path: tables whose nodes have the same text as the first one.

In such tables ranks continue from node to node, and hosts, addresses and perhaps chips
differ. So the text of the first node is a template with a hole for each of these
values. The document with only its first node is read like any other. Then the values
of all holes are taken from the text, the whole text is written again from the template
and these values, and both texts are compared. If they are equal, nothing else must be
decoded. A table that this cannot read takes the reader; a property test checks that
both never disagree.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ranktable.schema.columns import Columns
from ranktable.schema.declare import ADDRESSES, NUMBERS, KeyRole, Kind
from ranktable.schema.document import Document
from ranktable.schema.finding import Finding, Findings
from ranktable.schema.json_parser import parse
from ranktable.schema.reader import read_document
from ranktable.schema.values import plain_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ranktable.schema.declare import Format, Key

MANY_NODES = 100
"""Fewest nodes for which a template is made, because its pattern takes 1 ms."""

LARGE_BYTES = MANY_NODES * 40
"""Fewest bytes of so many nodes; a smaller file takes the reader."""

BLOCK_RANKS = 512
"""Ranks that are compared at a time: some 100 kB of text, which fit into the cache.
From 128 KiB on, the C library's allocator maps new pages for every block."""

LONGEST_VALUE = 256
"""Most characters of a value in a hole; with longer ones the reader is used."""

_HEAD_BYTES = 64 * 1024
"""Bytes at the beginning of a file that contain the key of the nodes."""

_BLANKS = b" \t\r\n"
_PLAIN_CHARACTERS = bytes(range(0x20, 0x7F)).replace(b"\\", b"")
"""Printable ASCII without the backslash, to compare all bytes in one call."""
_QUOTE = b'"'
_LONGEST_RANK = 9
_SUFFIXES = 1000
"""How many numbers have the same digits before their last three."""
_FINAL = "+" if sys.version_info >= (3, 11) else ""
"""Says that a repetition is not tried again with less, which takes a quarter off."""


def decode_columns(
    data: bytes, formats: Sequence[Format], least_nodes: int = MANY_NODES
) -> Columns | None:
    """Return the columns of a table whose nodes have the same text, else None.

    Args:
        data: Bytes of a file.
        formats: The formats that it may have, in the order in which they are tried.
        least_nodes: Fewest nodes for which a template is faster.
    """
    for format_ in formats:
        is_named = data.find(format_.nodes_key.encode(), 0, _HEAD_BYTES) >= 0
        text = _find_nodes(data, format_) if is_named else None
        if text is None or len(data) < least_nodes * len(text.node):
            continue
        try:
            first = _first_node(data, text, formats)
            return None if first is None else _decode(data, text, first)
        except (UnicodeError, RecursionError):
            return None
    return None


class _Nodes(NamedTuple):
    """Where the nodes are in the bytes of a file.

    Attributes:
        start: First byte of the first node.
        node: Text of the first node.
        gap: Text between it and the second.
        closing: Offset of the bracket after the last node.
    """

    start: int
    node: bytes
    gap: bytes
    closing: int


def _find_nodes(data: bytes, format_: Format) -> _Nodes | None:
    """Return where the nodes are, None if there is only one or the text is unusual."""
    key, list_key = (
        b'"%b"' % name.encode() for name in (format_.devices_key, format_.nodes_key)
    )
    listed = data.find(list_key)
    first_key = _find_key(data, key, listed)
    # Super pods have lists of that name too, without devices.
    listed = data.rfind(list_key, listed, first_key)
    opening = re.compile(rb"\s*:\s*\[\s*").match(data, listed + len(list_key))
    if opening is None:
        return None
    start = opening.end()
    second = data.rfind(b"{", start, _find_key(data, key, first_key + 1) + 1)
    closing = data.find(b"]", data.find(b"]", _find_last_key(data, key)) + 1)
    if not 0 <= listed < first_key < second < closing:
        return None
    period = data[start:second]  # the first node, a comma and blanks
    node = period.rstrip(b"," + _BLANKS)
    gap = period[len(node) :]
    return _Nodes(start, node, gap, closing) if gap.count(b",") == 1 else None


_COLON = re.compile(rb"\s*:")


def _find_key(data: bytes, key: bytes, start: int) -> int:
    """Return where a text is a key from an offset on, not a value; -1 if nowhere."""
    at = data.find(key, start)
    while at >= 0 and not _COLON.match(data, at + len(key)):
        at = data.find(key, at + 1)
    return at


def _find_last_key(data: bytes, key: bytes) -> int:
    """Return the last place where a text is a key; -1 if there is none."""
    at = data.rfind(key)
    while at >= 0 and not _COLON.match(data, at + len(key)):
        at = data.rfind(key, 0, at)
    return at


def _first_node(data: bytes, text: _Nodes, formats: Sequence[Format]) -> Columns | None:
    """Return the columns of the document with only its first node, if it is sound.

    Then every other node with the same text and other values in the holes is sound too.
    """
    one = (data[: text.start] + text.node + data[text.closing :]).decode()
    parsed = parse(one)
    if isinstance(parsed, Finding) or parsed[1] or not isinstance(parsed[0], dict):
        return None
    format_ = next((one for one in formats if one.matches(parsed[0])), None)
    if format_ is None or not format_.record.fits(parsed[0]):
        return None
    found = Findings()
    first = read_document(format_, Document(text=one, data=parsed[0]), found)
    is_usual = first.num_nodes == 1 and not first.more_addresses
    return first if is_usual and not first.conflicts and not found else None


def _decode(data: bytes, text: _Nodes, first: Columns) -> Columns | None:
    """Return the columns of all nodes, None if one has another text."""
    slots = _slots(text.node, first)
    num_nodes, rest = divmod(_last_rank(data, slots) + 1, first.num_devices)
    if rest or not num_nodes:
        return None
    few = [
        slot
        for slot in slots
        if slot.field.role is KeyRole.RANK or slot.field.kind not in NUMBERS
    ]
    for chosen in (few, slots) if len(few) < len(slots) else (slots,):
        template = _NodeTemplate(text, chosen, first.num_devices)
        end = template.follow(data, num_nodes)
        # In a truncated file the last bracket is inside the last node.
        if 0 <= end <= text.closing and not data[end : text.closing].strip(_BLANKS):
            columns = template.columns(first.format)
            return None if columns is None else _spread(first, data, num_nodes, columns)
    return None


class _Slot(NamedTuple):
    """A value of the first node that may differ in other nodes.

    Attributes:
        field: Its key.
        start: Its first byte in the text of the node; if quoted, after the quotation
            mark.
        end: Its end, before the quotation mark.
        is_quoted: Whether it is a text.
        place: Index of its device, 0 for a value of the node.
    """

    field: Key
    start: int
    end: int
    is_quoted: bool
    place: int


def _slots(node: bytes, first: Columns) -> list[_Slot]:
    """Return the values of the first node that may differ, in text order.

    Returns:
        An empty list if the ranks do not count up, or if the format has other shapes.
    """
    format_, size = first.format, first.num_devices
    fields = {
        field.key: (field, count)
        for fields, count in ((format_.node_fields, 1), (format_.device_fields, size))
        for field in fields
        if field.role is not KeyRole.LOCAL_RANK
    }
    if any(field.kind is Kind.LIST for field, _ in fields.values()):
        return []
    found: dict[str, list[_Slot]] = {}
    for match in _member(fields).finditer(node):
        field = fields[match[1].decode()][0]
        of_key = found.setdefault(field.key, [])
        start, end = match.span(2)
        is_quoted = node.startswith(_QUOTE, start)
        of_key.append(
            _Slot(field, start + is_quoted, end - is_quoted, is_quoted, len(of_key))
        )
    # Values that some devices lack or write in another way are not holes.
    whole = [
        slots
        for key, slots in found.items()
        if len(slots) == fields[key][1] and len({s.is_quoted for s in slots}) == 1
    ]
    slots = sorted((slot for slots in whole for slot in slots), key=lambda s: s.start)
    roles = [slots[0].field.role for slots in whole]
    is_alike = (
        first.are_ranks_in_file_order()
        and 0
        < roles.count(KeyRole.RANK)
        == len({*found}.intersection(format_.rank_keys))
        and len({*found}.intersection(format_.address_keys)) <= 1
    )
    return slots if is_alike else []


def _member(keys: Iterable[str]) -> re.Pattern[bytes]:
    """Return a pattern for one of these keys with its value."""
    listed = b"|".join(re.escape(key.encode()) for key in keys)
    return re.compile(rb'"(%b)"\s*:\s*("[^"\\]*"|-?[0-9]+)' % listed)


def _last_rank(data: bytes, slots: list[_Slot]) -> int:
    """Return the last rank of a text, -1 if there is none."""
    keys = {slot.field.key for slot in slots if slot.field.role is KeyRole.RANK}
    at = max((data.rfind(b'"%b"' % key.encode()) for key in keys), default=-1)
    member = _member(keys).match(data, at) if at >= 0 else None
    digits = member[2].strip(_QUOTE) if member else b""
    is_plain = digits.isdigit() and len(digits) <= _LONGEST_RANK
    return int(digits) if is_plain else -1


class _NodeTemplate:
    """The text of all nodes: constant pieces, and the values between them."""

    def __init__(self, text: _Nodes, slots: list[_Slot], size: int) -> None:
        node = text.node
        ends = [0, *(slot.end for slot in slots)]
        starts = [*(slot.start for slot in slots), len(node)]
        pieces = [node[a:b].decode() for a, b in zip(ends, starts, strict=True)]
        self.start, self.length = text.start, len(node) + len(text.gap)
        self.size = size
        self.slots = slots
        self.head, self.tail = pieces[0], pieces[-1]
        self.cycle = [*pieces[1:-1], self.tail + text.gap.decode() + self.head]
        self.holes = [slot for slot in slots if slot.field.role is not KeyRole.RANK]
        self.of_field: dict[Key, list[int]] = {}
        for hole, slot in enumerate(self.holes):
            self.of_field.setdefault(slot.field, []).append(hole)
        self.taken: dict[Key, list[str]] = {field: [] for field in self.of_field}
        self.patterns: dict[int, re.Pattern[str]] = {}

    def follow(self, data: bytes, num_nodes: int) -> int:
        """Read the values of all holes; return the end of the nodes, -1 if they differ.

        Args:
            data: Bytes of the file.
            num_nodes: Expected number of nodes.
        """
        if not data.startswith(self.head.encode(), self.start):
            return -1
        at = self.start + len(self.head)
        step = max(1, BLOCK_RANKS // self.size)
        view = memoryview(data)
        longest = self.length + 2 * LONGEST_VALUE
        end = 0
        while end < num_nodes:
            first = end
            # The ranks of most blocks have the same digits before the last three.
            same = (first * self.size // _SUFFIXES + 1) * _SUFFIXES // self.size
            end = min(first + step, num_nodes, max(first + 1, same))
            near = str(view[at : at + (end - first) * longest], "ascii")
            taken = self.take(near, first, end)
            if taken is None:
                return -1
            text = self.block(taken, first, end, is_last=end == num_nodes)
            if not near.startswith(text):
                return -1
            at += len(text)
            # A node that is longer needs another reader.
            longest = len(text) * 5 // (4 * (end - first))
            for field, holes in self.of_field.items():
                values = [""] * (len(holes) * (end - first))
                for place, hole in enumerate(holes):
                    values[place :: len(holes)] = taken[hole]
                if field.kind not in NUMBERS and not _are_plain(values):
                    return -1
                self.taken[field] += values
        return at

    def take(self, near: str, first: int, end: int) -> list[tuple[str, ...]] | None:
        """Return the values of each hole in some nodes, None if they do not match.

        Args:
            near: The text from the first hole of the first node on.
            first: The first node.
            end: The end of the nodes.
        """
        if not self.holes:
            return []
        ranks = range(first * self.size, end * self.size)
        shortest, longest = len(str(ranks[0])), len(str(ranks[-1]))
        found = self.pattern(shortest if shortest == longest else 0).finditer(near)
        nodes = list(map(re.Match.groups, islice(found, end - first)))
        is_lacking = (None,) * len(self.holes) in nodes
        return None if is_lacking else list(zip(*nodes, strict=True))

    def pattern(self, length: int) -> re.Pattern[str]:
        """Return a pattern that reads the values of a node; it matches any text.

        Args:
            length: Digits of every rank, 0 if they differ; if constant text is skipped
                by its length, the pattern is faster.
        """
        if length not in self.patterns:
            parts, skipped = [], 0
            for slot, piece in zip(self.slots, self.cycle, strict=True):
                if slot.field.role is KeyRole.RANK and length:
                    skipped += length + len(piece)
                    continue
                # A value ends at its delimiter, so there is only one way to match.
                value = f"([^{re.escape(piece[:1])}]{{0,{LONGEST_VALUE}}}{_FINAL})"
                if slot.field.role is KeyRole.RANK:
                    value = f"[0-9]{{1,{_LONGEST_RANK}}}"
                parts += [f".{{{skipped}}}{_FINAL}", value, re.escape(piece[:1])]
                skipped = len(piece) - 1
            # The last node is followed by less text.
            parts.append(f".{{0,{skipped}}}{_FINAL}")
            self.patterns[length] = re.compile(f"(?:{''.join(parts)}|)", re.DOTALL)
        return self.patterns[length]

    def block(
        self,
        taken: list[tuple[str, ...]],
        first: int,
        end: int,
        *,
        is_last: bool,
    ) -> str:
        """Return the text of these nodes, made from the template and the values."""
        start, ranks = _spelt(first * self.size, end * self.size)
        values = iter(taken)
        node = []
        for slot, piece in zip(self.slots, self.cycle, strict=True):
            node += [start if slot.field.role is KeyRole.RANK else "", "", piece]
        parts = node * (end - first)
        for at, slot in enumerate(self.slots):
            parts[3 * at + 1 :: len(node)] = (
                ranks[slot.place :: self.size]
                if slot.field.role is KeyRole.RANK
                else next(values)
            )
        if is_last:
            parts[-1] = self.tail
        return "".join(parts)

    def columns(self, format_: Format) -> dict[Key, list[Any]] | None:
        """Return the values of each key in file order, None if one is not plain."""
        found = {key: _plain(key, texts, format_) for key, texts in self.taken.items()}
        return None if None in found.values() else found  # type: ignore[return-value]


def _spelt(first: int, end: int) -> tuple[str, Sequence[str]]:
    """Return the texts of numbers that count up: what all begin with, and the rest."""
    start, after = divmod(first, _SUFFIXES)
    if after + end - first > _SUFFIXES:
        return "", list(map(str, range(first, end)))
    rest = _suffixes(_SUFFIXES if start else 0)[after : after + end - first]
    return str(start or ""), rest


@cache
def _suffixes(padding: int) -> tuple[str, ...]:
    """Return 0 to 999 as texts, of three digits if the padding is 1000."""
    texts = map(str, range(padding, padding + _SUFFIXES))
    return tuple(text[-3:] for text in texts)


def _are_plain(texts: list[str]) -> bool:
    """Whether JSON reads these texts between quotation marks as they are."""
    return not "".join(texts).encode().translate(None, _PLAIN_CHARACTERS)


def _plain(key: Key, texts: list[str], format_: Format) -> list[Any] | None:
    """Return the values of a key, None if one of them does not fit."""
    if key.kind in NUMBERS:
        numbers = plain_numbers(texts)
        has_limits = (key.minimum, key.maximum) != (None, None)
        if numbers and has_limits:
            ends = min(numbers), max(numbers)
            return numbers if all(map(key.is_within, ends)) else None
        return numbers
    if key.kind in (Kind.ANY, Kind.BOOLEAN):
        return None  # a text may not say of which type the value was
    if key.kind not in ADDRESSES and not all(map(key.fits, dict.fromkeys(texts))):
        return None
    if key.role is KeyRole.ADDRESS and format_.is_hccl_1 and not all(texts):
        return [text or None for text in texts]
    return texts


def _spread(
    first: Columns, data: bytes, num_nodes: int, values: dict[Key, list[Any]]
) -> Columns:
    """Return the columns of all nodes: those of the first one with other values."""
    by_role = {field.role: column for field, column in values.items()}
    by_key = {field.key: column for field, column in values.items()}
    size = first.num_devices
    columns = Columns(first.format, data)
    columns.starts = list(range(0, num_nodes * size + 1, size))
    columns.ranks = list(range(num_nodes * size))
    columns.device_ids = by_role.get(KeyRole.DEVICE_ID) or first.device_ids * num_nodes
    columns.local_ranks = first.local_ranks * num_nodes
    columns.addresses = by_role.get(KeyRole.ADDRESS) or first.addresses * num_nodes
    columns.hosts = by_role.get(KeyRole.HOST) or first.hosts * num_nodes
    columns.top = first.top
    columns.optional = {
        key: by_key.get(key) or column * num_nodes
        for key, column in first.optional.items()
    }
    columns.is_emulated = first.is_emulated
    columns.lacking = first.lacking
    columns.worked_out = {"are_ranks_in_file_order": True}
    return columns
