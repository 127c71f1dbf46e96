"""A file format: its keys, the values they allow, and the methods to read and write it.

The typed decoder of the fast path, the reader that explains every defect, the writer
and the JSON Schema are all made from the fields. A format of nodes that list devices
needs only fields; other formats override the methods.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from ranktable._error import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ranktable.schema.columns import Columns
    from ranktable.schema.document import Document
    from ranktable.schema.finding import Findings, Rule
    from ranktable.schema.model import Device, Layout, Node, Parts, RankTable

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
    example: Any
    reader_keys: tuple[str, ...] = ()
    keeps_file_order: bool = True
    has_blank_addresses: bool = False
    most_chips: int | None = None
    has_global_ranks: bool = True
    keeps_document: bool = False
    counts_ranks: bool = False
    has_other_keys: bool = False
    reads_leading_digits: bool = False
    keeps_last_key: bool = False
    node_title: str = "Node"
    node_description: str = "One host and its devices."
    device_description: str = "One chip and the process that runs on it."

    def read(self, document: Document, found: Findings) -> Columns:
        """Return the columns of a document, and add the defects of its shape."""
        from ranktable.schema.document_reader import DocumentReader

        return DocumentReader(self, document, found).read()

    def decode(
        self,
        data: bytes,
        found: Findings | None = None,
    ) -> Columns | None:
        """Return the columns of a document by the fast path, None if it cannot.

        Args:
            data: Bytes of a file.
            found: Where defects are added, if some can be explained.

        Returns:
            None if ``read`` must look at the document.
        """
        from ranktable.schema.fast_decode import decode_columns

        return decode_columns(data, self)

    def build(self, columns: Columns) -> Parts:
        """Return the parts of a table, from a document that is sound."""
        from ranktable.schema.model import build_parts

        return build_parts(columns)

    def write(self, table: RankTable) -> dict[str, object]:
        """Return a table as the plain data of a file."""
        return _to_document(table, self)

    def json_schema(self) -> dict[str, object]:
        """Return the JSON Schema of the shape."""
        from ranktable.schema.json_schema import node_list_schema

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
_SMALL = {str(number): number for number in range(4096)}
_EITHER: dict[object, int] = {number: number for number in range(4096)}
_EITHER.update(_SMALL)


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


def _to_document(table: RankTable, format_: Format) -> dict[str, object]:
    """Return a table as the plain data of a file in a format."""
    is_own = table.format == format_.name
    if not is_own:
        table = _without_own_keys(table, format_)
    nodes = [_node(node, format_, is_own=is_own) for node in table.nodes]
    version = table.version if is_own else format_.versions[0]
    values: dict[str, object] = {"version": version}
    for field in format_.table_fields:
        if field.role is Role.COUNT:
            spell = str if field.kind is Kind.NUMERAL else int
            values[field.key] = spell(len(nodes))
        elif field.is_required and field.examples and field.key not in table.extra:
            values[field.key] = field.examples[0]
    values[format_.nodes_key] = nodes
    extra = {"version": version, **table.extra}
    top = _spelt(values, extra, table.layout if is_own else None)
    # Finding the end of the nodes takes long in a large file.
    known = {key for key, _ in table.layout or ()}
    own = (LAYOUT_KEY, TOPOLOGY_KEY, SPARES_KEY)
    late = [key for key in own if key in top.keys() - known]
    order = [key for key in top if key not in late]
    at = order.index(format_.nodes_key)
    return {key: top[key] for key in (*order[:at], *late, *order[at:])}


def _without_own_keys(table: RankTable, target: Format) -> RankTable:
    """Return a table without the keys that only its own format defines."""
    from ranktable.schema.formats import by_name

    source = by_name(table.format)

    def kept(
        extra: Mapping[str, object], old: Sequence[Field], new: Sequence[Field]
    ) -> dict[str, object]:
        own = {field.key for field in old} - {field.key for field in new}
        return {key: value for key, value in extra.items() if key not in own}

    def of_device(device: Device) -> Device:
        extra = kept(device.extra, source.device_fields, target.device_fields)
        return structs.replace(device, extra=extra)

    nodes = [
        structs.replace(
            node,
            extra=kept(node.extra, source.node_fields, target.node_fields),
            devices=tuple(
                of_device(device) if device.extra else device for device in node.devices
            ),
        )
        for node in table.nodes
    ]
    extra = kept(table.extra, source.table_fields, target.table_fields)
    return table.with_changes(nodes=nodes, extra=extra)


def _node(node: Node, format_: Format, *, is_own: bool) -> dict[str, object]:
    values: dict[str, object] = {}
    if node.host is not None:
        values[format_.host_key] = node.host
    values[format_.devices_key] = _devices(node, format_, is_own=is_own)
    return _spelt(values, node.extra, node.layout if is_own else None)


def _devices(node: Node, format_: Format, *, is_own: bool) -> list[dict[str, object]]:
    """Return the devices of a node, in the form of their layout or of the format."""
    found = []
    last: object = None
    for local_rank, device in enumerate(node.devices):
        form = (device.layout if is_own else None, device.is_emulated)
        if form != last:  # mostly all have the same form
            last, (keys, has_blank) = form, _spelling(format_, *form)
        numbers = (device.device_id, local_rank, device.rank)
        address, extra = device.address, device.extra
        members: dict[str, object] = {}
        for key, place, is_text in keys:
            if place < _ADDRESS:
                members[key] = str(numbers[place]) if is_text else numbers[place]
            elif place == _OTHER:
                if key in extra:
                    members[key] = extra[key]
            elif address is not None or has_blank:
                members[key] = address or ""
        if extra and not extra.keys() <= members.keys():
            # known keys come first and are not replaced
            members = {**members, **extra, **members}
        found.append(members)
    return found


_NUMBERS = (Role.DEVICE_ID, Role.LOCAL_RANK, Role.RANK)
_ADDRESS = len(_NUMBERS)
_OTHER = _ADDRESS + 1
"""The value of a key: a number by its index in ``_NUMBERS``, or one of these."""


@lru_cache(maxsize=256)
def _spelling(
    format_: Format,
    layout: Layout | None,
    is_emulated: bool,
) -> tuple[tuple[tuple[str, int, bool], ...], bool]:
    """Return the form in which devices of this layout are written.

    Returns:
        The known keys in order, each with its kind of value and whether that is quoted;
        and whether a missing address is written as an empty text.
    """
    numbers = {
        field.key: field for field in format_.device_fields if field.role in _NUMBERS
    }
    address_keys = format_.address_keys or ("device_ip",)
    address_key = address_keys[-1] if is_emulated else address_keys[0]
    types = dict(layout or _new_layout(format_, address_key))
    keys = []
    for name, type_ in types.items():
        key = address_key if name == "address" else name  # of a device with either key
        place = _ADDRESS if key == address_key else _OTHER
        if key in numbers:
            place = _NUMBERS.index(numbers[key].role)
        keys.append((key, place, type_ is not int))
    if layout:
        return tuple(keys), format_.has_blank_addresses
    return tuple(keys), format_.writes_blank_addresses


def _new_layout(format_: Format, address_key: str) -> Layout:
    """Return the form of a new device: the address follows the chip."""
    found: list[tuple[str, type]] = []
    for field in format_.device_fields:
        if field.role in _NUMBERS and (field.is_written or field.is_required):
            found.append((field.key, int if field.kind is Kind.INTEGER else str))
        if field.role is Role.DEVICE_ID:
            found.append((address_key, str))
    return tuple(found)


def _spelt(
    values: dict[str, object], extra: Mapping[str, object], layout: Layout | None
) -> dict[str, object]:
    """Return values and unknown keys in the order of a layout, new ones last."""
    everything = {**extra, **values}
    order = [key for key, _ in layout or () if key in everything]
    return {key: everything[key] for key in (*order, *everything)}
