"""Formats of any shape, declared by the keys of their objects.

A table of nodes that list devices is a ``Format``. Other files are trees of objects.
The reader that explains every defect, and the JSON Schema, are made from their records.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from ranktable.schema.addresses import is_address, is_device_address
from ranktable.schema.format import (
    MAX_NUMBER,
    Field,
    Format,
    Kind,
    NotExpressibleError,
    Role,
    plain_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ranktable.schema.columns import Columns
    from ranktable.schema.document import Document
    from ranktable.schema.finding import Findings
    from ranktable.schema.model import Device, Parts, RankTable
    from ranktable.schema.record_reader import RecordReader

_NOTHING = Field(key="", kind=Kind.LIST)


def _never(_: object) -> bool:
    return False


_EID = re.compile("[0-9a-fA-F]{32}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Member(Field):
    """A key of an object, and the shape of its value.

    Attributes:
        each: Record of the object, or of the entries of the list; a member if the
            entries are plain values.
        minimum: Smallest number; fewest entries of a list or characters of a text.
        maximum: Largest number; most entries of a list or characters of a text.
        has_blanks: Whether an address may be an empty string.
    """

    each: Record | Member | None = None
    minimum: int | None = None
    maximum: int | None = None
    has_blanks: bool = False

    def is_within(self, number: int) -> bool:
        """Whether a number, a length or a count is within the limits."""
        return (self.minimum is None or number >= self.minimum) and (
            self.maximum is None or number <= self.maximum
        )

    @cached_property
    def fits(self) -> Callable[[object], bool]:
        """A function of a value: whether the value has no defect of its shape."""
        return _TESTS[self.kind](self)


@dataclass(frozen=True, kw_only=True, eq=False)
class Record:
    """An object of a file.

    Attributes:
        name: Its name in the JSON Schema.
        title: A name for people.
        description: A sentence about it.
        members: Its keys.
        one_of: Keys of which at least one must be present.
        example: A sound object; by default it has the keys that must be present.
    """

    name: str
    title: str
    description: str
    members: tuple[Member, ...]
    one_of: tuple[str, ...] = ()
    example: Any = None

    def __post_init__(self) -> None:
        """Make the example."""
        if self.example is None:
            needed = [member for member in self.members if member.is_required]
            example = {one.key: (one.examples or one.values)[0] for one in needed}
            object.__setattr__(self, "example", example)

    @cached_property
    def by_key(self) -> dict[str, Member]:
        """The members by their keys."""
        return {member.key: member for member in self.members}

    @cached_property
    def required(self) -> frozenset[str]:
        """Keys that must be present."""
        return frozenset(member.key for member in self.members if member.is_required)

    @cached_property
    def _tests(self) -> dict[str, Callable[[object], bool]]:
        return {member.key: member.fits for member in self.members}

    def fits(self, value: object) -> bool:
        """Whether a value has no defect of its shape and no unknown key."""
        if type(value) is not dict or not self.required <= value.keys():
            return False
        tests = self._tests
        for key, item in value.items():
            if key not in tests or not tests[key](item):
                return False
        return not self.one_of or any(key in value for key in self.one_of)


def integer(
    key: str,
    high: int,
    title: str,
    description: str,
    **more: Any,
) -> Member:
    """Return a member that is an integer, by default from 0, to ``high``."""
    low = more.pop("minimum", 0)
    return Member(
        key=key,
        kind=Kind.INTEGER,
        minimum=low,
        maximum=high,
        title=title,
        description=description,
        examples=(max(low or 0, 1),),
        **more,
    )


def text(
    key: str,
    title: str,
    description: str,
    *examples: object,
    **more: Any,
) -> Member:
    """Return a member that is a text, or of another kind except list and object."""
    return Member(
        key=key,
        kind=more.pop("kind", Kind.TEXT),
        title=title,
        description=description,
        examples=examples,
        **more,
    )


def number(
    key: str,
    title: str,
    description: str,
    example: object = "0",
    **more: Any,
) -> Member:
    """Return a member that is a number, as a string or as an integer."""
    return text(key, title, description, example, kind=Kind.NUMBER, **more)


def numeral(
    key: str,
    title: str,
    description: str,
    example: str = "0",
    **more: Any,
) -> Member:
    """Return a member that is a string of decimal digits."""
    return text(key, title, description, example, kind=Kind.NUMERAL, **more)


def address(
    key: str,
    title: str,
    description: str,
    example: str = "10.20.0.5",
    **more: Any,
) -> Member:
    """Return a member that is an IP address, or of another kind of addresses."""
    kind = more.pop("kind", Kind.ADDRESS)
    return text(key, title, description, example, kind=kind, **more)


def version(*values: str, description: str = "Version of the format.") -> Member:
    """Return the member with the version of a file, which must be present."""
    return text(
        "version",
        "Version",
        description,
        role=Role.VERSION,
        is_required=True,
        values=values,
    )


def list_of(
    key: str,
    each: Record | Member,
    title: str,
    description: str,
    **more: Any,
) -> Member:
    """Return a member that is a list."""
    example = each.example if isinstance(each, Record) else each.examples[0]
    return Member(
        key=key,
        kind=Kind.LIST,
        each=each,
        title=title,
        description=description,
        examples=([example],),
        **more,
    )


def filled_list(
    key: str,
    each: Record | Member,
    title: str,
    description: str,
    **more: Any,
) -> Member:
    """Return a member that is a list with at least one entry."""
    needed = {"is_required": True, "minimum": 1}
    return list_of(key, each, title, description, **needed, **more)


def written_device(fields: Iterable[Field], device: Device) -> dict[str, object]:
    """Return a device as the plain data of a file: what the fields have, and its keys.

    A device without an address has no key for it.
    """
    values = {
        Role.RANK: device.rank,
        Role.DEVICE_ID: device.device_id,
        Role.ADDRESS: device.address or None,
    }
    found: dict[str, object] = {}
    for field in fields:
        value = values.get(field.role)
        if value is not None:
            found[field.key] = value if field.kind is Kind.INTEGER else str(value)
    return {**found, **device.extra}


def is_eid(text: str) -> bool:
    """Whether a text is an endpoint id of the unified bus: 32 hexadecimal digits."""
    return _EID.fullmatch(text) is not None


def are_addresses_of(member: Member, text: str) -> bool:
    """Whether a text is a valid value of kind ``ADDRESS`` or ``ADDRESSES``."""
    if not text:
        return member.has_blanks
    if member.kind is Kind.ADDRESSES:
        return all(map(is_device_address, text.split(",")))
    return is_address(text)


def _limits(member: Member, least: int, most: int) -> tuple[int, int]:
    low, high = member.minimum, member.maximum
    return least if low is None else low, most if high is None else high


def _number_test(member: Member) -> Callable[[object], bool]:
    low, high = _limits(member, -MAX_NUMBER, MAX_NUMBER)
    if member.kind is Kind.INTEGER:
        return lambda value: type(value) is int and low <= value <= high
    types = (str,) if member.kind is Kind.NUMERAL else (str, int)

    def fits(value: object) -> bool:
        number = plain_number(value) if type(value) in types else None
        return number is not None and low <= number <= high

    return fits


def _text_test(member: Member) -> Callable[[object], bool]:
    if member.values:
        values = frozenset(member.values)
        return lambda value: type(value) is str and value in values
    low, high = _limits(member, 0, sys.maxsize)
    return lambda value: type(value) is str and low <= len(value) <= high


def _address_test(member: Member) -> Callable[[object], bool]:
    return lambda value: type(value) is str and are_addresses_of(member, value)


def _list_test(member: Member) -> Callable[[object], bool]:
    low, high = _limits(member, 0, sys.maxsize)
    if member.each is None:
        return lambda value: type(value) is list and low <= len(value) <= high
    fits = member.each.fits
    return lambda value: (
        type(value) is list and low <= len(value) <= high and all(map(fits, value))
    )


def _object_test(member: Member) -> Callable[[object], bool]:
    if isinstance(member.each, Record):
        return member.each.fits
    return lambda value: type(value) is dict  # its keys are judged elsewhere


_TESTS: dict[Kind, Callable[[Member], Callable[[object], bool]]] = {
    **dict.fromkeys((Kind.NUMBER, Kind.NUMERAL, Kind.INTEGER), _number_test),
    Kind.TEXT: _text_test,
    Kind.HOST: lambda _: lambda value: type(value) is str and bool(value.strip()),
    **dict.fromkeys((Kind.ADDRESS, Kind.ADDRESSES), _address_test),
    Kind.LIST: _list_test,
    Kind.OBJECT: _object_test,
    Kind.BOOLEAN: lambda _: lambda value: type(value) is bool,
    Kind.ANY: lambda _: lambda value: type(value) not in (dict, list),
}


def type_of(part: Record | Member) -> Any:
    """Return a type for a typed decoder that accepts exactly the sound values.

    Raises:
        ValueError: No type can express this.
    """
    if isinstance(part, Record):
        return _struct_of(part)
    if part.kind is Kind.OBJECT and isinstance(part.each, Record):
        return _struct_of(part.each)
    length = msgspec.Meta(min_length=part.minimum, max_length=part.maximum)
    if part.kind is Kind.LIST and part.each is not None:
        return Annotated[list[type_of(part.each)], length]  # type: ignore[misc]
    if part.kind is Kind.TEXT:
        return Literal[part.values] if part.values else Annotated[str, length]
    if part.kind not in (Kind.INTEGER, Kind.BOOLEAN):
        raise ValueError(part.key)
    low, high = _limits(part, -MAX_NUMBER, MAX_NUMBER)
    is_integer = part.kind is Kind.INTEGER
    return Annotated[int, msgspec.Meta(ge=low, le=high)] if is_integer else bool


def _struct_of(record: Record) -> type[msgspec.Struct]:
    if record.one_of:
        raise ValueError(record.name)
    members: list[Any] = [
        (member.key, type_of(member))
        if member.is_required
        else (member.key, type_of(member) | msgspec.UnsetType, msgspec.UNSET)
        for member in record.members
    ]
    return msgspec.defstruct(
        record.name, members, kw_only=True, gc=False, forbid_unknown_fields=True
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordFormat(Format):
    """A format whose file is a tree of objects.

    Attributes:
        record: The whole file; a member if that is a list.
        matches: Not used: the predicate is in ``formats.OTHERS``, because the module of
            such a format is imported only for its own files.
        fill: Puts nodes and devices of a document into columns, and reports defects of
            their meaning that only the document shows; None if it has neither.
        make: Returns the plain data of a table that was changed or read from another
            format; None if such a table cannot be written.
    """

    record: Record | Member
    matches: Callable[[dict[str, object]], bool] = _never
    fill: Callable[[RecordReader, Any], None] | None = None
    make: Callable[[RankTable], object] | None = None
    example: Any = None
    nodes: Field = _NOTHING
    devices: Field = _NOTHING
    node_fields: tuple[Field, ...] = ()
    device_fields: tuple[Field, ...] = ()
    table_fields: tuple[Field, ...] = ()
    keeps_file_order: bool = False
    keeps_document: bool = True

    def __post_init__(self) -> None:
        """Take the example of the record."""
        if self.example is None:
            file = self.record
            example = file.example if isinstance(file, Record) else file.examples[0]
            object.__setattr__(self, "example", example)

    def read(self, document: Document, found: Findings) -> Columns:
        """Return the columns of a document, and add the defects of its shape."""
        from ranktable.schema.record_reader import RecordReader

        reader = RecordReader(self, document, found)
        reader.read()
        return reader.columns

    def decode(
        self,
        data: bytes,
        found: Findings | None = None,
    ) -> Columns | None:
        """Return None: these files are small."""
        return None

    def build(self, columns: Columns) -> Parts:
        """Return the parts of a table, from a document that is sound."""
        from ranktable.schema.record_reader import build_record_parts

        return build_record_parts(columns)

    def write(self, table: RankTable) -> Any:
        """Return a table as the plain data of a file.

        Raises:
            NotExpressibleError: The format cannot express the table.
        """
        is_own = table.format == self.name
        if is_own and table.document is not None:
            return table.document
        if self.make is None:
            raise NotExpressibleError(
                f"{self.name} is read, but not written; ranktable convert --to "
                "hccl-1.0 makes a table that can be changed"
            )
        return self.make(table)

    def json_schema(self) -> dict[str, object]:
        """Return the JSON Schema of the shape."""
        from ranktable.schema.json_schema import record_schema

        return record_schema(self)

    @property
    def versions(self) -> tuple[str, ...]:
        """Values of ``version``; one empty text if there is no version."""
        members = self.record.members if isinstance(self.record, Record) else ()
        found = [member.values for member in members if member.key == "version"]
        return (*(found[0] if found else ()), "")
