"""The fastest path: tables whose nodes have the same text as the first one.

Ranks count on from node to node; hosts, addresses and perhaps chips differ. So the
first node is a template with holes. It is judged as a table of its own, the values of
the holes are taken out of the text, and the whole text is written again from the
template with these values and compared. Equal text is an equal table: nothing else is
decoded.

The answer is "these are the columns" or "I do not know".
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ranktable.schema.columns import Columns
from ranktable.schema.format import MAX_NUMBER, Kind, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from ranktable.schema.format import Field, Format

BLOCK_RANKS = 512
"""Ranks that are compared at once: some 100 kB of text, which stay in the cache. From
128 KiB on the C library's allocator would map fresh pages for every block."""

LONGEST_VALUE = 256
"""Characters of the longest value of a hole; a longer one is read in another way."""

_BLANKS = b" \t\r\n"
_PLAIN_CHARACTERS = bytes(range(0x20, 0x7F)).replace(b"\\", b"")
"""Printable ASCII without the backslash; all bytes are compared in one call."""
_QUOTE = b'"'
_LONGEST_RANK = 9


class _Slot(NamedTuple):
    """A value of the first node that other nodes need not have.

    Attributes:
        field: What it is.
        start: Its first byte in the text of the node; a quotation mark is before it.
        end: Its end, likewise.
        is_quoted: Whether it is a text.
        place: The device that has it, 0 for a value of the node.
    """

    field: Field
    start: int
    end: int
    is_quoted: bool
    place: int


def decode_alike(
    data: bytes,
    format_: Format,
    decode: Callable[[bytes, Format], Columns | None],
    plain: Callable[[Field, list[Any]], list[Any]],
    least_nodes: int,
) -> Columns | None:
    """Return the columns of a table whose nodes have the same text, else None.

    Args:
        data: Bytes of a file.
        format_: The format it is thought to have.
        decode: Returns the columns of a small table.
        plain: Returns values of a field as they are meant, or raises an exception.
        least_nodes: Nodes of the smallest table that is worth it.
    """
    text = _find_nodes(data, format_)
    if text is None or len(data) < least_nodes * len(text.node):
        return None
    # The document with its first node only must be right: then every other node that
    # has the same text with other values is right too.
    head, tail = data[: text.start], data[text.closing :]
    first = decode(head + text.node + tail, format_)
    if first is None or first.num_nodes != 1 or first.more_addresses:
        return None
    slots = _slots(text.node, first)
    num_nodes, rest = divmod(_last_rank(data, slots) + 1, first.num_devices)
    if rest or not num_nodes:
        return None
    few = [
        slot
        for slot in slots
        if slot.field.role is Role.RANK or slot.field.kind not in _NUMBERS
    ]
    for chosen in (few, slots) if len(few) < len(slots) else (slots,):
        template = _Template(text, chosen, first.num_devices)
        end = template.follow(data, num_nodes)
        # A file that was cut off has its last bracket inside the last node.
        if 0 <= end <= text.closing and not data[end : text.closing].strip(_BLANKS):
            return _spread(first, data, num_nodes, dict(template.columns(plain)))
    return None


_NUMBERS = (Kind.NUMBER, Kind.NUMERAL, Kind.INTEGER)


class _Nodes(NamedTuple):
    """Where the nodes are in the bytes of a file.

    Attributes:
        start: First byte of the first node.
        node: Text of the first node.
        gap: Text between it and the second.
        closing: The bracket after the last one.
    """

    start: int
    node: bytes
    gap: bytes
    closing: int


def _find_nodes(data: bytes, format_: Format) -> _Nodes | None:
    """Return where the nodes are, None if there is just one or they are odd."""
    key = b'"%b"' % format_.devices_key.encode()
    opening = re.search(rb'"%b"\s*:\s*\[\s*' % format_.nodes_key.encode(), data)
    if opening is None:
        return None
    start = opening.end()
    first_key = data.find(key, start)
    second = data.rfind(b"{", start, data.find(key, first_key + 1) + 1)
    closing = data.find(b"]", data.find(b"]", data.rfind(key)) + 1)
    if not 0 <= first_key < second < closing:
        return None
    period = data[start:second]  # the first node, a comma and blanks
    node = period.rstrip(b"," + _BLANKS)
    gap = period[len(node) :]
    return _Nodes(start, node, gap, closing) if gap.count(b",") == 1 else None


def _slots(node: bytes, first: Columns) -> list[_Slot]:
    """Return the values of the first node that may differ, in the order of the text.

    Returns:
        Nothing if the ranks do not count up, or the format is not a plain one.
    """
    format_, size = first.format, first.num_devices
    fields = {
        field.key: (field, count)
        for fields, count in ((format_.node_fields, 1), (format_.device_fields, size))
        for field in fields
        if field.role is not Role.LOCAL_RANK
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
    # What some devices lack or spell in another way stays part of the template.
    whole = [
        slots
        for key, slots in found.items()
        if len(slots) == fields[key][1] and len({s.is_quoted for s in slots}) == 1
    ]
    slots = sorted((slot for slots in whole for slot in slots), key=lambda s: s.start)
    roles = [slots[0].field.role for slots in whole]
    is_alike = (
        first.are_ranks_in_file_order()
        and 0 < roles.count(Role.RANK) == len({*found}.intersection(format_.rank_keys))
        and len({*found}.intersection(format_.address_keys)) <= 1
    )
    return slots if is_alike else []


def _member(keys: Iterable[str]) -> re.Pattern[bytes]:
    """Return the pattern of one of these keys and its value."""
    listed = b"|".join(re.escape(key.encode()) for key in keys)
    return re.compile(rb'"(%b)"\s*:\s*("[^"\\]*"|-?[0-9]+)' % listed)


def _last_rank(data: bytes, slots: list[_Slot]) -> int:
    """Return the last rank of a text, -1 if there is none."""
    keys = {slot.field.key for slot in slots if slot.field.role is Role.RANK}
    at = max((data.rfind(b'"%b"' % key.encode()) for key in keys), default=-1)
    member = _member(keys).match(data, at) if at >= 0 else None
    digits = member[2].strip(_QUOTE) if member else b""
    is_plain = digits.isdigit() and len(digits) <= _LONGEST_RANK
    return int(digits) if is_plain else -1


class _Template:
    """The text of all nodes: constant pieces, and what stands between them."""

    def __init__(self, text: _Nodes, slots: list[_Slot], size: int) -> None:
        node = text.node
        ends = [0, *(slot.end for slot in slots)]
        starts = [*(slot.start for slot in slots), len(node)]
        pieces = [node[a:b].decode() for a, b in zip(ends, starts, strict=True)]
        self.start = text.start
        self.size = size
        self.slots = slots
        self.head, self.tail = pieces[0], pieces[-1]
        self.cycle = [*pieces[1:-1], self.tail + text.gap.decode() + self.head]
        self.holes = [slot for slot in slots if slot.field.role is not Role.RANK]
        self.of_field: dict[Field, list[int]] = {}
        for hole, slot in enumerate(self.holes):
            self.of_field.setdefault(slot.field, []).append(hole)
        self.taken: dict[Field, list[str]] = {field: [] for field in self.of_field}
        self.patterns: dict[int, re.Pattern[str]] = {}

    def follow(self, data: bytes, num_nodes: int) -> int:
        """Take the values of all holes; return where the nodes end, -1 if they differ.

        Args:
            data: Bytes of the file.
            num_nodes: Number of nodes that it should have.
        """
        if not data.startswith(self.head.encode(), self.start):
            return -1
        at = self.start + len(self.head)
        step = max(1, BLOCK_RANKS // self.size)
        view = memoryview(data)
        reach = step * (sum(map(len, self.cycle)) + 2 * LONGEST_VALUE)
        for first in range(0, num_nodes, step):
            end = min(first + step, num_nodes)
            near = str(view[at : at + reach], "ascii")
            taken = self.take(near, first, end)
            if taken is None:
                return -1
            text = self.block(taken, first, end, is_last=end == num_nodes)
            if not near.startswith(text):
                return -1
            at += len(text)
            reach = len(text) * 5 // 4  # what grows faster is read in another way
            for field, holes in self.of_field.items():
                values = [""] * (len(holes) * (end - first))
                for place, hole in enumerate(holes):
                    values[place :: len(holes)] = taken[hole]
                self.taken[field] += values
        return at

    def take(self, near: str, first: int, end: int) -> list[tuple[str, ...]] | None:
        """Return the values of each hole in some nodes, None if they are not there.

        Args:
            near: What stands from the first slot of the first node on.
            first: The first node.
            end: The end of the nodes.
        """
        if not self.holes:
            return []
        shortest = len(str(first * self.size))
        is_uniform = shortest == len(str(end * self.size - 1))
        found = self.pattern(shortest if is_uniform else 0).finditer(near)
        nodes = list(map(re.Match.groups, islice(found, end - first)))
        is_lacking = (None,) * len(self.holes) in nodes
        return None if is_lacking else list(zip(*nodes, strict=True))

    def pattern(self, length: int) -> re.Pattern[str]:
        """Return what takes the values of a node out, or nothing: it always matches.

        Args:
            length: Digits of every rank, 0 if they differ; what is skipped is known
                by its length alone, which is faster.
        """
        if length not in self.patterns:
            parts, skipped = [], 0
            for slot, piece in zip(self.slots, self.cycle, strict=True):
                if slot.field.role is Role.RANK and length:
                    skipped += length + len(piece)
                    continue
                # A value ends where its delimiter is, so there is one way to match.
                value = f"([^{re.escape(piece[:1])}]{{0,{LONGEST_VALUE}}})"
                if slot.field.role is Role.RANK:
                    value = f"[0-9]{{1,{_LONGEST_RANK}}}"
                parts += [f".{{{skipped}}}", value, re.escape(piece[:1])]
                skipped = len(piece) - 1
            parts.append(f".{{0,{skipped}}}")  # less follows the last node
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
        """Return the text of nodes."""
        ranks = list(range(first * self.size, end * self.size))
        spelt = msgspec.json.encode(ranks)[1:-1].decode().split(",")
        values = iter(taken)
        width = 2 * len(self.slots)
        parts = [""] * (width * (end - first))
        for at, slot in enumerate(self.slots):
            if slot.field.role is Role.RANK:
                parts[2 * at :: width] = spelt[slot.place :: self.size]
            else:
                parts[2 * at :: width] = next(values)
        parts[1::2] = self.cycle * (end - first)
        if is_last:
            parts[-1] = self.tail
        return "".join(parts)

    def columns(
        self, plain: Callable[[Field, list[Any]], list[Any]]
    ) -> Iterator[tuple[Field, list[Any]]]:
        """Yield each field that was taken, and its values in the order of the file.

        Raises:
            msgspec.DecodeError: A value is not of its type, or not written plainly.
        """
        for field, values in self.taken.items():
            if field.kind in _NUMBERS:
                yield field, _numbers(values)
            else:
                yield field, plain(field, _plain_texts(values))


def _plain_texts(values: list[str]) -> list[str]:
    """Return the texts that stand between quotation marks."""
    if "".join(values).encode().translate(None, _PLAIN_CHARACTERS):
        raise msgspec.DecodeError("not written plainly")
    return values


def _numbers(values: list[str]) -> list[int]:
    """Return the numbers that stand between quotation marks, or without them."""
    text = ",".join(values).encode()
    found = _INTEGERS.decode(b"[%b]" % text)
    is_plain = len(found) == len(values) and max(found) <= MAX_NUMBER
    if not is_plain or text.translate(None, b"0123456789,"):
        raise msgspec.DecodeError("not written plainly")
    return found


_INTEGERS = msgspec.json.Decoder(list[int])


def _spread(
    first: Columns, data: bytes, num_nodes: int, values: dict[Field, list[Any]]
) -> Columns:
    """Return the columns of all nodes: those of the first one, and what was taken."""
    by_role = {field.role: column for field, column in values.items()}
    by_key = {field.key: column for field, column in values.items()}
    size = first.num_devices
    return Columns(
        format=first.format,
        source=data,
        starts=list(range(0, num_nodes * size + 1, size)),
        ranks=list(range(num_nodes * size)),
        device_ids=by_role.get(Role.DEVICE_ID) or first.device_ids * num_nodes,
        local_ranks=first.local_ranks * num_nodes,
        addresses=by_role.get(Role.ADDRESS) or first.addresses * num_nodes,
        hosts=by_role.get(Role.HOST) or first.hosts * num_nodes,
        top=first.top,
        optional={
            key: by_key.get(key) or column * num_nodes
            for key, column in first.optional.items()
        },
        is_emulated=first.is_emulated,
        lacking=first.lacking,
        worked_out={"are_ranks_in_file_order": True},
    )
