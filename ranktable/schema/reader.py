"""Read any declared document into columns, and explain every defect of its shape.

The records of a format say which keys an object has and what their values are. An
object that fits its record is passed over; the others are explained key by key. Then
the values of nodes and devices are put into columns.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from ranktable.schema.columns import Columns, place_name, value_name
from ranktable.schema.declare import (
    NUMBERS,
    SPARES_KEY,
    SUPER_POD_KEY,
    Format,
    Key,
    KeyRole,
    Kind,
    Record,
)
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Edit, Findings, Rule
from ranktable.schema.json_parser import too_deep
from ranktable.schema.rules import shape
from ranktable.schema.text import counted, quoted
from ranktable.schema.values import (
    MAX_DEPTH,
    BadNumber,
    is_too_deep,
    leading_digits,
    odd_number,
    plain_number,
    plain_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.schema.document import Document, Path

    Members = dict[str, Any]

_READ_KEYS = {0: (SPARES_KEY, "$schema"), 2: (SUPER_POD_KEY,)}
"""Keys that no format has but commands or editors read, by the length of their path."""

_TYPES = {Kind.LIST: list, Kind.OBJECT: dict, Kind.BOOLEAN: bool}
"""Types of the kinds that are neither numbers nor texts."""


def read_document(format_: Format, document: Document, found: Findings) -> Columns:
    """Return the columns of a document, and add the defects of its shape."""
    reader = Reader(format_, document, found)
    reader.explain((), document.data, format_.record)
    if isinstance(document.data, dict):
        reader.fill(document.data)
    return reader.columns


class Reader:
    """One reading of one document.

    Attributes:
        format: The format that it has.
        columns: Its values.
        found: The defects of its shape.
    """

    def __init__(
        self, format_: Format, document: Document | bytes, found: Findings
    ) -> None:
        """Prepare to read."""
        self.format = format_
        self.columns = Columns(format_, document)
        self.found = found
        self._usual_keys: set[tuple[Record, tuple[str, ...]]] = set()

    def report(
        self,
        rule: Rule,
        path: Path,
        message: str,
        *,
        hint: str | None = None,
        edit: Edit | None = None,
        related: tuple[Path, ...] = (),
        of_key: bool = False,
    ) -> None:
        """Add a finding."""
        if edit is not None and hint is None:
            hint = f"write {edit.text}"
        span = SourceSpan(path, "key" if of_key else "value")
        others = tuple(SourceSpan(at, label="first use") for at in related)
        self.found.add(
            rule.finding(span, message, hint=hint, edit=edit, related=others)
        )

    def explain(self, path: Path, value: object, record: Record) -> None:
        """Report every defect of an object and of its values."""
        if (path and record.fits(value)) or isinstance(value, BadNumber):
            return  # a bad number was reported while parsing
        if not isinstance(value, dict):
            message = f"{self._name(path)} is {quoted(value)}, not an object"
            self.report(shape.WRONG_TYPE, path, message)
            return
        if (record, tuple(value)) not in self._usual_keys:
            self._explain_keys(path, value, record)
        for key, item in value.items():
            declared = record.by_key.get(key)
            if declared is None:
                self._refuse_deep((*path, key), item)
            elif declared.kind is Kind.LIST and isinstance(item, list):
                self._explain_list((*path, key), item, declared)
            elif not declared.fits(item):
                self._explain_value((*path, key), item, declared)

    def _name(self, path: Path) -> str:
        """Return the name of an object for messages."""
        if not path or self.format.keeps_document:
            return place_name(path)
        nodes, devices = self.format.nodes_key, self.format.devices_key
        if path[0] == nodes and path[2:3] in ((), (devices,)):
            device = f"device {path[3]} of " if path[3:] else ""
            return f"{device}node {path[1]}"
        return f"entry {path[-1]} of {path[-2]}"

    def _refuse_deep(self, path: Path, value: object) -> None:
        if isinstance(value, (dict, list)) and is_too_deep(
            value, MAX_DEPTH - len(path)
        ):
            self.found.add(too_deep(SourceSpan(path, "key")))

    def _explain_keys(self, path: Path, value: Members, record: Record) -> None:
        """Report missing keys and unknown keys."""
        known, present = tuple(record.by_key), tuple(value)
        unknown = tuple(key for key in present if key not in record.by_key)
        missing = [key for key in known if key in record.required and key not in value]
        if record.one_of and not any(key in value for key in record.one_of):
            missing.append(record.one_of[0])
        misspelt = {key: nearest_key(key, unknown) for key in missing}
        odd = [
            key
            for key in unknown
            if key not in misspelt.values() and self._is_odd(path, key, present, known)
        ]
        for key in odd:
            near = nearest_key(key, known)
            hint = f"did you mean {quoted(near)}?" if near else None
            message = f"no reader knows the key {quoted(key)}"
            at = (*path, key)
            self.report(shape.UNKNOWN_KEY, at, message, hint=hint, of_key=True)
        for key, other in misspelt.items():
            self._explain_missing(path, record.by_key[key], other)
        if not odd and not missing:
            self._usual_keys.add((record, present))

    def _is_odd(
        self, path: Path, key: str, present: tuple[str, ...], known: tuple[str, ...]
    ) -> bool:
        """Whether an unknown key is reported."""
        if key in _READ_KEYS.get(len(path), ()):
            return False
        if not self.format.has_other_keys:
            return True
        near = nearest_key(key, known, 0.85)  # node_ip is not a misspelt pod_ip
        return near is not None and near not in present

    def _explain_missing(self, path: Path, key: Key, other: str | None) -> None:
        """Report a missing key, at the place of a misspelt one if there is one."""
        owner, name = self._name(path), key.key
        if other is not None:
            message = f"{owner} has no {name}, but a key {quoted(other)}"
            advice = f"rename it to {quoted(name)}"
            at = (*path, other)
            self.report(shape.MISSING_KEY, at, message, hint=advice, of_key=True)
            return
        message = f"{owner} has no {name}"
        edit: Edit | None = None
        hint: str | None = None
        examples = [one for one in key.examples if isinstance(one, (str, int))]
        if key.role is KeyRole.VERSION and key.values:
            text = f'"version":"{key.values[0]}"'
            edit, hint = Edit("insert", f"{text},"), f"add {text}"
        elif examples:
            hint = f'add it, such as "{name}":{quoted(examples[0])}'
        self.report(shape.MISSING_KEY, path, message, hint=hint, edit=edit)

    def _explain_value(self, path: Path, value: object, key: Key) -> None:
        """Report why a value does not fit its key."""
        kind = key.kind
        if isinstance(value, BadNumber):  # reported while parsing
            return
        if kind in NUMBERS:
            self._explain_number(path, value, key)
        elif kind is Kind.ANY:
            self._refuse_deep(path, value)
        elif kind is Kind.OBJECT and isinstance(key.each, Record):
            self.explain(path, value, key.each)
        elif not isinstance(value, _TYPES.get(kind, str)):
            self._explain_type(path, value, key)
        elif isinstance(value, list):
            self._explain_list(path, value, key)
        else:
            self._explain_text(path, str(value), key)

    def _explain_number(self, path: Path, value: object, key: Key) -> None:
        """Report a number of another type, in an unusual form, or out of range."""
        number, is_text = key.number_of(value), isinstance(value, str)
        wrong_kind = Kind.INTEGER if is_text else Kind.NUMERAL
        if number is not None and key.kind is not wrong_kind:
            self._explain_range(path, f"is {number}", key)
            return
        rule, reason = shape.WRONG_TYPE, f"{quoted(value)}, not {key.kind.value}"
        if number is None:
            odd = odd_number(value)
            number = odd.reading
            rule = shape.ODD_NUMBER if odd.is_number else shape.WRONG_TYPE
            reason = odd.reason
            if (
                self._leading_digits(value) is not None
                and key.role is not KeyRole.COUNT
            ):
                rule, number = shape.LEADING_DIGITS, self.read_number(value)
                reason = f"{quoted(value)}, which HCCL reads as {number}"
        edit = None
        if number is not None:
            is_text = key.kind is Kind.NUMERAL or (is_text and key.kind is Kind.NUMBER)
            edit = Edit("replace", f'"{number}"' if is_text else str(number))
        self.report(rule, path, f"{value_name(path)} is {reason}", edit=edit)

    def _explain_range(self, path: Path, has: str, key: Key) -> None:
        low, high = key.minimum, key.maximum
        if high is None:
            wanted = f"at least {low}"
        else:
            wanted = f"at most {high}" if low is None else f"{low} to {high}"
        message = f"{value_name(path)} {has}, not {wanted}"
        self.report(shape.OUT_OF_RANGE, path, message)

    def _explain_type(self, path: Path, value: object, key: Key) -> None:
        edit, wanted = None, key.kind.value
        if key.role is KeyRole.VERSION:
            number = next(
                (v for v in (str(value), f"{value}.0") if v in key.values), ""
            )
            edit = Edit("replace", f'"{number}"') if number else None
        message = f"{value_name(path)} is {quoted(value)}, not {wanted}"
        self.report(shape.WRONG_TYPE, path, message, edit=edit)

    def _explain_list(self, path: Path, value: list[object], key: Key) -> None:
        if not value and key.minimum:
            hint = "add an entry, or remove what holds the list"
            self.report(shape.EMPTY_LIST, path, f"{path[-1]} is empty", hint=hint)
        elif not key.is_within(len(value)):
            entries = counted(len(value), "entry", "entries")
            self._explain_range(path, f"has {entries}", key)
        if key.each is None:
            self._refuse_deep(path, value)
        elif isinstance(key.each, Record):
            for index, item in enumerate(value):
                self.explain((*path, index), item, key.each)
        else:
            for index, item in enumerate(value):
                if not key.each.fits(item):
                    self._explain_value((*path, index), item, key.each)

    def _explain_text(self, path: Path, value: str, key: Key) -> None:
        name, listed = value_name(path), ", ".join(map(quoted, key.values))
        if key.role is KeyRole.VERSION:
            message = f"version is {quoted(value)}; {self.format.name} has {listed}"
            self.report(shape.UNKNOWN_VERSION, path, message)
        elif key.values:
            alike = [word for word in key.values if word.lower() == value.lower()]
            edit = Edit("replace", f'"{alike[0]}"') if alike else None
            one_of = "one of " if len(key.values) > 1 else ""
            message = f"{name} is {quoted(value)}, not {one_of}{listed}"
            self.report(shape.UNKNOWN_WORD, path, message, edit=edit)
        elif key.kind is Kind.HOST and not value.strip():
            message = f"{name} is {quoted(value)}, not {key.kind.value}"
            self.report(shape.WRONG_TYPE, path, message)
        elif value:
            self._explain_range(path, f"has {counted(len(value), 'character')}", key)
        else:
            self.report(shape.OUT_OF_RANGE, path, f"{name} is empty")

    def read_number(self, value: object) -> int | None:
        """Return the number that the vendor reads from a value, None if none."""
        number = plain_number(value)
        if number is None and value is not None:
            number = self._leading_digits(value)
        if number is None and value is not None:
            number = odd_number(value).reading
        return number

    def _leading_digits(self, value: object) -> int | None:
        is_read = self.format.is_hccl_1 and isinstance(value, str)
        return leading_digits(str(value)) if is_read else None

    def fill(self, data: Members) -> None:
        """Put the values of a document into the columns; a wrong one becomes None."""
        self.fill_top(data)
        if self.format.fill is None:
            self._fill_nodes(data)
        else:
            self.columns.node_paths, self.columns.device_paths = [], []
            self.format.fill(self, data)

    def fill_top(self, data: Members) -> None:
        """Store the values of the keys at the top."""
        for key in self.format.table_fields:
            value = data.get(key.key)
            if key.kind in NUMBERS:  # a number out of range can still be compared
                value = value if key.fits(value) else plain_number(value)
            elif key.kind is not Kind.LIST and not key.fits(value):
                value = None
            if value is not None and (key.kind is not Kind.LIST or type(value) is list):
                self.columns.top[key.key] = value

    def _fill_nodes(self, data: Members) -> None:
        columns, format_ = self.columns, self.format
        nodes = [_members(one) for one in _entries(data.get(format_.nodes_key))]
        lists = [_entries(node.get(format_.devices_key)) for node in nodes]
        devices = list(chain.from_iterable(lists))
        if not set(map(type, devices)) <= {dict}:
            devices = list(map(_members, devices))
        columns.has_unread = not all(lists)
        columns.starts = list(accumulate(map(len, lists), initial=0))
        columns.hosts = [text_of(node.get(format_.host_key)) for node in nodes]
        for name in ("ranks", "device_ids", "local_ranks", "addresses"):
            setattr(columns, name, [None] * len(devices))
        self._keep(format_.node_fields, nodes)
        self._keep(format_.device_fields, devices)
        self._fill_ranks(devices)
        for key in format_.device_fields:
            if key.role is KeyRole.DEVICE_ID:
                columns.device_ids = self._numbers(key.key, devices)
            elif key.role is KeyRole.LOCAL_RANK:
                columns.local_ranks = self._numbers(key.key, devices)
            elif key.role is KeyRole.ADDRESS:
                self._fill_addresses(key.key, devices)

    def _numbers(self, key: str, members: list[Members]) -> list[int | None]:
        """Return the numbers under a key, None where it is missing or unreadable."""
        values: list[Any] = [one.get(key) for one in members]
        found: list[Any] | None = None
        if set(map(type, values)) <= {str, int}:
            found = plain_numbers(values)
        return list(map(self.read_number, values)) if found is None else found

    def _fill_ranks(self, devices: list[Members]) -> None:
        """Store the ranks, and which devices have two or lack a key of a reader."""
        columns, format_ = self.columns, self.format
        # Later entries win, so that every set of keys has its first device.
        places = range(len(devices) - 1, -1, -1)
        first_with = dict(zip(map(tuple, reversed(devices)), places, strict=True))
        for present, index in sorted(first_with.items(), key=lambda item: item[1]):
            lacking = tuple(key for key in format_.reader_keys if key not in present)
            if lacking and not set(present).isdisjoint(format_.rank_keys):
                columns.lacking.setdefault(lacking, index)
        present_keys = set(chain.from_iterable(first_with))
        keys = [key for key in format_.rank_keys if key in present_keys]
        several = [self._numbers(key, devices) for key in keys]
        columns.ranks = several[0] if several else columns.ranks
        if any(one != columns.ranks for one in several[1:]):
            for index, ranks in enumerate(zip(*several, strict=True)):
                readable = [rank for rank in ranks if rank is not None]
                columns.ranks[index] = readable[0] if readable else None
                if len(set(readable)) > 1:
                    columns.conflicts.append(index)

    def _fill_addresses(self, key: str, devices: list[Members]) -> None:
        """Store the addresses under a key; the emulator's, which come last, win."""
        columns, first = self.columns, self.format.address_keys[0]
        columns.is_emulated |= key != first and any(key in one for one in devices)
        for index, device in enumerate(devices):
            value = device.get(key)
            if type(value) is str and (value or not self.format.is_hccl_1):
                before = columns.addresses[index]
                if before is not None:
                    columns.more_addresses.append((index, first, before))
                columns.addresses[index] = value

    def _keep(self, keys: Iterable[Key], members: list[Members]) -> None:
        """Store the columns that not every table has."""
        present = set(chain.from_iterable(members))
        for key in keys:
            if key.role is not KeyRole.OTHER or key.key not in present:
                continue
            found: list[Any] = [one.get(key.key) for one in members]
            if key.kind in NUMBERS:
                found = self._numbers(key.key, members)
            elif key.kind is not Kind.ANY:
                found = [one if key.fits(one) else None for one in found]
            self.columns.optional[key.key] = found

    def add_node(self, path: Path, host: str | None) -> None:
        """Start a node; the next devices are added to it."""
        columns = self.columns
        assert isinstance(columns.node_paths, list)
        columns.node_paths.append(path)
        columns.hosts.append(host)
        columns.starts.append(len(columns.ranks))

    def add_device(self, path: Path, members: Members, rank: int) -> None:
        """Add a device without a written rank to the last node."""
        columns = self.columns
        assert isinstance(columns.device_paths, list)
        columns.device_paths.append(path)
        read = {key.role: members.get(key.key) for key in self.format.device_fields}
        columns.ranks.append(rank)
        columns.device_ids.append(self.read_number(read.get(KeyRole.DEVICE_ID)))
        columns.local_ranks.append(None)
        columns.addresses.append(text_of(read.get(KeyRole.ADDRESS)))
        columns.starts[-1] = len(columns.ranks)


def _members(value: object) -> Members:
    return value if isinstance(value, dict) else {}


def _entries(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def text_of(value: object) -> str | None:
    """Return a value that is a text and not blank, otherwise None."""
    return value if isinstance(value, str) and value.strip() else None


def objects(value: object) -> list[tuple[int, Members]]:
    """Return the objects of a list with their indices; empty if it is not a list."""
    return [
        (at, one) for at, one in enumerate(_entries(value)) if isinstance(one, dict)
    ]


@lru_cache(maxsize=256)  # a misspelt key is misspelt in every device
def nearest_key(key: str, known: tuple[str, ...], cutoff: float = 0.75) -> str | None:
    """Return the known key that a misspelt one probably means, None if none."""
    import difflib

    folded = {one.casefold(): one for one in reversed(known)}
    near = difflib.get_close_matches(key.casefold(), folded, n=1, cutoff=cutoff)
    return folded[near[0]] if near else None
