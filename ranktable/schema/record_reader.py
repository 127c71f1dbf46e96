"""Read a document that is a tree of objects into columns; explain every defect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.columns import Columns, place_name, value_name
from ranktable.schema.document import SourceSpan
from ranktable.schema.document_reader import WANTED, ShapeReader, nearest_key
from ranktable.schema.finding import Edit
from ranktable.schema.format import Kind, Role, plain_number
from ranktable.schema.json_parser import MAX_DEPTH, is_too_deep, too_deep
from ranktable.schema.model import Device, Node, Parts
from ranktable.schema.odd_numbers import BadNumber, leading_digits
from ranktable.schema.record import Member, Record, RecordFormat
from ranktable.schema.rules import records as rules
from ranktable.schema.rules import shape
from ranktable.schema.rules.nodes import BAD_ADDRESS
from ranktable.schema.text import counted, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ranktable.schema.document import Path
    from ranktable.schema.format import Format

_NUMBERS = (Kind.NUMBER, Kind.NUMERAL, Kind.INTEGER)
_ADDRESSES = (Kind.ADDRESS, Kind.ADDRESSES)
_WANTED = {**WANTED, **dict.fromkeys(_ADDRESSES, "an IP address")}
_TYPES: dict[Kind, type] = {
    Kind.TEXT: str,
    Kind.HOST: str,
    Kind.ADDRESS: str,
    Kind.ADDRESSES: str,
    Kind.LIST: list,
    Kind.OBJECT: dict,
    Kind.BOOLEAN: bool,
}


class RecordReader(ShapeReader):
    """Reads one document into columns."""

    format: RecordFormat

    def read(self) -> None:
        """Fill the columns, and put the defects into ``found``."""
        data = self.columns.document.data
        record = self.format.record
        if isinstance(record, Record):
            self.look_at((), data, record)
            self.fill_top(data, record)
        else:
            self._member((), data, record)
        self.columns.node_paths, self.columns.device_paths = [], []
        if self.format.fill is not None:
            self.format.fill(self, data)

    def fill_top(self, data: object, record: Record) -> None:
        """Store the plain values at the top that are sound."""
        if not isinstance(data, dict):
            return
        for key, member in record.by_key.items():
            value = data.get(key)
            if not isinstance(value, (list, dict)) and member.fits(value):
                self.columns.top[key] = value

    def look_at(self, path: Path, value: object, record: Record) -> None:
        """Report every defect of an object and of its values."""
        if record.fits(value) or isinstance(value, BadNumber):
            return
        if not isinstance(value, dict):
            message = f"{place_name(path)} is {quoted(value)}, not an object"
            self.add(shape.WRONG_TYPE, path, message)
            return
        self._keys(path, value, record)
        for key, item in value.items():
            member = record.by_key.get(key)
            if member is not None:
                self._member((*path, key), item, member)
            elif isinstance(item, (dict, list)) and is_too_deep(
                item, MAX_DEPTH - len(path) - 1
            ):
                self.found.add(too_deep(SourceSpan((*path, key), "key")))

    def _keys(self, path: Path, value: dict[str, object], record: Record) -> None:
        """Report missing keys, and unknown keys that may be these, misspelt."""
        absent = tuple(key for key in record.by_key if key not in value)
        for key in value:
            near = None if key in record.by_key else nearest_key(key, absent)
            if near is not None:
                message = f"no reader knows the key {quoted(key)}"
                hint = f"did you mean {quoted(near)}?"
                at = (*path, key)
                self.add(shape.UNKNOWN_KEY, at, message, hint=hint, of_key=True)
        for key in absent:
            member = record.by_key[key]
            if member.is_required:
                self.add_missing(path, member, place_name(path))
        if record.one_of and not any(key in value for key in record.one_of):
            message = f"{place_name(path)} has no {' and no '.join(record.one_of)}"
            self.add(shape.MISSING_KEY, path, message)

    def _member(self, path: Path, value: object, member: Member) -> None:
        """Report a wrong value."""
        kind = member.kind
        if isinstance(value, BadNumber):  # reported while parsing
            return
        if kind is Kind.OBJECT and isinstance(member.each, Record):
            self.look_at(path, value, member.each)
        elif member.fits(value):
            return
        elif kind in _NUMBERS:
            self._number(path, value, member)
        elif kind is Kind.ANY or not isinstance(value, _TYPES[kind]):
            edit = None
            if member.role is Role.VERSION and f"{value}.0" in member.values:
                value = f"{value}.0"
            if member.role is Role.VERSION and str(value) in member.values:
                edit = Edit("replace", f'"{value}"')
            message = f"{value_name(path)} is {quoted(value)}, not {_WANTED[kind]}"
            self.add(shape.WRONG_TYPE, path, message, edit=edit)
        elif kind is Kind.LIST and isinstance(value, list):
            self._list(path, value, member)
        else:
            self._text(path, str(value), member)

    def _list(self, path: Path, value: list[object], member: Member) -> None:
        if not value and member.minimum:
            self.add(shape.EMPTY_LIST, path, f"{value_name(path)} is empty")
        elif not member.is_within(len(value)):
            entries = counted(len(value), "entry", "entries")
            self._out_of_range(path, f"{value_name(path)} has {entries}", member)
        for index, item in enumerate(value):
            if isinstance(member.each, Record):
                self.look_at((*path, index), item, member.each)
            elif member.each is not None:
                self._member((*path, index), item, member.each)

    def _text(self, path: Path, value: str, member: Member) -> None:
        if member.kind in _ADDRESSES:
            message = f"{value_name(path)} {quoted(value)} is not an IP address"
            self.add(BAD_ADDRESS, path, message)
        elif member.kind is Kind.HOST:
            self.add(
                shape.WRONG_TYPE,
                path,
                f"{value_name(path)} is {quoted(value)}, not a host name",
            )
        elif member.role is Role.VERSION:
            self.report_version(path, member, value)
        elif member.values:
            self._unknown_word(path, value, member)
        elif value:
            message = f"{value_name(path)} has {counted(len(value), 'character')}"
            self._out_of_range(path, message, member)
        else:
            self.add(rules.OUT_OF_RANGE, path, f"{value_name(path)} is empty")

    def _unknown_word(self, path: Path, value: str, member: Member) -> None:
        edit = None
        alike = [word for word in member.values if word.lower() == value.lower()]
        if alike:
            edit = Edit("replace", f'"{alike[0]}"')
        listed = ", ".join(map(quoted, member.values))
        message = f"{value_name(path)} is {quoted(value)}, not one of {listed}"
        self.add(rules.UNKNOWN_WORD, path, message, edit=edit)

    def _out_of_range(self, path: Path, message: str, member: Member) -> None:
        low, high = member.minimum, member.maximum
        if high is None:
            wanted = f"at least {low}"
        else:
            wanted = f"at most {high}" if low is None else f"{low} to {high}"
        self.add(rules.OUT_OF_RANGE, path, f"{message}, not {wanted}")

    def _number(self, path: Path, value: object, member: Member) -> None:
        """Report a number of another type, in an unusual form, or out of range."""
        number = plain_number(value)
        self.explain_number(path, value, member.kind)
        if number is not None and not member.is_within(number):
            self._out_of_range(path, f"{value_name(path)} is {number}", member)

    def add_node(self, path: Path, host: str | None) -> None:
        """Start a node; the next devices are added to it."""
        columns = self.columns
        assert isinstance(columns.node_paths, list)
        columns.node_paths.append(path)
        columns.hosts.append(host)
        columns.starts.append(len(columns.ranks))

    def number(self, value: object) -> int | None:
        """Return the number that the vendor reads from a value, None if none."""
        number = plain_number(value)
        if number is None and self.format.reads_leading_digits:
            number = leading_digits(value) if isinstance(value, str) else None
        return number

    def add_device(self, path: Path, members: dict[str, Any], **given: object) -> None:
        """Add a device to the last node; a value of the wrong kind becomes None.

        Args:
            path: Its path.
            members: Its plain data.
            given: Its rank, device_id or address, if they are not in it.
        """
        columns = self.columns
        assert isinstance(columns.device_paths, list)
        columns.device_paths.append(path)
        fields = self.format.device_fields
        read = {field.role.value: members.get(field.key) for field in fields}
        values = {**read, **given}
        columns.ranks.append(self.number(values.get("rank")))
        columns.device_ids.append(self.number(values.get("device_id")))
        columns.local_ranks.append(None)
        columns.addresses.append(text_of(values.get("address")))
        columns.starts[-1] = len(columns.ranks)


def text_of(value: object) -> str | None:
    """Return a value that is a text and not blank, otherwise None."""
    return value if isinstance(value, str) and value.strip() else None


def objects(value: object) -> list[tuple[int, dict[str, object]]]:
    """Return the objects of a list with their indices; empty if it is not a list."""
    if not isinstance(value, list):
        return []
    return [(index, item) for index, item in enumerate(value) if isinstance(item, dict)]


def build_record_parts(columns: Columns) -> Parts:
    """Return the parts of a table, from a document that is sound."""
    document, format_ = columns.document.data, columns.format
    known = {
        *format_.device_keys_of(Role.DEVICE_ID, Role.RANK, Role.HOST),
        *format_.address_keys,
    }
    nodes = []
    for node, start, end in columns.nodes():
        devices = [_device(columns, index, known) for index in range(start, end)]
        nodes.append(
            Node(
                devices=tuple(sorted(devices, key=lambda device: device.rank)),
                host=columns.hosts[node],
                extra=_node_extra(columns, node),
            )
        )
    if format_.has_global_ranks:
        nodes.sort(key=lambda node: node.devices[0].rank if node.devices else -1)
    top = document if isinstance(document, dict) else {}
    read = {"version", *_read_keys(format_)}
    extra = {key: value for key, value in top.items() if key not in read}
    version = str(top.get("version", ""))
    return Parts(tuple(nodes), version, format_.name, extra, None, document)


def _read_keys(format_: Format) -> Iterator[str | None]:
    """Yield the keys at the top that the columns already hold."""
    yield format_.count_key
    if not isinstance(format_, RecordFormat):
        return
    yield format_.nodes_key
    members = format_.record.members if isinstance(format_.record, Record) else ()
    for member in members:
        if isinstance(member.each, Record):
            yield member.key


def _device(columns: Columns, index: int, known: set[str]) -> Device:
    rank, device_id = columns.ranks[index], columns.device_ids[index]
    assert rank is not None
    assert device_id is not None
    members = columns.document.get(*columns.device_path(index))
    items = members.items() if isinstance(members, dict) else ()
    return Device(
        rank=rank,
        device_id=device_id,
        address=columns.addresses[index],
        extra={key: value for key, value in items if key not in known},
    )


def _node_extra(columns: Columns, node: int) -> dict[str, object]:
    """Return the other keys of a node, without its host and its devices."""
    members = columns.document.get(*columns.node_path(node))
    fields = [field.key for field in columns.format.node_fields]
    if not isinstance(members, dict) or not fields:
        return {}
    host = columns.format.host_key
    return {
        key: value
        for key, value in members.items()
        if key not in (host, columns.format.devices_key)
    }
