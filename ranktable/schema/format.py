"""A file format: its keys, declared once, how values are spelt, and what is done.

The fields give the typed decoder of the fast path, the reader that explains every
defect, the writer and the JSON Schema. A format of nodes that list devices needs no
more; one of another shape overrides the methods.
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
"""With ``"placement": "free"`` a table says that RANK is taken from it."""

LAYOUT_KEY = "layout"
TOPOLOGY_KEY = "topology"
"""Keys of how the ranks are laid out, and of how the chips of a host are linked."""

SPARES_KEY = "spare_list"
"""The key of nodes that carry no rank; it is this project's own, as ``host`` is."""

STANDS_IN_KEY = "spare_for"
"""The key by which a spare in use says which node it stands in for."""

NUMBER_KEY = "node_number"
"""The key of the number of a node without a host, where others before it have gone."""

SUPER_POD_KEY = "super_pod_id"
"""The key by which a node says in which super pod it is, as Ascend's tables have it."""


class NotExpressibleError(ValueError):
    """A table that a format cannot hold."""


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
        kind: What its value may be.
        role: What it means.
        is_required: Whether it has to be there.
        is_written: Whether it is written for a table that was not read from a file.
        values: The texts that it may be, all if empty.
        title: What it is, for people.
        description: What it means and who reads it.
        examples: Values.
        items: The keys of each object of a list, none if they are not looked at.
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
        title: What it is, for people.
        description: Where it is used, for its JSON Schema.
        nodes: The key of the list of nodes; its kind is ``Kind.LIST``.
        devices: The key of a node's list of devices.
        table_fields: Other keys at the top.
        node_fields: Other keys of a node.
        device_fields: Keys of a device.
        matches: Whether a document is of this format, sound or not.
        rules: What a sound table keeps to.
        reader_keys: Keys of the rank that a reader needs each; a device should have
            all of them.
        keeps_file_order: Whether the place of a device in its node is its local rank.
        has_blank_addresses: Whether an empty string means "no address".
        most_chips: Chips of the largest node that reads it; None if nobody says.
        has_global_ranks: Whether the ranks are those of one job, 0 to world_size - 1.
        has_written_ranks: Whether a file names its ranks; if not, they are counted.
        keeps_document: Whether a table keeps the plain data of its file.
        counts_ranks: Whether the count at the top is that of ranks, not of nodes.
        has_other_keys: Whether operators add keys of their own, so that an unknown key
            is reported only where it stands for one that is missing.
        reads_leading_digits: Whether the vendor takes "3x" for 3.
        keeps_last_key: Whether the vendor takes the last of repeated keys, and ignores
            text after the table, silently.
        node_title: What a node is, for people.
        node_description: The same in a sentence.
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
        """Return the columns of a document, fast; few formats find a defect here.

        Args:
            data: Bytes of a file.
            quota: How many findings are worth building; spent if columns are returned.

        Returns:
            None where ``read`` has to look closer.
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
        """Every key, those of objects in lists at the top included."""
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
        """Key of a node's host."""
        return next(field.key for field in self.node_fields if field.role is Role.HOST)

    @cached_property
    def count_key(self) -> str | None:
        """Key that repeats the number of nodes, None if there is none."""
        fields = [field for field in self.table_fields if field.role is Role.COUNT]
        return fields[0].key if fields else None

    @cached_property
    def fast_rules(self) -> tuple[Rule, ...]:
        """The rules that every process of a job runs."""
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
        """Keys that every sound device has, each by itself."""
        return frozenset((f.key,) for f in self.device_fields if f.is_required)

    @cached_property
    def address_keys(self) -> tuple[str, ...]:
        """Keys of a device that give its address; the last one wins."""
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
        """Whether a device without an address is written with an empty one."""
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
    """Stands in the data for a number that JSON lacks or nothing can hold."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        """Keep the text."""
        self.text = text


def plain_number(value: object) -> int | None:
    """Return the integer that every reader sees in a value, None if they differ.

    Every reader takes a JSON integer and a string of plain ASCII decimal digits
    without sign, blanks or leading zeros; a minus sign is read (and refused later, by
    a rule that can say more). True is not a number, although Python thinks so.
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
        first: Where they may well count up from; that is tried before anything.
    """
    if first is not None:
        # Joined texts are compared, which is faster than len(values) conversions. No
        # text with a comma can pass: there would be more texts than numbers.
        numbers = list(range(first, first + len(values)))
        if values == numbers:
            return numbers
        with contextlib.suppress(TypeError):  # an integer among them
            if ",".join(values).encode() == msgspec.json.encode(numbers)[1:-1]:
                return numbers
    try:
        return list(map(_EITHER.__getitem__, values))
    except KeyError:
        found = list(map(plain_number, values))
    return None if None in found else found  # type: ignore[return-value]


def leading_digits(text: str) -> int | None:
    """Return the number that C++'s ``stoull`` takes from a text, None if it takes none.

    A number in base 16 is not one: only its 0 would be taken.

    >>> leading_digits("3x"), leading_digits(" 3"), leading_digits("0x3")
    (3, 3, None)
    """
    match = _LEADING.match(text)
    return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class OddNumber:
    """What is wrong with a value that should be a number.

    Attributes:
        reason: Ends the sentence "device_id is ...".
        reading: The number that every reader which accepts it sees, if they agree.
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


# A generator makes one mistake thousands of times. Typed, because 1 == 1.0 == True.
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
"""Spellings of one number each: how, what to call it, and the number if it is sure."""


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
    """Whether a text is an address that a device of Ascend can have.

    HCCL takes 0.0.0.0 as no address at all.
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
    """Return the addresses of texts that have commas between several.

    >>> each_address(["10.0.0.1,10.0.1.1", "10.0.0.2"])
    ['10.0.0.1', '10.0.1.1', '10.0.0.2']
    """
    return ",".join(texts).split(",") if texts else []


def ipv4_numbers(texts: list[str]) -> set[int] | None:
    """Return a number for each numeric IPv4 address, None if one is not such."""
    numbers: set[int] = set()
    try:
        for start in range(0, len(texts), _PIECE):  # what stays in the cache
            piece = texts[start : start + _PIECE]
            data = " ".join(piece).encode()
            if data.translate(None, b"0123456789") != (b"... " * len(piece))[:-1]:
                return None
            # JSON has no leading zeros either, and one call decodes all octets.
            octets = bytes(_INTEGERS.decode(b"[%b]" % data.translate(_TO_COMMAS)))
            # The last octet is the lowest: neighbours are neighbours in the set.
            numbers.update(struct.unpack(f">{len(piece)}I", octets))
    except (msgspec.DecodeError, TypeError, ValueError):
        return None  # no text, no digits, or an octet above 255
    return numbers
