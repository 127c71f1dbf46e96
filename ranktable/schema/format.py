"""A file format: its keys, how their values are written, and the methods to read it.

The typed decoder of the fast path, the reader that explains every defect, the writer
and the JSON Schema are all made from the fields. A format of nodes that list devices
needs only fields; other formats override the methods.
"""

from __future__ import annotations

import contextlib
import re
import struct
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import msgspec

from ranktable.schema.diagnostic import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from ranktable.schema.columns import Columns
    from ranktable.schema.diagnostic import Finding, Quota, Rule
    from ranktable.schema.document import Document
    from ranktable.schema.model import Parts, RankTable

PLACEMENT_KEY = "placement"
FREE = "free"
"""With ``"placement": "free"`` a table says that RANK comes from the table."""

LAYOUT_KEY = "layout"
TOPOLOGY_KEY = "topology"
"""Keys of the layout of the ranks, and of the links between the chips of a host."""

SPARES_KEY = "spare_list"
"""The key of the spare nodes, which have no ranks; an addition of ranktable."""

STANDS_IN_KEY = "spare_for"
"""The key with which a spare in use names the node that it replaces."""

NUMBER_KEY = "node_number"
"""The key of the old number of a node without a host, after others were removed."""

SUPER_POD_KEY = "super_pod_id"
"""The key with which a node names its super pod, as in Ascend's tables."""


class NotExpressibleError(ValueError):
    """A format cannot express the content of a table."""


class Kind(Enum):
    """The type of a value in a file."""

    NUMBER = "a plain decimal integer, as a string or as an integer"
    NUMERAL = "a string of decimal digits"
    INTEGER = "an integer"
    TEXT = "a string"
    HOST = "a string that is not blank"
    ADDRESS = "an IP address"
    ADDRESSES = "IP addresses, with commas between them"
    LIST = "a list"
    OBJECT = "an object"
    BOOLEAN = "true or false"
    ANY = "anything"


class Role(Enum):
    """The meaning of a value for the model."""

    RANK = "rank"
    DEVICE_ID = "device_id"
    LOCAL_RANK = "local_rank"
    ADDRESS = "address"
    HOST = "host"
    VERSION = "version"
    COUNT = "count"
    OTHER = "kept as it is"


@dataclass(frozen=True, kw_only=True, eq=False)
class Field:
    """One key of a table, a node or a device.

    Attributes:
        key: The key.
        kind: The type of its value.
        role: Its meaning for the model.
        is_required: Whether it must be present.
        is_written: Whether it is written for a table that was not read from a file.
        values: The texts that are allowed, all if empty.
        title: A name for people.
        description: What it means and who reads it.
        examples: Example values.
        items: The keys of each object of a list; empty if they are not judged.
    """

    key: str
    kind: Kind
    role: Role = Role.OTHER
    is_required: bool = False
    is_written: bool = False
    values: tuple[str, ...] = ()
    title: str = ""
    description: str = ""
    examples: tuple[object, ...] = ()
    items: tuple[Field, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Format:
    """A format of nodes that list devices.

    Attributes:
        name: Name on the command line.
        title: A name for people.
        description: Where it is used, for its JSON Schema.
        nodes: The field of the list of nodes; its kind is ``Kind.LIST``.
        devices: The key of a node's list of devices.
        table_fields: Other keys at the top.
        node_fields: Other keys of a node.
        device_fields: Keys of a device.
        matches: Whether a document has this format, sound or not.
        rules: The rules for a table of this format.
        reader_keys: Keys of the rank, each needed by one reader; a device should have
            all of them.
        keeps_file_order: Whether the index of a device in its node is its local rank.
        has_blank_addresses: Whether an empty string means "no address".
        most_chips: Chips of the largest node that can use it; None if not known.
        has_global_ranks: Whether the ranks are those of one job, 0 to world_size - 1.
        has_written_ranks: Whether the file has ranks; if not, readers count them.
        keeps_document: Whether a table keeps the plain data of its file.
        counts_ranks: Whether the count at the top counts ranks, not nodes.
        has_other_keys: Whether operators add keys of their own, so that an unknown key
            is reported only if it may be a missing key, misspelt.
        reads_leading_digits: Whether the vendor reads "3x" as 3.
        keeps_last_key: Whether the vendor silently uses the last of repeated keys, and
                ignores text after the table.
        node_title: A name for a node, for people.
        node_description: A sentence about it.
        device_description: What a device is.
        example: A small sound table, as plain data.
    """

    name: str
    title: str
    description: str
    nodes: Field
    devices: Field
    table_fields: tuple[Field, ...]
    node_fields: tuple[Field, ...]
    device_fields: tuple[Field, ...]
    matches: Callable[[dict[str, object]], bool]
    rules: tuple[Rule, ...]
    example: dict[str, Any]
    reader_keys: tuple[str, ...] = ()
    keeps_file_order: bool = True
    has_blank_addresses: bool = False
    most_chips: int | None = None
    has_global_ranks: bool = True
    has_written_ranks: bool = True
    keeps_document: bool = False
    counts_ranks: bool = False
    has_other_keys: bool = False
    reads_leading_digits: bool = False
    keeps_last_key: bool = False
    node_title: str = "Node"
    node_description: str = "One host and its devices."
    device_description: str = "One chip and the process that runs on it."

    def read(self, document: Document, quota: Quota) -> tuple[Columns, list[Finding]]:
        """Return the columns of a document and the defects of its shape."""
        from ranktable.schema.document_reader import DocumentReader  # noqa: PLC0415

        return DocumentReader(self, document, quota).read()

    def decode(
        self,
        data: bytes,
        quota: Quota | None = None,  # noqa: ARG002 - for formats that find defects
    ) -> Columns | None:
        """Return the columns of a document by the fast path, None if it cannot.

        Args:
            data: Bytes of a file.
            quota: How many findings of each code are built, if there are any.

        Returns:
            None if ``read`` must look at the document.
        """
        from ranktable.schema.fast_decode import decode_columns  # noqa: PLC0415

        return decode_columns(data, self)

    def build(self, columns: Columns) -> Parts:
        """Return the parts of a table, from a document that is sound."""
        from ranktable.schema.build import build_parts  # noqa: PLC0415 - not for chips

        return build_parts(columns)

    def write(self, table: RankTable) -> dict[str, object]:
        """Return a table as the plain data of a file."""
        from ranktable.schema.writing import to_document  # noqa: PLC0415

        return to_document(table, self)

    def json_schema(self) -> dict[str, object]:
        """Return the JSON Schema of the shape."""
        from ranktable.schema.json_schema import node_list_schema  # noqa: PLC0415

        return node_list_schema(self)

    @property
    def nodes_key(self) -> str:
        """Key of the list of nodes."""
        return self.nodes.key

    @property
    def devices_key(self) -> str:
        """Key of a node's list of devices."""
        return self.devices.key

    @cached_property
    def all_fields(self) -> tuple[Field, ...]:
        """Every key, with those of objects in lists at the top."""
        return (
            *self.table_fields,
            *(item for field in self.table_fields for item in field.items),
            self.nodes,
            *self.node_fields,
            self.devices,
            *self.device_fields,
        )

    @cached_property
    def host_key(self) -> str:
        """Key of a node's host; empty if nodes have none."""
        hosts = (field.key for field in self.node_fields if field.role is Role.HOST)
        return next(hosts, "")

    @cached_property
    def count_key(self) -> str | None:
        """Key of the count of nodes, None if there is none."""
        fields = [field for field in self.table_fields if field.role is Role.COUNT]
        return fields[0].key if fields else None

    @cached_property
    def fast_rules(self) -> tuple[Rule, ...]:
        """The rules that every process of a job checks."""
        return tuple(rule for rule in self.rules if rule.is_fast)

    @cached_property
    def versions(self) -> tuple[str, ...]:
        """Values of ``version``."""
        return next(f.values for f in self.table_fields if f.role is Role.VERSION)

    @cached_property
    def rank_keys(self) -> tuple[str, ...]:
        """Keys of a device that give its rank."""
        return self.device_keys_of(Role.RANK)

    @cached_property
    def required_keys(self) -> frozenset[tuple[str, ...]]:
        """Keys that every sound device has: each is a tuple of one key."""
        return frozenset((f.key,) for f in self.device_fields if f.is_required)

    @cached_property
    def address_keys(self) -> tuple[str, ...]:
        """Keys of a device that give its address; the last one is used."""
        return self.device_keys_of(Role.ADDRESS)

    @cached_property
    def other_addresses(self) -> tuple[tuple[Field, bool], ...]:
        """Keys of other addresses, and whether a node has them."""
        found = [
            (field, fields is self.node_fields)
            for fields in (self.node_fields, self.device_fields)
            for field in fields
            if field.kind in (Kind.ADDRESS, Kind.ADDRESSES) and field.role is Role.OTHER
        ]
        return tuple(found)

    @cached_property
    def writes_blank_addresses(self) -> bool:
        """Whether a device without an address is written with an empty text."""
        fields = [field for field in self.device_fields if field.role is Role.ADDRESS]
        return any(field.is_written for field in fields)

    @cached_property
    def joins_addresses(self) -> bool:
        """Whether one device may have several addresses in one text."""
        return any(field.kind is Kind.ADDRESSES for field in self.device_fields)

    def device_keys_of(self, *roles: Role) -> tuple[str, ...]:
        """Return the keys of a device that have these roles."""
        return tuple(field.key for field in self.device_fields if field.role in roles)


MAX_NUMBER = 999_999_999
"""Largest rank, chip or count: nine digits, below the 32-bit int of SCCL's reader."""

_PLAIN = re.compile(r"0|-?[1-9][0-9]{0,8}")
_LEADING = re.compile(r"[ \t\n\v\f\r]*\+?(?!0[xX])0*([0-9]{1,9})(?![0-9])")
_SMALL = {str(number): number for number in range(4096)}
_EITHER: dict[object, int] = {number: number for number in range(4096)}
_EITHER.update(_SMALL)


class BadNumber:
    """Placeholder for a number that JSON does not allow or that is too long."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        """Store the text."""
        self.text = text


def plain_number(value: object) -> int | None:
    """Return the integer that all readers see in a value, None if they differ.

    All readers accept a JSON integer, and a string of plain ASCII decimal digits
    without sign, blanks or leading zeros. A minus sign is read too; a rule explains it
    later. True is not a number, although it is an int in Python.
    """
    if type(value) is str:
        number = _SMALL.get(value)
        if number is None and _PLAIN.fullmatch(value):
            number = int(value)
        return number
    if type(value) is int and -MAX_NUMBER <= value <= MAX_NUMBER:
        return value
    return None


def plain_numbers(values: list[Any], first: int | None = None) -> list[int] | None:
    """Return ``plain_number`` of every value, None if one of them is not plain.

    Args:
        values: Strings and integers.
        first: The number from which the values probably count up; this is tried first.
    """
    if first is not None:
        # Comparing joined texts is faster than len(values) conversions. A text with a
        # comma cannot pass, because then there would be more texts than numbers.
        numbers = list(range(first, first + len(values)))
        if values == numbers:
            return numbers
        with contextlib.suppress(TypeError):  # there is an integer in the list
            if ",".join(values).encode() == msgspec.json.encode(numbers)[1:-1]:
                return numbers
    try:
        return list(map(_EITHER.__getitem__, values))
    except KeyError:
        found = list(map(plain_number, values))
    return None if None in found else found  # type: ignore[return-value]


def leading_digits(text: str) -> int | None:
    """Return the number that C++'s ``stoull`` reads from a text, None if none.

    A hexadecimal number is not one: only its leading 0 would be read.

    >>> leading_digits("3x"), leading_digits(" 3"), leading_digits("0x3")
    (3, 3, None)
    """
    match = _LEADING.match(text)
    return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class OddNumber:
    """Why a value is not a plain number.

    Attributes:
        reason: The end of the sentence "device_id is ...".
        reading: The number that all readers see that accept it, None if they differ.
        is_number: False for null, true, lists and objects.
    """

    reason: str
    reading: int | None = None
    is_number: bool = True


def odd_number(value: object) -> OddNumber:
    """Explain a value for which ``plain_number`` is None."""
    if isinstance(value, (dict, list)):
        return OddNumber(f"{quoted(value)}, not a number", is_number=False)
    return _odd_scalar(value)


# One mistake may occur in thousands of values. Typed, because 1 == 1.0 == True.
@lru_cache(maxsize=256, typed=True)
def _odd_scalar(value: object) -> OddNumber:
    if isinstance(value, str):
        return _odd_string(value)
    if isinstance(value, float):
        if value.is_integer() and abs(value) <= MAX_NUMBER:
            return OddNumber(f"{value}, not a plain integer", int(value))
        return OddNumber(f"{value}, which is not an integer")
    if isinstance(value, BadNumber) or type(value) is int:
        return OddNumber(f"a number beyond {MAX_NUMBER}")
    return OddNumber(f"{quoted(value)}, not a number", is_number=False)


_SPELLINGS = (
    (re.compile(r"(-?)0+([0-9]{1,9})"), "with a leading zero", r"\1\2"),
    (re.compile(r"[0-9]{10,}"), f"a number beyond {MAX_NUMBER}", None),
    (re.compile(r"\+([0-9]{1,9})"), "with a sign", r"\1"),
    (re.compile(r"([0-9]{1,9})\.0*"), "with a fraction", r"\1"),
)
"""Other ways to write a number: pattern, name, and the plain form if it is certain."""


def _odd_string(text: str) -> OddNumber:
    shown = quoted(text)
    if not text.strip():
        return OddNumber(f"{shown}, an empty string")
    if plain_number(text.strip()) is not None:
        return OddNumber(f"{shown}, with blanks around", plain_number(text.strip()))
    for pattern, name, number in _SPELLINGS:
        if match := pattern.fullmatch(text):
            reading = None if number is None else int(match.expand(number))
            return OddNumber(f"{shown}, {name}", reading)
    if text.isdecimal() and not text.isascii():
        reading = int(text) if len(text) <= len(str(MAX_NUMBER)) else None
        return OddNumber(f"{shown}, in digits that are not ASCII", reading)
    return OddNumber(f"{shown}, not a decimal number")


_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
UNSET_ADDRESS = "0.0.0.0"  # noqa: S104 - is compared

_MANY = 1_000
_PIECE = 2048
_INTEGERS = msgspec.json.Decoder(list[int])
_TO_COMMAS = bytes.maketrans(b". ", b",,")
_IPV4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")


def is_address(text: str) -> bool:
    """Whether a text is a numeric IPv4 or IPv6 address."""
    return is_ipv4(text) or is_ipv6(text)


def is_device_address(text: str) -> bool:
    """Whether a text is an address that an Ascend device can have.

    HCCL reads 0.0.0.0 as "no address".
    """
    return is_address(text) and text != UNSET_ADDRESS


def is_ipv4(text: str) -> bool:
    """Whether a text is a numeric IPv4 address."""
    return _IPV4.fullmatch(text) is not None


def is_ipv6(text: str) -> bool:
    """Whether a text is a numeric IPv6 address."""
    if ":" not in text:
        return False
    import ipaddress  # noqa: PLC0415 - 5 ms, for the few tables that have IPv6

    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def are_addresses(texts: Collection[str]) -> bool:
    """Whether all texts are numeric IP addresses."""
    if len(texts) > _MANY and ipv4_numbers(list(texts)) is not None:
        return True
    return all(map(is_address, set(texts)))


def each_address(texts: Collection[str]) -> list[str]:
    """Return the addresses in texts; a text may have several, separated by commas.

    >>> each_address(["10.0.0.1,10.0.1.1", "10.0.0.2"])
    ['10.0.0.1', '10.0.1.1', '10.0.0.2']
    """
    return ",".join(texts).split(",") if texts else []


def ipv4_numbers(texts: list[str]) -> set[int] | None:
    """Return each numeric IPv4 address as a number, None if one is not IPv4."""
    numbers: set[int] = set()
    try:
        for start in range(0, len(texts), _PIECE):  # pieces that fit into the cache
            piece = texts[start : start + _PIECE]
            data = " ".join(piece).encode()
            if data.translate(None, b"0123456789") != (b"... " * len(piece))[:-1]:
                return None
            # JSON does not allow leading zeros either, and one call decodes all octets.
            octets = bytes(_INTEGERS.decode(b"[%b]" % data.translate(_TO_COMMAS)))
            # The last octet is the lowest byte, so similar addresses are close in the
            # set.
            numbers.update(struct.unpack(f">{len(piece)}I", octets))
    except (msgspec.DecodeError, TypeError, ValueError):
        return None  # not text, not digits, or an octet above 255
    return numbers
