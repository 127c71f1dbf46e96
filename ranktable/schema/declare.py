"""What a file format says about itself: its objects, their keys and its rules.

A format declares its file as a ``Record``: the keys of the table, of its nodes and of
their devices. The reader, the fast path, the writer and the JSON Schema are all made
from these records.
"""

from __future__ import annotations

import re
import sys
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ranktable._error import Error
from ranktable.schema.values import MAX_DEPTH, MAX_NUMBER, is_too_deep, plain_number

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypedDict

    from typing_extensions import Unpack

    from ranktable.schema.finding import Rule

    Test = Callable[[object], bool]

    class KeyOptions(TypedDict, total=False):
        """What a key may say besides its name, description and examples."""

        kind: Kind
        role: KeyRole
        is_required: bool
        is_written: bool
        values: tuple[str, ...]
        minimum: int | None
        maximum: int | None


_DEPTH = MAX_DEPTH - 8
"""Depth that a list without declared entries may have wherever it is."""

LAYOUT_KEY = "layout"
TOPOLOGY_KEY = "topology"
"""Keys of the layout of the ranks, and of the links between the chips of a host."""

SPARES_KEY = "spare_list"
"""The key of the spare nodes, which have no ranks; an addition of ranktable."""

SUPER_POD_KEY = "super_pod_id"
"""The key with which a node names its super pod, as in Ascend's tables."""


class NotExpressibleError(Error, ValueError):
    """A format cannot express the content of a table."""


class Kind(Enum):
    """The type of a value in a file; the text is what messages call it."""

    NUMBER = "a number"
    NUMERAL = "a string of digits"
    INTEGER = "an integer"
    TEXT = "a string"
    HOST = "a name"
    ADDRESS = "an IP address"
    ADDRESSES = "a string of IP addresses"
    LIST = "a list"
    OBJECT = "an object"
    BOOLEAN = "true or false"
    ANY = "anything"


NUMBERS = (Kind.NUMBER, Kind.NUMERAL, Kind.INTEGER)
"""A plain number as a string or an integer; as a string only; as an integer only."""

ADDRESSES = (Kind.ADDRESS, Kind.ADDRESSES)
"""One address; several with commas between them. Rules judge if they are valid."""


class KeyRole(Enum):
    """The meaning of a value for the model."""

    RANK = "rank"
    DEVICE_ID = "device_id"
    LOCAL_RANK = "local_rank"
    ADDRESS = "address"
    HOST = "host"
    VERSION = "version"
    COUNT = "count"
    OTHER = "kept as it is"


class _KeyFields(NamedTuple):
    key: str
    kind: Kind
    description: str = ""
    role: KeyRole = KeyRole.OTHER
    is_required: bool = False
    is_written: bool = False
    values: tuple[str, ...] = ()
    examples: tuple[object, ...] = ()
    each: Record | Key | None = None
    minimum: int | None = None
    maximum: int | None = None


class Key(_KeyFields):
    """A key of an object, and the shape of its value.

    Attributes:
        key: The key.
        kind: The type of its value.
        description: What it means and who reads it.
        role: Its meaning for the model.
        is_required: Whether it must be present.
        is_written: Whether it is written for a table that was not read from a file.
        values: The texts that are allowed, all if empty.
        examples: Example values.
        each: Record of the object, or of the entries of the list; a key if the entries
            are plain values; None if they are not judged.
        minimum: Smallest number; fewest entries of a list or characters of a text.
        maximum: Largest number; most entries of a list or characters of a text.
    """

    __hash__ = object.__hash__  # examples cannot be hashed, and each key is one object

    def is_within(self, number: int) -> bool:
        """Whether a number, a length or a count is within the limits."""
        return (self.minimum is None or number >= self.minimum) and (
            self.maximum is None or number <= self.maximum
        )

    def number_of(self, value: object) -> int | None:
        """Return the plain number in a value, of as many digits as the limit has."""
        number = plain_number(value)
        is_long = number is None and (self.maximum or 0) > MAX_NUMBER
        if is_long and type(value) is str and re.fullmatch("[1-9][0-9]{9}", value):
            number = int(value)
        return number

    @cached_property
    def fits(self) -> Test:
        """A function of a value: whether the value has no defect of its shape."""
        if self.kind in _SIMPLE:
            return _SIMPLE[self.kind]
        low = self.minimum
        high = sys.maxsize if self.maximum is None else self.maximum
        if self.kind in NUMBERS:
            least = -MAX_NUMBER if low is None else low
            most = MAX_NUMBER if self.maximum is None else self.maximum
            return _number_test(self, least, most)
        if self.kind is Kind.LIST:
            return _list_test(self.each, low or 0, high)
        if isinstance(self.each, Record):
            return self.each.fits
        if self.kind is Kind.HOST:
            return lambda value: (
                type(value) is str and len(value) <= high and bool(value.strip())
            )
        return _text_test(frozenset(self.values), low or 0, high)


_SIMPLE: dict[Kind, Test] = {
    Kind.ADDRESS: lambda value: type(value) is str,
    Kind.ADDRESSES: lambda value: type(value) is str,
    Kind.BOOLEAN: lambda value: type(value) is bool,
    Kind.ANY: lambda value: not isinstance(value, (dict, list)),
}
"""Tests of the kinds that have no limits."""


def _text_test(values: frozenset[str], low: int, high: int) -> Test:
    if values:
        return lambda value: type(value) is str and value in values
    return lambda value: type(value) is str and low <= len(value) <= high


def _number_test(key: Key, low: int, high: int) -> Test:
    if key.kind is Kind.INTEGER:
        return lambda value: type(value) is int and low <= value <= high
    types = (str,) if key.kind is Kind.NUMERAL else (str, int)
    read = plain_number if high <= MAX_NUMBER else key.number_of

    def fits(value: object) -> bool:
        number = read(value) if type(value) in types else None
        return number is not None and low <= number <= high

    return fits


def _list_test(each: Record | Key | None, low: int, high: int) -> Test:
    if each is None:
        return lambda value: type(value) is list and not is_too_deep(value, _DEPTH)
    fits = each.fits
    return lambda value: (
        type(value) is list and low <= len(value) <= high and all(map(fits, value))
    )


class Record:
    """An object of a file.

    Attributes:
        name: Its name in the JSON Schema.
        description: A sentence about it.
        keys: Its keys.
        one_of: Keys of which at least one must be present.
        example: A sound object; by default it has the keys that must be present.
    """

    def __init__(
        self,
        *,
        name: str,
        description: str,
        keys: tuple[Key, ...],
        one_of: tuple[str, ...] = (),
        example: Any = None,
    ) -> None:
        """Declare an object; see the attributes."""
        self.name = name
        self.description = description
        self.keys = keys
        self.one_of = one_of
        self.example = example or {
            one.key: (one.examples or one.values)[0] for one in keys if one.is_required
        }

    @cached_property
    def by_key(self) -> dict[str, Key]:
        """The keys by their names."""
        return {key.key: key for key in self.keys}

    @cached_property
    def required(self) -> frozenset[str]:
        """Keys that must be present."""
        return frozenset(key.key for key in self.keys if key.is_required)

    @cached_property
    def _tests(self) -> dict[str, Test]:
        return {key.key: key.fits for key in self.keys}

    def fits(self, value: object) -> bool:
        """Whether a value has no defect of its shape and no unknown key."""
        if type(value) is not dict or not self.required <= value.keys():
            return False
        tests = self._tests
        for key, item in value.items():
            if key not in tests or not tests[key](item):
                return False
        return not self.one_of or any(key in value for key in self.one_of)

    def other_keys(self, *keys: str) -> tuple[Key, ...]:
        """Return the keys that are not among these."""
        return tuple(key for key in self.keys if key.key not in keys)


NO_RECORD = Record(name="", description="", keys=())
"""The node of a format whose nodes are not objects of their own."""


class _FormatFields(NamedTuple):
    name: str
    title: str
    description: str
    record: Record
    nodes_key: str
    devices_key: str
    node: Record
    device: Record
    example: Any
    matches: Callable[[dict[str, object]], bool]
    rules: tuple[Rule, ...]
    # Reader, Columns and RankTable are Any here: their modules import this one.
    fill: Callable[[Any, Any], None] | None = None
    make: Callable[[Any], dict[str, object]] | None = None
    reader_keys: tuple[str, ...] = ()
    keeps_file_order: bool = False
    is_hccl_1: bool = False
    most_chips: int | None = None
    counts_ranks: bool = False
    has_other_keys: bool = False


class Format(_FormatFields):
    """A file format.

    Attributes:
        name: Name on the command line.
        title: A name for people.
        description: Where it is used, for its JSON Schema.
        record: The whole file.
        nodes_key: Key of the list of nodes.
        devices_key: Key of a node's list of devices.
        node: The record of a node.
        device: The record of a device.
        example: A small sound table, as plain data.
        matches: Whether a document has this format, sound or not.
        rules: The rules for a table of this format.
        fill: Puts nodes and devices of a document into columns; None for a list of
            nodes, each with a list of devices. The table keeps the plain data then.
        make: Returns the plain data of a changed table of a format with ``fill``.
        reader_keys: Keys of the rank, each needed by one reader; a device should have
            all of them.
        keeps_file_order: Whether the index of a device in its node is its local rank.
        is_hccl_1: Whether HCCL's reader of 1.x reads it: an empty text means "no
            address", "3x" is 3, the last of repeated keys is used, without a message,
            and text after the table is ignored.
        most_chips: Chips of the largest node that can use it; None if not known.
        counts_ranks: Whether the count at the top counts ranks, not nodes.
        has_other_keys: Whether operators add keys of their own, so that an unknown key
            is reported only if it may be a missing key, misspelt.
    """

    __hash__ = object.__hash__  # examples cannot be hashed; each format is one object

    @property
    def keeps_document(self) -> bool:
        """Whether a table keeps the plain data of its file."""
        return self.fill is not None

    @cached_property
    def table_fields(self) -> tuple[Key, ...]:
        """The keys at the top, without the list of nodes."""
        return self.record.other_keys(self.nodes_key)

    @cached_property
    def node_fields(self) -> tuple[Key, ...]:
        """The keys of a node, without the list of devices."""
        return self.node.other_keys(self.devices_key)

    @property
    def device_fields(self) -> tuple[Key, ...]:
        """The keys of a device."""
        return self.device.keys

    @cached_property
    def host_key(self) -> str:
        """Key of a node's host; empty if nodes have none."""
        hosts = (field.key for field in self.node_fields if field.role is KeyRole.HOST)
        return next(hosts, "")

    @cached_property
    def count_key(self) -> str | None:
        """Key of the count of nodes, None if there is none."""
        fields = [field for field in self.table_fields if field.role is KeyRole.COUNT]
        return fields[0].key if fields else None

    @cached_property
    def versions(self) -> tuple[str, ...]:
        """Values of ``version``; one empty text if there is no version."""
        fields = [field for field in self.table_fields if field.role is KeyRole.VERSION]
        return fields[0].values if fields else ("",)

    @cached_property
    def rank_keys(self) -> tuple[str, ...]:
        """Keys of a device that give its rank."""
        return self.device_keys_of(KeyRole.RANK)

    @cached_property
    def required_keys(self) -> frozenset[tuple[str, ...]]:
        """Keys that every sound device has: each is a tuple of one key."""
        return frozenset((key,) for key in self.device.required)

    @cached_property
    def address_keys(self) -> tuple[str, ...]:
        """Keys of a device that give its address; the last one is used."""
        return self.device_keys_of(KeyRole.ADDRESS)

    @cached_property
    def other_addresses(self) -> tuple[tuple[Key, bool], ...]:
        """Keys of other addresses, and whether a node has them."""
        return tuple(
            (field, fields is self.node_fields)
            for fields in (self.node_fields, self.device_fields)
            for field in fields
            if field.kind in ADDRESSES and field.role is KeyRole.OTHER
        )

    @cached_property
    def joins_addresses(self) -> bool:
        """Whether one device may have several addresses in one text."""
        return any(field.kind is Kind.ADDRESSES for field in self.device_fields)

    def device_keys_of(self, *roles: KeyRole) -> tuple[str, ...]:
        """Return the keys of a device that have these roles."""
        return tuple(field.key for field in self.device_fields if field.role in roles)


def node_list_format(
    record: Record,
    nodes_key: str,
    devices_key: str,
    *,
    example: Any = None,
    **more: Any,
) -> Format:
    """Return a format whose file is a list of nodes, each with a list of devices."""
    node = record.by_key[nodes_key].each
    assert isinstance(node, Record)
    device = node.by_key[devices_key].each
    assert isinstance(device, Record)
    return Format(
        record=record,
        nodes_key=nodes_key,
        devices_key=devices_key,
        node=node,
        device=device,
        example=example or record.example,
        **more,
    )


def text(
    key: str, description: str, *examples: object, **more: Unpack[KeyOptions]
) -> Key:
    """Return a key of a text, or of another kind except list and object."""
    options: KeyOptions = {"kind": Kind.TEXT, **more}
    return Key(key=key, description=description, examples=examples, **options)


def number(
    key: str, description: str, *examples: object, **more: Unpack[KeyOptions]
) -> Key:
    """Return a key of a number, as a string or as an integer."""
    options: KeyOptions = {"kind": Kind.NUMBER, **more}
    return text(key, description, *(examples or ("0",)), **options)


def numeral(
    key: str, description: str, *examples: object, **more: Unpack[KeyOptions]
) -> Key:
    """Return a key of a string of decimal digits."""
    options: KeyOptions = {**more, "kind": Kind.NUMERAL}
    return number(key, description, *examples, **options)


def integer(key: str, high: int, description: str, **more: Unpack[KeyOptions]) -> Key:
    """Return a key of an integer, by default from 0, to ``high``."""
    options: KeyOptions = {"minimum": 0, "maximum": high, "kind": Kind.INTEGER, **more}
    example = max(options["minimum"] or 0, 1)
    return text(key, description, example, **options)


def address(
    key: str, description: str, *examples: object, **more: Unpack[KeyOptions]
) -> Key:
    """Return a key of an IP address, or of another kind of addresses."""
    options: KeyOptions = {"kind": Kind.ADDRESS, **more}
    return text(key, description, *(examples or ("10.20.0.5",)), **options)


def version(*values: str, description: str = "Version of the format.") -> Key:
    """Return the key of the version of a file, which must be present."""
    role = KeyRole.VERSION
    return text("version", description, role=role, is_required=True, values=values)


def list_of(
    key: str, each: Record | Key, description: str, **more: Unpack[KeyOptions]
) -> Key:
    """Return a key of a list."""
    entry = each.example if isinstance(each, Record) else each.examples[0]
    options: KeyOptions = {"kind": Kind.LIST, **more}
    return text(key, description, [entry], **options)._replace(each=each)


def filled_list(
    key: str, each: Record | Key, description: str, **more: Unpack[KeyOptions]
) -> Key:
    """Return a key of a list with at least one entry, which must be present."""
    options: KeyOptions = {"is_required": True, "minimum": 1, **more}
    return list_of(key, each, description, **options)
