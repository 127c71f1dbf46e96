"""Read a document into columns, and explain every defect of its shape."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ranktable.schema.columns import Columns, value_name
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Edit
from ranktable.schema.format import (
    SPARES_KEY,
    SUPER_POD_KEY,
    Kind,
    Role,
    plain_number,
    plain_numbers,
)
from ranktable.schema.json_parser import MAX_DEPTH, is_too_deep, too_deep
from ranktable.schema.odd_numbers import BadNumber, leading_digits, odd_number
from ranktable.schema.rules import shape as rules
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ranktable.schema.document import Document, Path
    from ranktable.schema.finding import Findings, Rule, Severity
    from ranktable.schema.format import Field, Format

_READ_KEYS = {0: (SPARES_KEY, "$schema"), 2: (SUPER_POD_KEY,)}
"""Keys that no format has but commands or editors read, by the length of their path."""


class ShapeReader:
    """What the readers of decoded data share: columns, findings, bad numbers."""

    def __init__(
        self, format_: Format, document: Document | bytes, found: Findings
    ) -> None:
        """Prepare to read."""
        self.format = format_
        self.columns = Columns(format=format_, source=document)
        self.found = found

    def add(
        self,
        rule: Rule,
        path: Path,
        message: str,
        *,
        hint: str | None = None,
        edit: Edit | None = None,
        related: tuple[Path, ...] = (),
        of_key: bool = False,
        severity: Severity | None = None,
    ) -> None:
        """Add a finding."""
        if edit is not None and hint is None:
            hint = f"write {edit.text}"
        self.found.add(
            rule.finding(
                SourceSpan(path, "key" if of_key else "value"),
                message,
                hint=hint,
                edit=edit,
                severity=severity,
                related=tuple(SourceSpan(at, label="first use") for at in related),
            )
        )

    report = add

    def add_missing(self, path: Path, field: Field, owner: str) -> None:
        """Add the finding that a key is missing; with one version it can be written."""
        edit = hint = None
        if field.role is Role.VERSION and len(field.values) == 1:
            edit = Edit("insert", f'"version":"{field.values[0]}",')
            hint = f"add {edit.text.rstrip(',')}"
        message = f"{owner} has no {field.key}"
        self.add(rules.MISSING_KEY, path, message, hint=hint, edit=edit)

    def report_version(self, path: Path, field: Field, value: object) -> None:
        """Report a version that does not exist."""
        listed = ", ".join(map(quoted, field.values))
        verb = "exists" if len(field.values) == 1 else "exist"
        message = f"version is {quoted(value)}; only {listed} {verb}"
        self.add(rules.UNKNOWN_VERSION, path, message)

    def explain_number(self, path: Path, value: object, kind: Kind) -> int | None:
        """Report a number of another form, and return what all readers see in it."""
        number = plain_number(value)
        if isinstance(value, BadNumber) or (number is not None and is_of(kind, value)):
            return number
        if number is not None:
            rule, reason = rules.WRONG_TYPE, f"{quoted(value)}, not {WANTED[kind]}"
        else:
            odd = odd_number(value)
            rule = rules.ODD_NUMBER if odd.is_number else rules.WRONG_TYPE
            number, reason = odd.reading, odd.reason
            if self.format.reads_leading_digits and isinstance(value, str):
                digits = leading_digits(value)
                if digits is not None:
                    rule, number = rules.LEADING_DIGITS, digits
                    reason = f"{quoted(value)}, which HCCL reads as {digits}"
        is_text = kind is Kind.NUMERAL or (
            kind is Kind.NUMBER and isinstance(value, str)
        )
        edit = None if number is None else replaced_by(number, is_text=is_text)
        self.add(rule, path, f"{value_name(path)} is {reason}", edit=edit)
        return number


class DocumentReader(ShapeReader):
    """Reads one document into columns; every defect of its shape is a finding."""

    def __init__(self, format_: Format, document: Document, found: Findings) -> None:
        """Prepare to read; ``read`` does it."""
        super().__init__(format_, document, found)
        self.emulator_keys = format_.address_keys[1:]
        self.required = {field.key for field in format_.all_fields if field.is_required}
        self._plans: dict[tuple[str, ...], _DeviceKeys] = {}

    def read(self) -> Columns:
        """Return the columns, and add the defects of shape in document order."""
        document = self.columns.document.data
        assert isinstance(document, dict)
        format_ = self.format
        self._members((), document, (*format_.table_fields, format_.nodes), "the table")
        for field in format_.table_fields:
            if field.key in document:
                value = self._value((), field, document)
                if value is None and field.key == format_.count_key:
                    # The number has the wrong type; its value can still be judged.
                    value = plain_number(document[field.key])
                if value is not None:
                    self.columns.top[field.key] = value
        nodes = self._list((format_.nodes_key,), document, "nodes")
        for node, members in enumerate(nodes):
            self._node(node, members)
        self._complete_columns()
        return self.columns

    def _complete_columns(self) -> None:
        """Fill every optional column up to the last node or device."""
        columns = self.columns
        of_nodes = {field.key for field in self.format.node_fields}
        for key, column in columns.optional.items():
            size = columns.num_nodes if key in of_nodes else columns.num_devices
            column.extend([None] * (size - len(column)))

    def _members(
        self,
        path: Path,
        members: dict[str, object],
        fields: Sequence[Field],
        owner: str,
    ) -> None:
        """Report missing keys and unknown keys."""
        known = tuple(field.key for field in fields)
        for field in fields:
            if field.is_required and field.key not in members:
                self._missing(path, field, owner, (tuple(members), known))
        self._unknown(path, tuple(members), known, members)

    def _missing(
        self,
        path: Path,
        field: Field,
        owner: str,
        keys: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
    ) -> None:
        """Report a missing key, at the place of a misspelt one if there is one."""
        if self.format.has_other_keys:
            present, known = keys
            others = tuple(key for key in present if key not in known)
            other = nearest_key(field.key, others)
            if other is not None:
                message = f"{owner} has no {field.key}, but a key {quoted(other)}"
                advice = f"rename it to {quoted(field.key)}"
                place = (*path, other)
                self.add(rules.MISSING_KEY, place, message, hint=advice, of_key=True)
                return
        self.add_missing(path, field, owner)

    def _value(self, path: Path, field: Field, members: dict[str, object]) -> object:
        """Return the value of a field at the top or of a node, None if it is wrong."""
        value = members[field.key]
        path = (*path, field.key)
        if isinstance(value, BadNumber):  # reported while parsing
            return None
        self._refuse_deep(path, value)
        if not is_of(field.kind, value):
            self._wrong_type(path, field, value)
            return None
        if field.values and value not in field.values:
            if field.role is Role.VERSION:
                self.report_version(path, field, value)
            else:
                listed = ", ".join(map(quoted, field.values))
                message = f"{field.key} is {quoted(value)}, not {listed}"
                self.add(rules.WRONG_TYPE, path, message)
            return None
        if field.items and isinstance(value, list):
            self._items(path, field, value)
        return value

    def _items(self, path: Path, field: Field, value: list[object]) -> None:
        """Report defects of the objects of a list at the top."""
        for place, members in enumerate(value):
            owner, where = f"entry {place} of {field.key}", (*path, place)
            if not isinstance(members, dict):
                if not isinstance(members, BadNumber):
                    message = f"{owner} is {quoted(members)}, not an object"
                    self.add(rules.WRONG_TYPE, where, message)
                continue
            self._members(where, members, field.items, owner)
            for item in field.items:
                if item.key in members:
                    self._value(where, item, members)

    def _wrong_type(self, path: Path, field: Field, value: object) -> None:
        edit = None
        number = plain_number(value)
        if number is not None and field.kind in (Kind.INTEGER, Kind.NUMERAL):
            edit = replaced_by(number, is_text=field.kind is Kind.NUMERAL)
        elif field.role is Role.VERSION and type(value) in (int, float) and value == 1:
            edit = Edit("replace", '"1.0"')
        wanted = "a name" if "pod" in str(path[-1]) else WANTED[field.kind]
        message = f"{path[-1]} is {quoted(value)}, not {wanted}"
        if field.kind is Kind.NUMERAL and isinstance(value, str):
            message = f"{path[-1]} is {odd_number(value).reason}"
        self.add(rules.WRONG_TYPE, path, message, edit=edit)

    def _list(self, path: Path, holder: dict[str, object], what: str) -> list[object]:
        key = str(path[-1])
        value = holder.get(key)
        if key not in holder or isinstance(value, BadNumber):
            return []
        if not isinstance(value, list):
            message = f"{key} is {quoted(value)}, not a list"
            self.add(rules.WRONG_TYPE, path, message)
            return []
        if not value:
            hint = f"list the {what}"
            self.add(rules.EMPTY_LIST, path, f"{key} is empty", hint=hint)
        return value

    def _node(self, node: int, members: object) -> None:
        columns, format_ = self.columns, self.format
        path = (format_.nodes_key, node)
        devices: list[object] = []
        values: dict[str, object] = {}
        if isinstance(members, dict):
            fields = (*format_.node_fields, format_.devices)
            self._members(path, members, fields, f"node {node}")
            values = {
                field.key: self._value(path, field, members)
                for field in format_.node_fields
                if field.key in members
            }
            devices = self._list((*path, format_.devices_key), members, "devices")
        elif not isinstance(members, BadNumber):
            message = f"node {node} is {quoted(members)}, not an object"
            self.add(rules.WRONG_TYPE, path, message)
        self.columns.has_unread |= not devices
        host = values.pop(format_.host_key, None)
        columns.hosts.append(host if isinstance(host, str) else None)
        for key, value in values.items():
            self._keep(key, value, node)
        self._devices((*path, format_.devices_key), devices)
        columns.starts.append(len(columns.ranks))

    def _keep(self, key: str, value: object, index: int) -> None:
        """Store a value in an optional column."""
        column = self.columns.optional.setdefault(key, [])
        column.extend([None] * (index - len(column)))
        column.append(value)

    def _devices(self, path: Path, devices: list[object]) -> None:
        if not self._are_plain(devices):
            for place, device in enumerate(devices):
                self._device((*path, place), device)

    def _are_plain(self, devices: list[object]) -> bool:
        """Whether devices have the same keys and nothing unusual; they are added then.

        This takes a fraction of the time of reading one by one.
        """
        columns, count = self.columns, len(devices)
        all_keys = {tuple(one) if type(one) is dict else () for one in devices}
        plan = self._plan(all_keys.pop()) if len(all_keys) == 1 else None
        if plan is None or not plan.has_only_numbers:
            return False
        expected = list(range(len(columns.ranks), len(columns.ranks) + count))
        texts, found = list(map(str, expected)), []
        for key, types in plan.number_types:
            values = [device[key] for device in devices]  # type: ignore[index]
            if not types.issuperset(map(type, values)):
                return False
            numbers = expected if values == texts else plain_numbers(values)
            if numbers is None:
                return False
            found.append(numbers)
        nothing: list[Any] = [None] * count
        found.append(nothing)  # for index -1, which means a missing number
        ranks = found[plan.ranks_at[0]]
        if any(found[at] != ranks for at in plan.ranks_at):
            return False
        columns.ranks += ranks
        columns.device_ids += found[plan.device_id_at]
        columns.local_ranks += found[plan.local_rank_at]
        columns.addresses += nothing
        return True

    def _plan(self, keys: tuple[str, ...]) -> _DeviceKeys:
        plan = self._plans.get(keys)
        if plan is None:
            plan = self._plans[keys] = _DeviceKeys(self.format, keys)
            if plan.lacking and plan.ranks_at:
                self.columns.lacking.setdefault(plan.lacking, len(self.columns.ranks))
        return plan

    def _device(self, path: Path, device: object) -> None:
        columns = self.columns
        if type(device) is not dict:
            self._no_device(path, device)
            return
        plan = self._plan(tuple(device))
        if plan.is_odd:
            self._odd_keys(path, device, plan)
        numbers = [
            plain_number(device[key]) if type(device[key]) in types else None
            for key, types in plan.number_types
        ]
        if None in numbers:
            numbers = [
                self.explain_number((*path, field.key), device[field.key], field.kind)
                if number is None
                else number
                for field, number in zip(plan.numbers, numbers, strict=True)
            ]
        numbers.append(None)  # for index -1, which means a missing number
        columns.device_ids.append(numbers[plan.device_id_at])
        columns.local_ranks.append(numbers[plan.local_rank_at])
        columns.addresses.append(self._address(path, device, plan))
        for field in plan.kept:
            value = self._kept(path, field, device)
            self._keep(field.key, value, len(columns.ranks))
        columns.ranks.append(self._rank([numbers[at] for at in plan.ranks_at]))

    def _kept(self, path: Path, field: Field, device: dict[str, object]) -> object:
        """Return a value that the model stores as it is, None if it is wrong."""
        if field.kind is Kind.NUMERAL:
            value = device[field.key]
            number = plain_number(value) if type(value) is str else None
            if number is None:
                number = self.explain_number(
                    (*path, field.key), device[field.key], field.kind
                )
            return number
        return self._value(path, field, device)

    def _rank(self, ranks: list[int | None]) -> int | None:
        """Return the first readable rank, and record whether others contradict it."""
        readable = [rank for rank in ranks if rank is not None]
        if len(set(readable)) > 1:
            self.columns.conflicts.append(len(self.columns.ranks))
        return readable[0] if readable else None

    def _address(
        self, path: Path, device: dict[str, object], plan: _DeviceKeys
    ) -> str | None:
        address = None
        for key in plan.address_keys:
            value = device[key]
            if type(value) is not str:
                if not isinstance(value, BadNumber):
                    message = f"{key} is {quoted(value)}, not text"
                    self.add(rules.WRONG_TYPE, (*path, key), message)
            elif value or not self.format.has_blank_addresses:
                if address is not None:  # the emulator's address comes last and is used
                    index = len(self.columns.ranks)
                    self.columns.more_addresses.append(
                        (index, plan.address_keys[0], address)
                    )
                address = value
        if len(plan.address_keys) and plan.address_keys[-1] in self.emulator_keys:
            self.columns.is_emulated = True
        return address

    def _no_device(self, path: Path, device: object) -> None:
        is_said = isinstance(device, BadNumber)
        if not is_said:
            node = len(self.columns.starts) - 1
            message = f"device {path[-1]} of node {node} is {quoted(device)}"
            self.add(rules.WRONG_TYPE, path, f"{message}, not an object")
        columns = self.columns
        columns.ranks.append(None)
        columns.device_ids.append(None)
        columns.local_ranks.append(None)
        columns.addresses.append(None)

    def _odd_keys(
        self, path: Path, device: dict[str, object], plan: _DeviceKeys
    ) -> None:
        """Report the keys that one device lacks, and those that no reader knows."""
        owner = f"device {path[-1]} of node {len(self.columns.starts) - 1}"
        self._unknown(path, plan.keys, plan.known, device)
        keys = (plan.keys, plan.known)
        for field in plan.missing:
            self._missing(path, field, owner, keys)
        if not plan.ranks_at and not plan.rank_field.is_required:
            self._missing(path, plan.rank_field, owner, keys)

    def _unknown(
        self,
        path: Path,
        keys: tuple[str, ...],
        known: tuple[str, ...],
        members: dict[str, object],
    ) -> None:
        for key in keys:
            if key in known:
                continue
            self._refuse_deep((*path, key), members[key])
            is_read = key in _READ_KEYS.get(len(path), ()) or (
                self.format.has_other_keys and not self._is_misspelt(key, known, keys)
            )
            if is_read:
                continue
            near = nearest_key(key, known)
            hint = f"did you mean {quoted(near)}?" if near else None
            message = f"no reader knows the key {quoted(key)}"
            self.add(rules.UNKNOWN_KEY, (*path, key), message, hint=hint, of_key=True)

    def _is_misspelt(
        self, key: str, known: tuple[str, ...], keys: tuple[str, ...]
    ) -> bool:
        """Whether a key is probably a misspelt optional key that is missing."""
        # Operators add many keys; node_ip is not a misspelt pod_ip.
        near = nearest_key(key, known, 0.85)
        return near is not None and near not in keys and near not in self.required

    def _refuse_deep(self, path: Path, value: object) -> None:
        is_nested = isinstance(value, (dict, list))
        if is_nested and is_too_deep(value, MAX_DEPTH - len(path)):
            self.found.add(too_deep(SourceSpan(path, "key")))


_TYPES: dict[Kind, frozenset[type]] = {
    Kind.NUMBER: frozenset((str, int)),
    Kind.NUMERAL: frozenset((str,)),
    Kind.INTEGER: frozenset((int,)),
}
"""Types of the numbers of a kind."""


class _DeviceKeys:
    """Facts about the keys of a device, before its values are examined."""

    def __init__(self, format_: Format, keys: tuple[str, ...]) -> None:
        fields = [field for field in format_.device_fields if field.key in keys]
        self.keys = keys
        self.known = tuple(field.key for field in format_.device_fields)
        roles = (Role.DEVICE_ID, Role.LOCAL_RANK, Role.RANK)
        self.numbers = [field for field in fields if field.role in roles]
        self.number_types = tuple((f.key, _TYPES[f.kind]) for f in self.numbers)
        held = [field.role for field in self.numbers]
        self.ranks_at = [at for at, role in enumerate(held) if role is Role.RANK]
        self.device_id_at, self.local_rank_at = (
            held.index(role) if role in held else -1 for role in roles[:2]
        )
        self.address_keys = tuple(f.key for f in fields if f.role is Role.ADDRESS)
        self.kept = tuple(f for f in fields if f.role is Role.OTHER)
        self.missing = [
            field
            for field in format_.device_fields
            if field.is_required and field.key not in keys
        ]
        self.rank_field = next(f for f in format_.device_fields if f.role is Role.RANK)
        self.lacking = tuple(key for key in format_.reader_keys if key not in keys)
        self.is_odd = bool(
            self.missing or not self.ranks_at or not set(keys) <= set(self.known)
        )
        self.has_only_numbers = not (self.is_odd or self.address_keys or self.kept)


WANTED = {
    Kind.NUMBER: "a number",
    Kind.NUMERAL: "a string",
    Kind.INTEGER: "an integer",
    Kind.TEXT: "a string",
    Kind.HOST: "a host name",
    Kind.ADDRESS: "text",
    Kind.ADDRESSES: "text",
    Kind.LIST: "a list",
    Kind.OBJECT: "an object",
    Kind.BOOLEAN: "true or false",
    Kind.ANY: "a plain value",
}
"""What a value of a kind is called in messages."""


def is_of(kind: Kind, value: object) -> bool:
    """Whether a value is of a kind; if an address is valid is judged by a rule."""
    if kind in (Kind.LIST, Kind.ANY):
        return kind is Kind.ANY or isinstance(value, list)
    if kind is Kind.INTEGER:
        return type(value) is int
    if kind in (Kind.NUMBER, Kind.NUMERAL):
        is_text = isinstance(value, str)
        return (is_text or kind is Kind.NUMBER) and plain_number(value) is not None
    return isinstance(value, str) and (kind is not Kind.HOST or bool(value.strip()))


def are_items(field: Field, value: object) -> bool:
    """Whether a value is a list of objects with exactly the keys of ``items``."""
    return isinstance(value, list) and all(
        isinstance(members, dict)
        and set(members) <= {item.key for item in field.items}
        and all(_is_item(item, members) for item in field.items)
        for members in value
    )


def _is_item(item: Field, members: dict[str, object]) -> bool:
    if item.key not in members:
        return not item.is_required
    value = members[item.key]
    is_sound = is_of(item.kind, value) and (not item.values or value in item.values)
    return is_sound and (not item.items or are_items(item, value))


def replaced_by(number: int, *, is_text: bool) -> Edit:
    """Return the repair that writes a number, as text or as an integer."""
    return Edit("replace", f'"{number}"' if is_text else str(number))


@lru_cache(maxsize=256)  # a misspelt key is misspelt in every device
def nearest_key(key: str, known: tuple[str, ...], cutoff: float = 0.75) -> str | None:
    """Return the known key that a misspelt one probably means, None if none."""
    import difflib

    return next(iter(difflib.get_close_matches(key, known, n=1, cutoff=cutoff)), None)
