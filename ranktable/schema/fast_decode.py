"""The fast path: a table decoded into columns by a typed decoder of its format.

Every process of a job reads the table, so a sound one must be read fast. The text is
decoded in pieces of some kilobytes, which stay in the cache of the processor, directly
into typed values. Then whole lists are compared.

The result is the columns, if the shape has no defect. Otherwise it is None: then the
slower reader, which can explain every defect, has to read the file. A property test
checks that the two readers never disagree.
"""

from __future__ import annotations

import contextlib
import operator
import re
from functools import lru_cache, partial
from itertools import accumulate, chain
from typing import TYPE_CHECKING

import msgspec

from ranktable.schema.columns import Columns
from ranktable.schema.finding import Findings
from ranktable.schema.format import (
    Kind,
    Role,
    plain_numbers,
)
from ranktable.schema.formats import FORMATS, decode_large
from ranktable.schema.node_template import decode_alike
from ranktable.schema.rules import is_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from ranktable.schema.format import Field, Format

PIECE_BYTES = 64 * 1024
"""Size of a piece: its values fit into a second-level cache. It is less than 128 KiB,
because from there on the C library's allocator maps new pages for every request."""

MANY_NODES = 100
"""Fewest nodes for which a template is made, because its pattern takes 1 ms."""

LEAST_NODE_BYTES = 40
"""Of a node and its device; a file too short for ``MANY_NODES`` is decoded directly."""

_COLON = b":"
_VERSION = re.compile(rb'"version"\s*:\s*"([0-9.]*)"')
_NUMBERS = (Kind.NUMBER, Kind.NUMERAL, Kind.INTEGER)
_TYPES: dict[Kind, Any] = {
    Kind.NUMBER: str | int,
    Kind.NUMERAL: str,
    Kind.INTEGER: int,
    Kind.TEXT: str,
    Kind.HOST: str,
    Kind.ADDRESS: str,
    Kind.ADDRESSES: str,
    Kind.LIST: msgspec.Raw,
    Kind.ANY: str,
}


def decode_columns(data: bytes, format_: Format) -> Columns | None:
    """Return the columns of a document, None if it needs the slower reader.

    Args:
        data: Bytes of a file.
        format_: The format that it probably has.
    """
    if data.find(format_.nodes_key.encode(), 0, PIECE_BYTES) < 0:
        return None
    version = _VERSION.search(data, 0, PIECE_BYTES)
    if version and version[1].decode() not in format_.versions:
        return None  # saves a decode of the first node
    try:
        return decode_by_template(data, format_) or decode_each_node(data, format_)
    except (msgspec.DecodeError, UnicodeDecodeError, _NotPlainError, RecursionError):
        return None


def decode_by_template(
    data: bytes, format_: Format, least_nodes: int = MANY_NODES
) -> Columns | None:
    """Return the columns of a document whose nodes have the same text, else None."""
    if len(data) < least_nodes * LEAST_NODE_BYTES:
        return None
    plain = partial(_meant, format_)
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, _NotPlainError):
        return decode_alike(data, format_, decode_each_node, plain, least_nodes)
    return None


def decode_each_node(data: bytes, format_: Format) -> Columns | None:
    """Return the columns of a document, every node of which is decoded.

    Raises:
        _NotPlainError: Something is unusual.
        msgspec.DecodeError: Something is unusual.
    """
    nodes = max(data.find(b'"%b"' % format_.nodes_key.encode()), 0)  # after the spares
    devices = rb'"%b"\s*:\s*\[\s*(\{[^{}\[\]]*\})' % _key(format_.devices)
    first = re.compile(devices).search(data, nodes)
    if first is None:
        return None
    every_key = {field.key for field in format_.device_fields}
    required = {field.key for field in format_.device_fields if field.is_required}
    keys = tuple(msgspec.json.decode(first[1], type=dict[str, object]))
    if not required <= set(keys) <= every_key:
        return None
    return _Reading(data, format_, keys).columns()


def read_sound(data: bytes) -> Columns | None:
    """Return the columns of a table that is certainly sound, None for any other."""
    for format_ in FORMATS:
        columns = format_.decode(data)
        if columns is not None:
            return columns if is_sound(columns) else None
    found = Findings(limit=0)
    columns = decode_large(data, found)
    if columns is None or found.counts:
        return None
    return columns if is_sound(columns) else None


def _key(field: Field) -> bytes:
    return re.escape(field.key.encode())


def _are_items(field: Field, value: object) -> bool:
    """Whether a list at the top has objects with just the keys that it should have."""
    from ranktable.schema.document_reader import are_items

    return are_items(field, value)


class _NotPlainError(Exception):
    """The reader that explains everything has to look."""


def _refuse_unless(condition: bool) -> None:
    if not condition:
        raise _NotPlainError


def _getter(keys: Iterable[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that gets the values of keys from an object, as a tuple."""
    keys = tuple(keys)
    getter = operator.attrgetter(*keys)
    return getter if len(keys) > 1 else lambda item: (getter(item),)


def _plain(values: list[Any], first: int | None = None) -> list[int]:
    numbers = plain_numbers(values, first)
    _refuse_unless(numbers is not None)
    return numbers or []


@lru_cache(maxsize=16)
def _decoders(
    format_: Format, keys: tuple[str, ...], *, are_optional: bool
) -> dict[str, msgspec.json.Decoder[Any]]:
    """Return the decoder of a whole table, and of a list of its nodes."""
    fields = {field.key: field for field in format_.device_fields}
    device = _struct([fields[key] for key in keys], are_optional=are_optional)
    lists = [(format_.devices_key, list[device])]  # type: ignore[valid-type]
    node = _struct(format_.node_fields, lists)
    lists = [(format_.nodes_key, list[node])]  # type: ignore[valid-type]
    table = _struct(format_.table_fields, lists)
    types = {"table": table, "nodes": list[node]}  # type: ignore[valid-type]
    return {what: msgspec.json.Decoder(type_) for what, type_ in types.items()}


def _struct(
    fields: Sequence[Field],
    lists: Sequence[tuple[str, Any]] = (),
    *,
    are_optional: bool = True,
) -> type[msgspec.Struct]:
    members: list[Any] = list(lists)
    for field in fields:
        type_ = _TYPES[field.kind]
        if are_optional and not field.is_required:
            members.append((field.key, type_ | msgspec.UnsetType, msgspec.UNSET))
        else:
            members.append((field.key, type_))
    return msgspec.defstruct(
        "record", members, kw_only=True, gc=False, forbid_unknown_fields=True
    )


class _Reading:
    """One reading of one document."""

    def __init__(
        self,
        data: bytes,
        format_: Format,
        keys: tuple[str, ...],
    ) -> None:
        self.data = data
        self.format = format_
        self.expect(keys, are_optional=False)
        node_keys = (field.key for field in format_.node_fields)
        self.node_members = _getter([format_.devices_key, *node_keys])
        self.read = Columns(format=format_, source=data)
        self.colons = 0
        self.known: dict[tuple[Any, ...], list[int]] = {}
        self.ranks: tuple[list[Any], list[int]] = ([], [])

    def expect(self, keys: tuple[str, ...], *, are_optional: bool) -> None:
        """Expect these keys in every device; those not required may be absent."""
        self.are_optional = are_optional
        self.decoders = _decoders(self.format, keys, are_optional=are_optional)
        self.device_fields = [f for f in self.format.device_fields if f.key in keys]
        self.members = _getter(f.key for f in self.device_fields)

    def decoded(self, what: str, data: bytes) -> Any:
        """Return the values of the ``table``, or of a list of ``nodes``."""
        if not self.are_optional:  # most tables spell every device alike
            with contextlib.suppress(msgspec.ValidationError):
                return self.decoders[what].decode(data)
            every_key = tuple(field.key for field in self.format.device_fields)
            self.expect(every_key, are_optional=True)
        return self.decoders[what].decode(data)

    def columns(self) -> Columns:
        """Return the columns.

        Raises:
            _NotPlainError: Something is unusual.
            msgspec.DecodeError: Something is unusual.
        """
        opening = re.search(rb'"%b"\s*:\s*\[' % _key(self.format.nodes), self.data)
        # The brackets behind the last key of devices end its list, and that of nodes.
        last = self.data.rfind(b'"%b"' % self.format.devices_key.encode())
        closing = self.data.find(b"]", self.data.find(b"]", last) + 1)
        _refuse_unless(opening is not None and closing > 0)
        assert opening is not None
        # The document with an empty list of nodes must be sound by itself; then the
        # nodes are read piece by piece. A list of JSON values is the concatenation
        # of lists of them, so nothing can hide between the pieces.
        head = self.data[: opening.end()] + self.data[closing:]
        try:
            self.add_top(self.decoders["table"].decode(head))
            self.refuse_escapes()
        except msgspec.DecodeError:  # something stands behind the nodes
            self.refuse_escapes()
            top = self.decoded("table", self.data)
            self.add_top(top)
            self.add_nodes(getattr(top, self.format.nodes_key))
        else:
            view = memoryview(self.data)
            for start, end in self.pieces(opening.end(), closing):
                nodes = b"".join((b"[", view[start:end], b"]"))
                self.add_nodes(self.decoded("nodes", nodes))
        # Every key brings one colon, and so do some addresses; there are more where a
        # key is repeated.
        _refuse_unless(self.data.count(_COLON) == self.colons)
        return self.read

    def refuse_escapes(self) -> None:
        """Refuse what could hide a repeated key from the count of colons."""
        _refuse_unless(b"\\" not in self.data and self.data.isascii())

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield offsets that cut the text of the nodes between two of them."""
        data, key = self.data, b'"%b"' % self.format.devices_key.encode()
        while end - start > PIECE_BYTES:
            cut = data.rfind(key, start, start + PIECE_BYTES)
            comma = data.rfind(b",", start, max(data.rfind(b"{", start, cut), start))
            if cut < 0 or comma <= start:
                break  # one node is larger than a piece
            yield start, comma
            start = comma + 1
        yield start, end

    def add_top(self, top: Any) -> None:
        self.colons += 1
        for field in self.format.table_fields:
            value = getattr(top, field.key)
            if value is msgspec.UNSET:
                continue
            self.colons += 1
            if isinstance(value, msgspec.Raw):
                value = self.sound_list(bytes(value))
                _refuse_unless(not field.items or _are_items(field, value))
            else:
                self.plain(field, [value])
            self.read.top[field.key] = value

    def sound_list(self, raw: bytes) -> object:
        """Return a list that the strict parser accepts."""
        from ranktable.schema.json_parser import parse

        parsed = parse(raw.decode())
        _refuse_unless(isinstance(parsed, tuple) and not parsed[1].counts)
        self.colons += raw.count(_COLON)
        return parsed[0] if isinstance(parsed, tuple) else None

    def add_nodes(self, nodes: list[Any]) -> None:
        """Add the nodes of a piece to the columns."""
        read, count = self.read, self.read.num_nodes
        lists, *columns = map(list, zip(*map(self.node_members, nodes), strict=True))
        sizes = list(map(len, lists))
        _refuse_unless(bool(sizes) and 0 not in sizes)
        self.colons += len(nodes)
        for field, found in zip(self.format.node_fields, columns, strict=True):
            values = self.values(field, found, count)
            if field.role is Role.HOST:
                read.hosts += values or [None] * len(nodes)
            elif values is not None or field.key in read.optional:
                self.keep(field, values or [None] * len(nodes), count)
        read.starts += list(accumulate(sizes, initial=read.starts[-1]))[1:]
        self.add_devices(list(chain.from_iterable(lists)))

    def add_devices(self, devices: list[Any]) -> None:
        """Add the devices of a piece to the columns."""
        read, first = self.read, self.read.num_devices
        nothing: list[Any] = [None] * len(devices)
        found: dict[Role, list[Any]] = {}
        lacking = list(self.format.reader_keys)
        columns = map(list, zip(*map(self.members, devices), strict=True))
        for field, column in zip(self.device_fields, columns, strict=True):
            values = self.values(field, column, first)
            if values is None:
                if field.key in read.optional:
                    self.keep(field, nothing, first)
                continue
            if field.role is Role.RANK:
                # Keys that give the rank have to agree, in every device.
                _refuse_unless(found.setdefault(Role.RANK, values) == values)
                if field.key in lacking:
                    lacking.remove(field.key)
            elif field.role is Role.ADDRESS:
                earlier = found.get(Role.ADDRESS, nothing)
                found[Role.ADDRESS] = self.joined(field, earlier, values, first)
            elif field.role is Role.OTHER:
                self.keep(field, values, first)
            else:
                found[field.role] = values
        _refuse_unless(Role.RANK in found)
        if lacking:
            read.lacking.setdefault(tuple(lacking), first)
        read.ranks += found[Role.RANK]
        read.device_ids += found[Role.DEVICE_ID]
        read.local_ranks += found.get(Role.LOCAL_RANK, nothing)
        read.addresses += found.get(Role.ADDRESS, nothing)

    def joined(
        self, field: Field, earlier: list[Any], values: list[Any], first: int
    ) -> list[Any]:
        """Return the addresses of devices; a later key wins over an earlier one."""
        key = self.format.address_keys[0]
        if field.key == key:
            return values
        self.read.is_emulated = True
        pairs = list(zip(earlier, values, strict=True))
        self.read.more_addresses += [
            (index, key, before)
            for index, (before, address) in enumerate(pairs, first)
            if before is not None and address is not None
        ]
        return [before if address is None else address for before, address in pairs]

    def keep(self, field: Field, values: list[Any], count: int) -> None:
        """Add the values of a column that not every table has."""
        self.read.optional.setdefault(field.key, [None] * count).extend(values)

    def values(self, field: Field, column: list[Any], first: int) -> list[Any] | None:
        """Return the values of a field, None for those that are absent.

        Returns:
            None if all of them are absent.
        """
        is_everywhere = field.is_required or (
            not self.are_optional and field in self.device_fields
        )
        there = column
        if not is_everywhere and msgspec.UNSET in column:
            if column.count(msgspec.UNSET) == len(column):
                return None
            there = [value for value in column if value is not msgspec.UNSET]
        self.colons += len(there)
        plain = self.plain(field, there, first if there is column else None)
        if len(there) == len(column):
            return plain
        _refuse_unless(field.role is not Role.RANK)  # some have one key, some another
        values = iter(plain)
        return [None if value is msgspec.UNSET else next(values) for value in column]

    def plain(
        self, field: Field, values: list[Any], first: int | None = None
    ) -> list[Any]:
        """Return the plain values of a field: numbers, or texts.

        Raises:
            _NotPlainError: The field does not allow one of them.
        """
        if field.role is Role.RANK:
            if values != self.ranks[0]:  # two keys may give the same ranks
                self.ranks = (values, _plain(values, first))
            return self.ranks[1]
        if field.kind in _NUMBERS:  # many pieces have the same chips
            known = tuple(values)
            if known not in self.known:
                self.known[known] = _plain(values)
            return self.known[known]
        self.colons += "".join(values).count(":")
        return _meant(self.format, field, values)


def _meant(format_: Format, field: Field, values: list[Any]) -> list[Any]:
    """Return the plain values of a field: numbers, or texts.

    Raises:
        _NotPlainError: The field does not allow one of them.
    """
    if field.kind in _NUMBERS:
        return _plain(values)
    if field.values:
        _refuse_unless(set(values) <= set(field.values))
    if field.kind is Kind.HOST:
        _refuse_unless(all(map(str.strip, values)))
    if field.role is Role.ADDRESS and format_.has_blank_addresses:
        return values if all(values) else [value or None for value in values]
    return values
